"""The handshake: all ranks continue or all raise, and the error names the rank and the difference."""

from __future__ import annotations

import pytest

from bitlane.compress.codecs.wire import HEADER_BYTES, CodecId, Flag, Header
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.errors import BitlaneError, DataError

pytestmark = pytest.mark.torch


def handshakes(size, settings, header):
    """Return the result or the error text of `handshake` on each rank."""

    def work(transport):
        link = Link(transport, settings(transport.rank))
        try:
            return [each.flags for each in link.handshake(header(transport.rank))], transport.sent
        except DataError as error:
            return f"DataError: {error}"
        except BitlaneError as error:
            return f"BitlaneError: {error}"

    return run_ranks_in_threads(size, work)


def plain(rank):
    return Header(CodecId.LINEAR, 4, 100, 0, step=3)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_flags_reach_all_ranks_in_32_bytes_each(size):
    def header(rank):
        return Header(CodecId.LINEAR, 4, 100, 0, Flag.NOT_FINITE if rank == size - 1 else Flag(0))

    expected = [Flag(0)] * (size - 1) + [Flag.NOT_FINITE]
    assert handshakes(size, lambda rank: "same", header) == [(expected, HEADER_BYTES * (size - 1))] * size


def test_different_settings_are_reported():
    found = handshakes(3, lambda rank: "QSGD(bits=8)" if rank < 2 else "QSGD(bits=4)", plain)
    expected = "DataError: ranks have different settings: rank 0 has QSGD(bits=8), rank 2 has QSGD(bits=4)"
    assert found == [expected] * 3


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Header(CodecId.LINEAR, 4, 100, 0, step=4), "different step: rank 0 has 3, rank 1 has 4"),
        (Header(CodecId.LINEAR, 5, 100, 0, step=3), "different bits: rank 0 has 4, rank 1 has 5"),
        (Header(CodecId.LINEAR, 4, 99, 0, step=3), "different count: rank 0 has 100, rank 1 has 99"),
    ],
)
def test_different_steps_bits_and_counts_are_reported(other, message):
    found = handshakes(2, lambda rank: "same", lambda rank: other if rank == 1 else plain(rank))
    assert len(set(found)) == 1 and message in found[0]


def test_a_failed_rank_is_named_on_the_others():
    def header(rank):
        return Header(CodecId.LINEAR, 4, 100, 0, Flag.FAILED if rank == 1 else Flag(0), step=3)

    found = handshakes(3, lambda rank: "same", header)
    message = "BitlaneError: rank 1 failed in step 3: see the error message of that rank"
    assert found[0] == found[2] == message
    assert found[1][0] == [Flag(0), Flag.FAILED, Flag(0)]  # the failed rank raises its own error later


def test_texts_and_lengths_reach_all_ranks():
    def work(transport):
        link = Link(transport, "")
        return link.gather_texts("x" * transport.rank), link.gather_lengths(10**12 + transport.rank)

    assert run_ranks_in_threads(3, work) == [(["", "x", "xx"], [10**12, 10**12 + 1, 10**12 + 2])] * 3

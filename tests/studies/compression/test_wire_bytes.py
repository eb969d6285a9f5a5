"""The comparison of declared bytes and bytes at the socket: a short run, and its verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers import rank_work

from bitlane.compress.collectives.launch import launch
from bitlane.compress.registry import EXAMPLES
from bitlane_studies.compression.wire_bytes import WireTrial, main, verdict

pytestmark = pytest.mark.torch

FINE = WireTrial(10_000_000, 10_010_000, 0.2520, 1.0, "a1")


@pytest.mark.parametrize("ranks", ["2", "3"])
def test_every_compressor_keeps_its_guarantees(ranks, capsys):
    """With 60,000 values in buckets of 1 MB the payloads are below the guaranteed minimum of some compressors."""
    assert main(["--ranks", ranks, "--values", "60000", "--steps", "6", "--timeout", "200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[2:]] == list(EXAMPLES)
    assert all(line.endswith("holds") for line in lines[2:])


def test_large_payloads(capsys):
    """With more than 1 MiB per step, the bytes at the socket and the volume are as guaranteed."""
    assert main(["qsgd:bits=8", "efsign", "--ranks", "3", "--values", "8600000", "--steps", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[1] for line in lines] == ["qsgd:bits=8", "efsign"]
    for line in lines:
        declared, socket, ratio = (float(cell) for cell in line.split()[2:5])
        assert declared > 1.05 and declared <= socket and 1 <= ratio <= 1.02


def test_a_trial_closes_its_connections():
    """A connection that closes in a later trial takes its bytes out of the kernel's sum."""
    for before, after in launch(rank_work.connections_around_trial, 3, "qsgd:bits=8", timeout=100):
        assert before == after


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, ""),
        ({"socket_bytes": 10_210_000}, "rank 1 sends more bytes than declared"),
        ({"volume": 0.27}, "rank 1 exceeds the guaranteed volume"),
        ({"digest": "b2"}, "rank 1 has another average"),
        ({"declared_bytes": 1_000_000, "socket_bytes": 2_000_000, "volume": 0.27}, ""),
    ],
)
def test_violations_are_reported(change, message):
    assert verdict("qsgd:bits=8", 2, [FINE, replace(FINE, **change), FINE]) == message

"""The coverpoints of the adapters of memory ports: their bins, and runs that fill them without a mismatch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bitlane_sim.rtl.disturbance import CHANNELS
from bitlane_sim.rtl.zynq_device import build_ports
from bitlane_verify.coverage.zynq_ports import (
    CONFIGS,
    ZynqStimulus,
    declare,
    open_rig,
    read_lengths,
    write_lengths,
)

ONE, TWO, WIDE = CONFIGS.values()


def test_two_ports_have_pairs_of_words() -> None:
    assert read_lengths(ONE) == tuple(range(1, 17))
    assert read_lengths(TWO) == read_lengths(WIDE) == tuple(range(2, 17, 2))
    assert write_lengths(ONE) == {"chunk": 16, "record": ONE.record_beats}
    assert write_lengths(TWO) == {"chunk": 16, "record": 2 * TWO.record_beats}
    assert write_lengths(WIDE) == {"chunk": 8, "record": 2 * WIDE.record_beats}


def test_only_a_pair_of_ports_has_a_second_one() -> None:
    found = [{name.partition(":")[0] for name in declare(config).missed()} for config in (ONE, TWO)]
    assert found[1] - found[0] == {"answers of the second port"}
    assert found[0] < found[1]


def test_buses_fill_the_bins_of_their_lengths() -> None:
    """A length that a port cannot have fills none."""
    lengths = [0] * 17
    lengths[3] = lengths[4] = 1
    monitor = SimpleNamespace(
        read_lengths=lengths,
        write_lengths=[0] * 16 + [2],
        read_page_ends=1,
        write_page_ends=0,
        stalls=dict.fromkeys(CHANNELS, 0) | {"ar": 5},
    )
    group = declare(TWO)
    empty = set(group.missed())

    class Watched(ZynqStimulus):
        device = SimpleNamespace(monitor=monitor)  # type: ignore[assignment]

    Watched(SimpleNamespace(config=TWO), group).sample_buses()  # type: ignore[arg-type]
    assert empty - set(group.missed()) == {
        *("read burst, words: 4", "write burst: chunk", "burst ends at 4 KiB: read", "stall: ar"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_runs(name: str, seed: int) -> None:
    """Equal to the reference, with errors and resets among them."""
    config = CONFIGS[name]
    group = declare(config)
    rig = open_rig(config, build_ports(config))
    stimulus = ZynqStimulus(rig, group)
    for i in range(80):
        stimulus.run(seed + i)
    stimulus.sample_buses()
    rig.close()
    assert stimulus.failures == []
    empty = {name.partition(":")[0] for name in group.missed()}
    assert not empty & {"stall", "write burst", "reset, within"}

"""The coverpoints of a build: registers and buses fill their own bins, and no others."""

from __future__ import annotations

import pytest
from tests.helpers.copies import copied
from tests.helpers.mischief import Mischief

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.registers import FIELDS
from bitlane_sim.rtl.disturbance import CHANNELS, Disturbance
from bitlane_sim.rtl.harness import Moment, Monitor
from bitlane_verify.coverage.covergroup import Covergroup
from bitlane_verify.coverage.functional import BEAT_POINTS, declare, sample_buses, sample_registers
from bitlane_verify.coverage.stimulus import RUN_REGISTERS
from bitlane_verify.equivalence.random_jobs import SMALL

WIDE = AcceleratorConfig(128, 2, max_features=512, row_buffer_beats=512)  # two rows a beat
NEVER = Moment(None, 0, 0)


def filled(group: Covergroup, config: AcceleratorConfig = SMALL) -> set[str]:
    """All bins that were hit."""
    return set(declare(config).missed()) - set(group.missed())


def registers(value: int, **others: int) -> dict[str, int]:
    """Registers and fields, all of one value but for some."""
    return dict.fromkeys((*RUN_REGISTERS, *FIELDS), value) | others


def test_modes_fill_their_own_bins_only() -> None:
    group = declare(SMALL)
    sample_registers(
        group,
        registers(
            0, features=33, groups=10, batch_groups=4, batch_tail=1, epoch_tail=1, base_digits=3, draws=1, draw_sets=2,
            epochs=2, loss=Loss.HINGE, prox=Prox.L1, unpenalized_intercept=1, staleness=1, decay=NO_DECAY, step=5,
            weight_exponent=9,
        ),
        SMALL,
    )  # fmt: skip
    assert filled(group) == {
        "loss, prox, staleness: HINGE x L1 x stale", "stored digits: 4", "base digits: 3", "digits read: base and draw",
        "stored digits, last batch: 4 x partial", "batches: partial last", "last lane: 0", "chunks: 2", "draw sets: 2",
        "epochs: within the draw sets", "snapshots: off", "decay: off", "class weights: different",
        "weight exponent: -7", "prox, last feature: L1 x unpenalized",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("groups", "batch", "expected"),
    [
        (8, 4, {"full last"}),
        (4, 4, {"one batch an epoch"}),
        (3, 1, {"full last", "one row"}),
        (9, 4, {"partial last"}),
    ],
)
def test_batches(groups: int, batch: int, expected: set[str]) -> None:
    group = declare(SMALL)
    sample_registers(group, registers(1, groups=groups, batch_groups=batch), SMALL)
    assert {name.partition(": ")[2] for name in filled(group) if name.startswith("batches")} == expected


def test_partial_beats_are_bins_of_wide_ports_only() -> None:
    point = BEAT_POINTS[0]
    assert point not in {name for name, _, _ in declare(SMALL).table()}
    group = declare(WIDE)
    sample_registers(group, registers(1, groups=3, batch_groups=2, batch_tail=2), WIDE)
    assert f"{point}: full x partial" not in group.missed()
    assert f"{point}: partial x partial" in group.missed()


# --- the bus monitor, on the small master
def test_monitor_sees_bursts_and_page_ends(mischief: Mischief) -> None:
    monitor = copied(mischief(64), Disturbance()).monitor
    assert monitor.read_lengths == (*[0] * 16, 4) == monitor.write_lengths
    assert (monitor.read_page_ends, monitor.write_page_ends) == (0, 1)
    assert not any(monitor.stalls.values())
    assert monitor.error_moment == Moment(0, 0, 0)
    group = declare(SMALL)
    sample_buses(group, monitor, SMALL)
    assert filled(group) == {"read burst: 16", "write burst: chunk", "burst ends at 4 KiB: write"}


@pytest.mark.parametrize("channel", CHANNELS)
def test_monitor_sees_each_channel_stall(mischief: Mischief, channel: str, seed: int) -> None:
    harness = copied(mischief(64), Disturbance(seed, **{f"stall_{channel}": 0.8}))  # type: ignore[arg-type]
    assert {name for name, cycles in harness.monitor.stalls.items() if cycles} == {channel}


def test_monitor_keeps_the_first_error(mischief: Mischief) -> None:
    harness = copied(mischief(64), Disturbance(write_error_burst=1))
    moment = harness.monitor.error_moment
    assert 2 <= moment.write_bursts <= 3
    harness.disturb(Disturbance(write_error_burst=0))
    assert harness.monitor.error_moment == moment


def test_monitor_knows_when_reset_came(mischief: Mischief) -> None:
    harness = copied(mischief(64), Disturbance())
    assert harness.monitor.written.base_beats == 0
    harness.reset()
    assert harness.monitor.reset.base_beats == harness.counters.read_beats == 64
    assert harness.monitor.reset.write_bursts == 4


def test_bus_bins_stay_empty_without_traffic() -> None:
    group = declare(SMALL)
    quiet = Monitor((0,) * 17, (0,) * 17, 0, 0, dict.fromkeys(CHANNELS, 0), NEVER, NEVER, NEVER)
    sample_buses(group, quiet, SMALL)
    assert filled(group) == set()

"""What the reference does in a run: clipped values on the right side, the prox, levels and draws, rounding."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.fixed_point import round_at_random
from bitlane.contract.formats import LEVEL, MASTER
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.prng import model_lanes, random_words
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job, JobResult
from bitlane_verify.coverage.covergroup import Covergroup
from bitlane_verify.coverage.functional import declare, sample_reference
from bitlane_verify.coverage.reference_events import Events, reference_events
from bitlane_verify.equivalence.random_jobs import SMALL, SMALL_TABLE, random_job

COUNTED = {"z", "r", "s", "d", "c_1", "c_2", "master"}  # of which the accelerator counts saturations


def run(job: Job, config: AcceleratorConfig = SMALL) -> tuple[Events, JobResult]:
    with reference_events(job.state.settings, config.rows_per_beat) as events:
        result = Driver(EmulatorDevice(config)).run(job)
    return events, result


def filled(events: Events, config: AcceleratorConfig = SMALL) -> set[str]:
    """The bins that events fill."""
    group: Covergroup = declare(config)
    empty = set(group.missed())
    sample_reference(group, events)
    return empty - set(group.missed())


@pytest.mark.parametrize("config", [SMALL, SMALL_TABLE], ids=["digit lanes", "table lanes and rounding"])
def test_clipped_sides_add_up_to_the_counter(config: AcceleratorConfig, seed: int) -> None:
    """Of squares: what is seen on both sides is what the accelerator counts, which leaves the model's rounding out."""
    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(20):
        job = random_job(rng, config, features=40, rows=20)
        settings = dataclasses.replace(job.state.settings, loss=Loss.SQUARES)
        job = dataclasses.replace(job, state=ModelState(job.state.master, settings))
        events, result = run(job, config)
        clipped = sum(
            count
            for (coverpoint, *names), count in events.items()
            if (coverpoint == "clipped" and names[0] in COUNTED)
            or (coverpoint == "clipped after rounding" and names[0] != "model")
        )
        assert clipped == result.counters.saturations
        found += clipped
    assert found


@pytest.mark.parametrize("side", ["high", "low"])
def test_sides(side: str, seed: int) -> None:
    """Samples at the upper end of their range, weights at an end of theirs: z leaves its range there, r with it."""
    weight, label = (MASTER.maximum, -1) if side == "high" else (MASTER.minimum, 1)
    geometry = Geometry(32, 4, 2, False, 4)
    codes, labels = np.full((4, 32), 4**2 - 1, np.uint32), np.full((4, 1), label, np.int16)
    settings = Settings(step=1, step_negative=1, loss=Loss.SQUARES, prox=Prox.NONE)
    job = Job(
        geometry, [pack_base(codes, labels, geometry)], [], ModelState(np.full((1, 32), weight, np.int32), settings), 1
    )
    events, _ = run(job)
    clipped = {tuple(names): count for (coverpoint, *names), count in events.items() if coverpoint == "clipped"}
    assert clipped["z", side] == clipped["r", side] == 8  # two copies of four rows
    assert not any(count for (_, where), count in clipped.items() if where != side)


def test_a_run_that_clips_nothing_fills_no_side(seed: int) -> None:
    job = random_job(np.random.default_rng(seed), SMALL, features=40, rows=20)
    widest = {"prox": Prox.BOX, "bounds": (-32768, 32767), "unpenalized_intercept": False}
    quiet = dataclasses.replace(job.state.settings, step=0, step_negative=0, penalty_step=0, loss=Loss.HINGE, **widest)
    events, _ = run(dataclasses.replace(job, state=ModelState(np.zeros_like(job.state.master), quiet)))
    assert filled(events) == {"prox: BOX inside"}


def test_levels_and_draws() -> None:
    """Two features of one base bit: one with all levels equal, one whose first interval takes all rows but one."""
    geometry = Geometry(2, 3, 0, True, 3, half_digit=True, codebook=True)
    codes = np.array([[0, 0], [0, 0], [0, 1]], np.uint32)
    draws = np.array([[0, 1], [0, 2], [0, 3]], np.uint8)  # both low; low then high, high then low, both high
    levels = np.array([[7, LEVEL.minimum], [7, LEVEL.maximum], [7, LEVEL.maximum]], np.int32)
    base = pack_base(codes, np.zeros((3, 1), np.int16), geometry)
    settings = Settings(step=0, step_negative=0)
    job = Job(
        geometry,
        [base],
        [pack_draws(draws, geometry)],
        ModelState(np.zeros((1, 2), np.int32), settings),
        1,
        levels=levels,
    )
    events, _ = run(job, SMALL_TABLE)
    assert filled(events, SMALL_TABLE) == {
        "level: smallest", "level: positive", "level: largest",
        "equal levels of a feature: some", "equal levels of a feature: all",
        "interval of a sample: no width", "interval of a sample: full range",
        "interval, width, samples: no x some", "interval, width, samples: no x none",
        "interval, width, samples: some x some",
        "base bits, interval, draws: 1 x first x low low", "base bits, interval, draws: 1 x first x low high",
        "base bits, interval, draws: 1 x first x high low", "base bits, interval, draws: 1 x last x high high",
        "base bits, codebook of a chunk: 1 x only",
    }  # fmt: skip


def test_codebooks_of_chunks(seed: int) -> None:
    """A chunk counts when its codebook is no other chunk's."""
    job = random_job(np.random.default_rng(seed), SMALL_TABLE)
    geometry = dataclasses.replace(job.geometry, features=96, half_digit=True, base_digits=0, rows=2, batch=2)
    codes = np.zeros((2, 96), np.uint32)
    levels = np.ones((3, 96), np.int32)
    levels[:, 64:] = 2  # of the last chunk; those of the first two are alike
    base = pack_base(codes, np.zeros((2, 1), np.int16), geometry)
    drawn = pack_draws(codes.astype(np.uint8), geometry)
    settings = Settings(step=0, step_negative=0)
    job = Job(geometry, [base], [drawn], ModelState(np.zeros((1, 96), np.int32), settings), 1, levels=levels)
    events, _ = run(job, SMALL_TABLE)
    chunks = [names for (coverpoint, *names), count in events.items() if coverpoint.endswith("of a chunk") and count]  # type: ignore[attr-defined]
    assert chunks == [[1, "last"]]


def test_rounding_of_the_model(seed: int) -> None:
    """Weights whose rounding is known: up with each carry, from -1 to 0, beyond the largest, and down."""
    cut = 4
    words = random_words(seed, range(1), model_lanes())[0]
    low = words.astype(np.int64) & 15
    up = [int(lane) for lane in np.flatnonzero(low)][:4]  # lanes whose word carries with 15
    down = next(lane for lane in range(32) if lane not in up and low[lane] < 15)
    master = np.zeros((1, 32), np.int32)
    master[0, up] = [0b0000_1111, 0b0001_1111, -1, MASTER.maximum]
    master[0, down] = -31  # 1 above a multiple of 16
    geometry = Geometry(32, 1, 0, True, 1, half_digit=True, codebook=True)
    codes, labels = np.zeros((1, 32), np.uint32), np.zeros((1, 1), np.int16)
    settings = Settings(step=0, step_negative=0, model_cut=cut, seed=seed)
    levels = np.zeros((3, 32), np.int32)
    drawn = pack_draws(codes.astype(np.uint8), geometry)
    job = Job(geometry, [pack_base(codes, labels, geometry)], [drawn], ModelState(master, settings), 1, levels=levels)
    events, _ = run(job, SMALL_TABLE)
    carries = {names[1]: count for (coverpoint, *names), count in events.items() if coverpoint == "rounding up, carry"}
    expected = round_at_random(master[0].astype(np.int64), words, cut)
    assert expected[up].tolist() == [16, 32, 0, MASTER.maximum + 1] and expected[down] == -32
    bins = filled(events, SMALL_TABLE)
    assert set(carries) == {"lowest bit", "more bits", "from -1 to 0", "out of range"} and all(carries.values())
    assert {f"lane, model rounding: {lane} x up" for lane in up} <= bins
    assert f"lane, model rounding: {down} x down" in bins
    assert {"rounding, sign: model x negative x down", "rounding, sign: model x positive x up"} <= bins
    assert {"model rounded: at the start", "model rounded: after a batch"} <= bins
    assert "clipped after rounding: model x high" in bins
    assert not any(f": {value} x" in name for value in "sd" for name in bins)


def test_rounding_of_scaled_gradients_by_row_of_a_beat(seed: int) -> None:
    """Only s is other than 0 without draws, and rows of both places of a beat are rounded."""
    config = dataclasses.replace(SMALL, width=128, random_rounding=True)
    geometry = Geometry(32, 64, 2, False, 64, rows_per_beat=2)
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 16, (64, 32)).astype(np.uint32)
    labels = rng.integers(-5000, 5000, (64, 1)).astype(np.int16)  # so small that s is not clipped
    settings = Settings(step=50000, step_negative=50000, scaled_gradient_cut=12, seed=seed)
    job = Job(geometry, [pack_base(codes, labels, geometry)], [], ModelState(np.zeros((1, 32), np.int32), settings), 1)
    events, _ = run(job, config)
    bins = {name for name in filled(events, config) if name.startswith("row of a beat")}
    assert bins == {f"row of a beat, rounding: {row} x s x {way}" for row in (0, 1) for way in ("up", "down")}
    assert "rounding changes nothing: d" in filled(events, config)

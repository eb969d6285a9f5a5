"""Launches: the results do not depend on how the device memory divides a training."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.machines import random_settings

from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import MASTER_OFFSET
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import DEFAULT_LEVEL_SLOTS
from bitlane.contract.packing import unpack_base, unpack_draws
from bitlane.contract.precision import Precision
from bitlane.driver.driver import Driver
from bitlane.driver.job import job_bytes
from bitlane.errors import DataError
from bitlane.levels.codebooks import fit_codebook
from bitlane.quantization.scaling import fit_scaling
from bitlane.support.rng import generator
from bitlane.training.double_buffer import run_launches
from bitlane.training.launches import Launch, ModelState, launches
from bitlane.training.plan import ExecutionPlan
from bitlane.training.samples import SampleEncoder

PRECISIONS = [
    (Precision(4), 5),
    (Precision(2), 3),
    (Precision(8), 1),
    (Precision(4, "naive"), 5),
    (Precision(4, "naive"), 2),
    (Precision(6, "nearest"), 1),
    (Precision(32, "full"), 1),
    (Precision(3, codebook=True), 5),
    (Precision(5, codebook=True), 2),
]


def table(seed, rows=701, n=40, outputs=1):
    rng = np.random.default_rng(seed)
    return rng.normal(3, 2, (rows, n)), rng.normal(size=(rows, outputs))


def samples_of(X, y, precision, seed):
    scaling = fit_scaling(X, y, True, precision.limit)
    levels = fit_codebook(X, scaling, precision, "optimal" if precision.codebook else "uniform")
    return SampleEncoder(X, y, scaling, precision, seed, levels)


def plan_of(X, y, precision, sets, rows_per_beat=1, batch=9, **changes):
    geometry = Geometry(
        features=X.shape[1],
        rows=len(X),
        base_digits=precision.base_digits,
        draws=precision.draws,
        batch=batch,
        rows_per_beat=rows_per_beat,
        outputs=y.shape[1],
        half_digit=precision.half_digit,
        codebook=precision.codebook,
    )
    plan = ExecutionPlan(
        geometry=geometry,
        epochs=5,
        draw_sets=sets,
        shared_base=precision.sampling != "naive",
        snapshots=False,
        capacity=128 << 20,
    )
    return replace(plan, **changes)


class Trained:
    """Runs the launches of a plan on a device of its capacity and keeps the results."""

    def __init__(self, plan, samples, state):
        geometry = plan.geometry
        device = emulator(
            capacity_bytes=plan.capacity,
            width=64 * geometry.rows_per_beat,
            outputs=geometry.outputs,
            level_slots=DEFAULT_LEVEL_SLOTS if geometry.codebook else 0,
        )
        self.launches = self.saturations = 0
        self.losses, self.models = [], []
        partial = np.zeros(geometry.outputs, np.int64)
        self.state = state
        for launch, result in run_launches(Driver(device), plan, samples, state):
            self.state = Launch.next_state(self.state, result)
            self.launches += 1
            self.saturations += result.counters.saturations
            partial = partial + result.loss[0] if not launch.covers_all_rows else result.loss
            if launch.ends_epoch:
                self.losses += np.atleast_2d(partial).tolist()
                partial = np.zeros(geometry.outputs, np.int64)
                models = result.state.master[np.newaxis] if result.snapshots is None else result.snapshots
                self.models += models.tolist()
        assert device.allocated == 0

    def check_same(self, other):
        assert self.losses == other.losses
        assert self.saturations == other.saturations
        assert self.models[-1] == other.models[-1]
        assert self.state.settings == other.state.settings
        if len(self.models) == len(other.models):
            assert self.models == other.models


def beginning(rng, geometry, **settings):
    master = np.full((geometry.outputs, geometry.features), MASTER_OFFSET, np.int32)
    small = {"step": 0x9000 | 11 << 16, "step_negative": 0xA000 | 11 << 16, "penalty_step": 0xC000 | 8 << 16}
    return ModelState(master, random_settings(rng, **small, **settings))


@pytest.mark.parametrize(("precision", "sets"), PRECISIONS, ids=str)
@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize(("rows_per_beat", "outputs"), [(1, 1), (4, 2)])
def test_memory_does_not_change_the_results(seed, precision, sets, snapshots, rows_per_beat, outputs):
    X, y = table(seed, outputs=outputs)
    plan = plan_of(X, y, precision, sets, rows_per_beat, snapshots=snapshots)
    samples = samples_of(X, y, precision, seed)
    state = beginning(np.random.default_rng(seed), plan.geometry, staleness=0)
    whole = Trained(plan, samples, state)
    assert whole.launches == 1 and len(whole.losses) == 5

    two_sets = job_bytes(plan.geometry, 2, 2 if precision.sampling == "naive" else 1, 2, snapshots)
    third = job_bytes(replace(plan.geometry, rows=27 * 9), 1, 1, 1, False)
    for capacity in (two_sets, two_sets * 3 // 2, third, 2 * third):
        cut = replace(plan, capacity=capacity)
        some = Trained(cut, samples, state)
        whole.check_same(some)
        if sets == 5:
            assert some.launches == -(-5 // cut.launch_epochs) if cut.launch_epochs else some.launches >= 2 * 5


def test_double_buffering_needs_room_for_two_launches():
    """One launch takes all epochs if they fit; otherwise a launch takes half of the memory, if an epoch fits there."""
    X, y = table(0)
    plan = plan_of(X, y, Precision(4, "naive"), 5)
    needed = {epochs: job_bytes(plan.geometry, epochs, epochs, epochs, False) for epochs in range(1, 6)}
    for capacity, epochs, ahead in (
        (needed[5], 5, True),
        (2 * needed[2], 2, True),
        (2 * needed[2] - 4096, 1, True),
        (2 * needed[1] - 4096, 2, False),
        (needed[1], 1, False),
        (needed[1] - 4096, 0, True),
    ):
        cut = replace(plan, capacity=capacity)
        assert (cut.launch_epochs, cut.double_buffered) == (epochs, ahead)


@pytest.mark.parametrize(("precision", "sets"), PRECISIONS, ids=str)
@pytest.mark.parametrize("capacity", [128 << 20, 180 << 10, 52 << 10])
def test_a_continued_run_equals_an_uninterrupted_run(seed, precision, sets, capacity):
    X, y = table(seed)
    plan = plan_of(X, y, precision, sets, capacity=capacity)
    samples = samples_of(X, y, precision, seed)
    state = beginning(np.random.default_rng(seed), plan.geometry, staleness=0)
    whole = Trained(plan, samples, state)
    first = Trained(replace(plan, epochs=2), samples, state)
    rest = Trained(replace(plan, first_epoch=2), samples, first.state)
    assert whole.losses == first.losses + rest.losses
    assert whole.state.settings == rest.state.settings
    assert whole.state.master.tolist() == rest.state.master.tolist()


def test_staleness_1_allows_launches_of_epochs_but_not_of_parts(seed):
    """Every launch begins with the newest model, which is correct for an epoch but not for a part of one."""
    X, y = table(seed)
    precision = Precision(4)
    plan = plan_of(X, y, precision, 5)
    samples = samples_of(X, y, precision, seed)
    state = beginning(np.random.default_rng(seed), plan.geometry, staleness=1)
    whole = Trained(plan, samples, state)
    segments = Trained(replace(plan, capacity=job_bytes(plan.geometry, 2, 1, 2, False)), samples, state)
    assert segments.launches == 3
    whole.check_same(segments)
    ahead = Trained(replace(plan, capacity=2 * job_bytes(plan.geometry, 1, 1, 1, False)), samples, state)
    assert ahead.launches == 5
    whole.check_same(ahead)
    with pytest.raises(DataError, match=r"staleness=1 needs all rows in the 20480 bytes.*lower bits.*staleness=0"):
        Trained(replace(plan, capacity=20 << 10), samples, state)


@pytest.mark.parametrize("precision", [Precision(4), Precision(4, "naive"), Precision(5, codebook=True)], ids=str)
def test_the_bits_of_a_row_do_not_depend_on_its_place(seed, monkeypatch, precision):
    """The bits do not depend on rows_per_beat, the batch size or the size of the encoded blocks."""
    X, y = table(seed, rows=203, outputs=2)
    samples = samples_of(X, y, precision, seed)
    found = []
    for rows_per_beat, batch, values in ((1, 8, 1 << 18), (4, 8, 1 << 18), (8, 7, 4000), (2, 500, 1)):
        monkeypatch.setattr("bitlane.training.samples.ENCODE_VALUES", values)
        geometry = plan_of(X, y, precision, 1, rows_per_beat, batch).geometry
        codes, labels = unpack_base(samples.base(geometry, 0, 3), geometry)
        drawn = codes
        if precision.draws:
            drawn = unpack_draws(samples.draws(geometry, 0, [3])[0], geometry)
        found.append((codes.tolist(), labels.tolist(), drawn.tolist()))
    assert all(each == found[0] for each in found)


def test_a_draw_set_does_not_depend_on_the_number_of_epochs(seed):
    """Epoch k of a long run reads the same draws as epoch k of a short run."""
    X, y = table(seed)
    precision = Precision(4)
    plan = plan_of(X, y, precision, 4, epochs=4)
    state = beginning(np.random.default_rng(seed), plan.geometry)
    samples = samples_of(X, y, precision, seed)
    long = Trained(plan, samples, state)
    short = Trained(replace(plan, draw_sets=2, epochs=2), samples, state)
    assert long.losses[:2] == short.losses
    assert Trained(replace(plan, epochs=2), samples_of(X, y, precision, seed + 1), state).losses != short.losses


def test_only_the_last_launch_of_an_epoch_decays(seed):
    X, y = table(seed)
    precision = Precision(8)
    plan = plan_of(X, y, precision, 1, capacity=26 << 10, epochs=1)
    state = beginning(np.random.default_rng(seed), plan.geometry, staleness=0)
    jobs = [(start.ends_epoch, start.job(plan, state)) for start in launches(plan, samples_of(X, y, precision, seed))]
    assert len(jobs) > 2 and [ends for ends, _ in jobs] == [False] * (len(jobs) - 1) + [True]
    assert sum(job.geometry.rows for _, job in jobs) == len(X)
    assert all(job.geometry.rows % plan.geometry.batch == 0 for ends, job in jobs if not ends)
    for ends, job in jobs:
        assert job.state.settings == (state.settings if ends else replace(state.settings, decay=NO_DECAY))


@pytest.mark.parametrize("rows_per_beat", [1, 8])
def test_a_batch_larger_than_the_memory_is_refused(seed, rows_per_beat):
    X, y = table(seed, rows=5000)
    plan = plan_of(X, y, Precision(8), 1, rows_per_beat, batch=4000, capacity=64 << 10)
    with pytest.raises(DataError, match=r"batch of 4000 rows does not fit the 65536 bytes.*lower batch_size or bits"):
        next(launches(plan, samples_of(X, y, Precision(8), seed)))


def test_a_launch_has_at_most_max_rows_groups(monkeypatch):
    """The limit applies to the number of groups, not to the number of rows."""
    monkeypatch.setattr("bitlane.training.plan.MAX_ROWS", 100)
    X, y = np.zeros((1000, 3)), np.zeros((1000, 1))
    for rows_per_beat, batch, whole, part in (
        (1, 9, False, 99),
        (8, 9, False, 450),
        (8, 16, False, 800),
        (8, 1000, False, 0),
    ):
        plan = plan_of(X, y, Precision(4), 1, rows_per_beat, batch)
        assert (plan.launch_epochs > 0) == whole
        if part:
            assert plan.launch_rows == part
    assert plan_of(X[:800], y[:800], Precision(4), 1, 8, 16).launch_epochs == 5


def test_draws_are_independent_of_the_users_random_numbers(seed):
    """Draws are independent of data that the user generated with the same seed."""
    users = np.random.default_rng(seed).random(1000)
    drawn = [generator(seed, purpose).random(1000) for purpose in (0, 1, 1 << 32)]
    assert np.abs(np.corrcoef([users, *drawn]) - np.eye(4)).max() < 0.2

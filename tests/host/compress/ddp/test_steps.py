"""The steps of a rank, with threads as ranks: non-finite values, failing ranks and different settings."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from bitlane.compress import QSGD, TopK
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.transport import RankFailed, run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRules, StepRunner
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.errors import BitlaneError, DataError

pytestmark = pytest.mark.torch

LAYOUT = [ParameterSpan(0, (600,)), ParameterSpan(600, (20, 20))]
N = 1000
CPU = torch.device("cpu")


def steps_of(transport, compressor, nonfinite="raise", debug=False, layout=LAYOUT):
    rules = StepRules(nonfinite, debug)
    return StepRunner(compressor, transport, AlphaBetaModel(), layout, CPU, Stats(), rules)


def gradient(seed, rank, step):
    return torch.from_numpy(np.random.default_rng([seed, rank, step]).standard_normal(N).astype(np.float32))


def error_text(work):
    try:
        work()
    except BitlaneError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@dataclass(frozen=True)
class Failing:
    """QSGD with error feedback that fails on rank 1: before or between exchanges of step 1, or with a wrong result."""

    when: str
    codec: int = field(default=QSGD().codec, init=False)
    policy: None = field(default=None, init=False)

    def reducer(self, layout, link, model, device):
        inner = QSGD(8, error_feedback=True).reducer(layout, link, model, device)
        return FailingReducer(inner, link, self.when)


class FailingReducer:
    bits = 8

    def __init__(self, inner, link, when):
        self.inner, self.link, self.when = inner, link, when

    def average(self, vector, step):
        if self.when == "before" and step == 1 and self.link.rank == 1:
            raise MemoryError("no room for codes")
        self.inner.average(vector, step)
        if self.when == "different" and self.link.rank == 1:
            vector[5] += 1
        if self.when == "lost":
            self.inner.averaging.residual[700:] = 0
        if self.when == "between" and step == 1:
            if self.link.rank == 1:
                raise MemoryError("no room for codes")
            self.link.all_gather(vector[:1].view(torch.uint8), [4] * self.link.size)

    def __getattr__(self, name):
        return getattr(self.inner, name)


def test_skipped_steps_leave_the_state_unchanged(seed):
    """Steps 0, 1 (a NaN on one rank), 2 give what steps 0 and 2 give without step 1."""

    def work(transport, with_nan):
        steps = steps_of(transport, QSGD(2, error_feedback=True), "skip")
        found = []
        for step in (0, 1, 2):
            vector = gradient(seed, transport.rank, step)
            if step == 1:
                if not with_nan:
                    steps.step += 1
                    continue
                vector[7] = torch.nan if transport.rank == 2 else 1.0
            before = steps._reducer.residual() if step else None
            found.append(steps.average(lambda vector=vector: vector).clone())
            if step == 1:
                assert torch.equal(before, steps._reducer.residual())
        return found, steps.stats.skipped

    with_nan = run_ranks_in_threads(3, lambda transport: work(transport, True))
    without = run_ranks_in_threads(3, lambda transport: work(transport, False))
    for (found, skipped), (wanted, _) in zip(with_nan, without, strict=True):
        assert skipped == 1
        assert torch.equal(found[1], torch.zeros(N))
        assert torch.equal(found[0], wanted[0]) and torch.equal(found[2], wanted[1])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nonfinite_pass_averages_uncompressed(bad, seed):
    def work(transport):
        steps = steps_of(transport, QSGD(2, error_feedback=True), "pass")
        steps.average(lambda: gradient(seed, transport.rank, 0))
        kept = steps._reducer.residual()
        vector = gradient(seed, transport.rank, 1)
        vector[7] = bad if transport.rank == 1 else 1.0
        average = steps.average(lambda: vector)
        assert torch.equal(kept, steps._reducer.residual())
        return average, steps.stats.uncompressed

    ranks = [gradient(seed, rank, 1) for rank in range(3)]
    wanted = (ranks[0] + ranks[1] + ranks[2]) * (1 / 3)
    wanted[7] = bad
    for average, uncompressed in run_ranks_in_threads(3, work):
        assert uncompressed == 1
        assert torch.equal(average.nan_to_num(), wanted.nan_to_num()) and not torch.isfinite(average[7])


def test_nonfinite_values_raise_on_every_rank_and_the_next_step_works(seed):
    def work(transport):
        steps = steps_of(transport, QSGD(8))
        first = torch.full((N,), torch.inf) if transport.rank == 1 else torch.ones(N)
        text = error_text(lambda: steps.average(lambda: first))
        return text, steps.average(lambda: torch.ones(N)).tolist(), steps.step

    for text, after, step in run_ranks_in_threads(3, work):
        assert text.startswith("DataError: step 0: the gradient of rank 1 has NaN or infinite values")
        assert after == [1.0] * N and step == 1


def test_large_values_with_an_overflowing_sum_are_finite():
    def work(transport):
        steps = steps_of(transport, Uncompressed())
        return float(steps.average(lambda: torch.full((N,), 1e38))[0])

    assert run_ranks_in_threads(2, work) == [float(torch.tensor(1e38))] * 2


LIMIT = float(np.finfo(np.float32).max)
EVERY = [parse_compressor(text) for text in (*EXAMPLES, "auto") if "mqgrad" not in text]


@pytest.mark.parametrize("compressor", EVERY, ids=repr)
@pytest.mark.parametrize("most", [LIMIT, 3e38, 1e20, 2.0**41])
def test_finite_gradients_have_finite_averages(compressor, most, seed):
    """The mean of large gradients is exact to rounding; residuals and the steps after it are as without it."""
    ranks = 3

    def large(rank):
        found = gradient(seed, rank, 7)
        found *= most / found.abs().max()
        found[3] = most if rank else -most
        return found.clamp(-LIMIT, LIMIT)

    def work(transport, is_large):
        steps = steps_of(transport, compressor, layout=LAYOUT)
        found = []
        for step in range(4):
            if step == 1 and not is_large:
                steps.step += 1
                continue
            vector = large(transport.rank) if step == 1 else gradient(seed, transport.rank, step)
            found.append(steps.average(lambda vector=vector: vector).clone())
        return found, steps.stats.uncompressed

    wanted = np.mean([large(rank).numpy().astype(np.float64) for rank in range(ranks)], axis=0)
    without = run_ranks_in_threads(ranks, lambda transport: work(transport, False))
    for (found, uncompressed), (other, _) in zip(
        run_ranks_in_threads(ranks, lambda transport: work(transport, True)), without, strict=True
    ):
        assert uncompressed == 1
        np.testing.assert_allclose(found[1].numpy(), wanted, rtol=1e-6, atol=1e-6 * most)
        for mine, theirs in zip([found[0], *found[2:]], other, strict=True):
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("compressor", EVERY, ids=repr)
@pytest.mark.parametrize("scale", [2.0**-100, 2.0**39])
def test_small_and_large_gradients_are_compressed_alike(compressor, scale, seed):
    """A power of 2 changes no bit of an average but its exponent."""

    def work(transport, factor):
        steps = steps_of(transport, compressor, layout=LAYOUT)
        return [
            steps.average(lambda step=step: gradient(seed, transport.rank, step).clamp(-2, 2) * factor).clone() / factor
            for step in range(3)
        ]

    plain = run_ranks_in_threads(2, lambda transport: work(transport, 1.0))
    for mine, theirs in zip(run_ranks_in_threads(2, lambda transport: work(transport, scale)), plain, strict=True):
        for step, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            assert torch.isfinite(a).all() and a.count_nonzero() == b.count_nonzero(), step


@dataclass(frozen=True)
class Watching:
    """A policy of 4 bits that keeps the seconds of each step."""

    choices = (4,)

    def start(self):
        return WatchingChooser()


class WatchingChooser:
    bits = 4

    def __init__(self):
        self.seconds = []

    def after(self, observed, all_gather):
        self.seconds.append(observed.seconds)


def test_pauses_between_steps_are_no_time_of_a_step():
    def work(transport):
        steps = steps_of(transport, QSGD(bits=Watching()))
        for _ in range(3):
            time.sleep(1.5)  # validation, or a checkpoint
            steps.start_clock()
            time.sleep(0.05)  # the forward pass
            steps.start_clock()  # the loss is reported
            steps.average(lambda: torch.ones(N))
        return steps._chooser.seconds

    for seconds in run_ranks_in_threads(2, work):
        assert len(seconds) == 3 and all(0.05 <= each < 1.5 for each in seconds), seconds


def test_a_pause_after_a_step_that_raised_is_no_time_of_the_next():
    def work(transport):
        steps = steps_of(transport, QSGD(bits=Watching()))
        for value in (1.0, float("nan"), 1.0):
            steps.start_clock()
            with contextlib.suppress(DataError):
                steps.average(lambda value=value: torch.full((N,), value))
            time.sleep(1.5)
        return steps._chooser.seconds

    for seconds in run_ranks_in_threads(2, work):
        assert len(seconds) == 2 and all(each < 1.5 for each in seconds), seconds


def test_returning_the_average_counts_as_time_of_the_codec():
    def work(transport):
        steps = steps_of(transport, QSGD(8))
        steps.average(lambda: torch.ones(N), deliver=lambda average: time.sleep(0.2))
        return steps.stats.codec_seconds

    assert all(seconds >= 0.2 for seconds in run_ranks_in_threads(2, work))


def test_a_failing_gradient_is_reported_to_all_ranks_and_the_next_step_works():
    def broken():
        raise MemoryError("no room for the gradient")

    def work(transport):
        steps = steps_of(transport, QSGD(8))
        try:
            steps.average(broken if transport.rank == 1 else lambda: torch.ones(N))
        except (MemoryError, RankFailed) as error:
            text = f"{type(error).__name__}: {error}"
        return text, steps.average(lambda: torch.ones(N)).tolist()

    reported = "RankFailed: rank 1 failed in step 0: see the error message of that rank"
    texts = [reported, "MemoryError: no room for the gradient", reported]
    assert run_ranks_in_threads(3, work) == [(text, [1.0] * N) for text in texts]


@pytest.mark.parametrize("when", ["before", "between"])
def test_a_failing_compressor_does_not_block_the_others(when, seed):
    errors = {}

    def work(transport):
        steps = steps_of(transport, Failing(when))
        steps.average(lambda: gradient(seed, transport.rank, 0))
        try:
            steps.average(lambda: gradient(seed, transport.rank, 1))
        except Exception as error:
            errors[transport.rank] = type(error)

    began = time.monotonic()
    run_ranks_in_threads(3, work, timeout=60)
    assert time.monotonic() - began < 30
    assert errors == {0: RankFailed, 1: MemoryError, 2: RankFailed}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"compressor": QSGD(4)}, "rank 0 has QSGD(bits=8"),
        ({"nonfinite": "skip"}, "nonfinite='skip'"),
        ({"layout": [ParameterSpan(0, (10, 100))]}, "(10, 100)"),
    ],
)
def test_different_settings_raise_on_all_ranks(other, message):
    def work(transport):
        own = {"compressor": QSGD(8), **(other if transport.rank == 2 else {})}
        steps = steps_of(transport, **own)
        return error_text(lambda: steps.average(lambda: torch.ones(N)))

    found = run_ranks_in_threads(3, work)
    assert len(set(found)) == 1
    assert found[0].startswith("DataError: ranks have different settings") and message in found[0]


def test_different_steps_raise_on_all_ranks():
    def work(transport):
        steps = steps_of(transport, QSGD(8))
        steps.step = 5 if transport.rank == 1 else 4
        return error_text(lambda: steps.average(lambda: torch.ones(N)))

    found = run_ranks_in_threads(2, work)
    assert found[0] == found[1] and "different step: rank 0 has 4, rank 1 has 5" in found[0]


@pytest.mark.parametrize("compressor", [QSGD(2, error_feedback=True), TopK(0.01), QSGD(8)])
def test_debug_accepts_a_correct_compressor(compressor, seed):
    def work(transport):
        steps = steps_of(transport, compressor, debug=True)
        scales = torch.cat([torch.full((600,), 1e-5), torch.full((400,), 10.0)])
        for step in range(5):
            steps.average(lambda step=step: gradient(seed, transport.rank, step) * scales)
        return steps.step

    assert run_ranks_in_threads(3, work) == [5] * 3


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("different", "step 0: the average of rank 1 differs from that of rank 0"),
        ("lost", "step 0: parameter 1 of shape (20, 20) is not conserved"),
    ],
)
def test_debug_reports_errors_on_every_rank(when, message, seed):
    def work(transport):
        steps = steps_of(transport, Failing(when), debug=True)
        return error_text(lambda: steps.average(lambda: gradient(seed, transport.rank, 0)))

    found = run_ranks_in_threads(3, work)
    assert len(set(found)) == 1 and found[0].startswith(f"BitlaneError: {message}")


def test_a_saved_state_of_another_model_is_an_error_on_every_rank():
    def work(transport):
        saved = steps_of(transport, QSGD(8, error_feedback=True))
        saved.average(lambda: torch.ones(N))
        fresh = steps_of(transport, QSGD(8, error_feedback=True), layout=[ParameterSpan(0, (N,))])
        if transport.rank == 1:
            fresh.load_state_dict(saved.state_dict())
        return error_text(lambda: fresh.average(lambda: torch.ones(N)))

    found = run_ranks_in_threads(2, work)
    assert found[0].startswith("RankFailed: rank 1 failed in step 0")
    assert found[1].startswith("DataError: the saved state has shapes [[600], [20, 20]] instead of [[1000]]")


def test_nothing_to_save_before_the_first_step():
    def work(transport):
        return error_text(steps_of(transport, QSGD(8)).state_dict)

    assert run_ranks_in_threads(1, work) == ["DataError: there is no state before the first step"]


def test_nonfinite_is_checked_in_the_hook():
    from bitlane.compress import DDPCompression

    with pytest.raises(DataError, match="nonfinite must be one of raise, skip, pass; got 'ignore'"):
        DDPCompression(QSGD(8), nonfinite="ignore")

"""Steps in segments beside the backward pass, with threads as ranks: they equal the segments averaged one by one."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from tests.helpers import overlap_scenes

from bitlane.compress import QSGD, BitAllocation, TopK
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.launch import launch
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import RankFailed, run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes, vector_length, with_own_seed
from bitlane.compress.ddp.overlap import OverlappedStep, StepEnd, in_segments
from bitlane.compress.ddp.overlap_trial import OverlapTrial
from bitlane.compress.ddp.states import redistribute
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRules, StepRunner
from bitlane.compress.registry import EXAMPLES, parse_compressor
from bitlane.compress.segments import Segmented, SegmentedReducer, split_layout
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

LAYOUT = layout_of_shapes([(700,), (40, 30), (5,), (0,), (30, 50), (513,), (2, 3, 4)])
COUNT, LEAST, RANKS = vector_length(LAYOUT), 600, 3
CPU = torch.device("cpu")
TEXTS = [text.replace("rank=32", "rank=2") for text in ("auto", *EXAMPLES) if "mqgrad" not in text]
COMPRESSORS = [*map(parse_compressor, TEXTS)]


def runner(compressor, transport, nonfinite="raise", debug=False, least=LEAST):
    rules = StepRules(nonfinite, debug)
    return StepRunner(Segmented(compressor, least), transport, AlphaBetaModel(), LAYOUT, CPU, Stats(), rules)


def gradient(seed, rank, step):
    return torch.from_numpy(np.random.default_rng([seed, rank, step]).standard_normal(COUNT).astype(np.float32))


def in_buckets(steps, vector, rng, left_out=()):
    """Run one step: its parameters arrive in buckets of any size, in any order, with pauses. Return the average."""
    found, failed = [], []
    at_end = StepEnd(vector.clone, lambda average: found.append(average.clone()), lambda: failed.append(1))
    step = OverlappedStep(steps, torch.full((COUNT,), torch.nan), 1.0, at_end)
    waiting = [span for number, span in enumerate(LAYOUT) if number not in left_out]
    rng.shuffle(waiting)
    while waiting:
        size = int(rng.integers(1, 4))
        bucket, waiting = waiting[:size], waiting[size:]
        step.add(lambda bucket=bucket: [(span, span.view(vector)) for span in bucket])
        time.sleep(float(rng.choice([0.0, 0.002])))
    step.end()
    try:
        step.wait()
    finally:
        assert len(found) + len(failed) == 1
    return found[0]


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_averages_equal_those_of_each_segment(compressor, seed):
    """Of four steps on three ranks, each with buckets of its own; the third has a parameter that no rank uses."""

    def work(transport):
        rng = np.random.default_rng([seed, transport.rank])
        steps = runner(compressor, transport, debug=True)
        parts = split_layout(LAYOUT, LEAST)
        reducers = [
            with_own_seed(compressor, k).reducer(part.layout, Link(transport, ""), AlphaBetaModel(), CPU)
            for k, part in enumerate(parts)
        ]
        whole = SegmentedReducer(parts, reducers)  # gives sparse compressors their shares
        for step in range(4):
            vector = gradient(seed, transport.rank, step)
            if step == 2:
                vector[LAYOUT[1].begin : LAYOUT[1].end] = 0
            found = in_buckets(steps, vector, rng, left_out=(1,) if step == 2 else ())
            for part, reducer in zip(parts, reducers, strict=True):
                reducer.average(vector[part.begin : part.end], step)
            whole.end_step()
            assert torch.equal(found, vector), f"step {step}"
        return steps.stats

    for stats in run_ranks_in_threads(RANKS, work):
        assert stats.steps == 4 and stats.bytes_sent > 0
        assert 0 < stats.total.blocking_seconds < 60 and 0 < stats.total.codec_seconds < 60


@pytest.mark.parametrize("compressor", [QSGD(2, error_feedback=True), TopK(0.1), *COMPRESSORS[-2:]], ids=repr)
@pytest.mark.parametrize("bad", [float("nan"), 2.0**41])
def test_a_late_value_leaves_the_state_as_it_was(compressor, bad, seed):
    """It is in any parameter of one rank; the next step is the one without it."""
    place = int(np.random.default_rng(seed).integers(COUNT))

    def work(transport):
        rng = np.random.default_rng([seed, transport.rank])
        steps, plain = (runner(compressor, transport, "pass") for _ in range(2))
        for step in range(3):
            vector = gradient(seed, transport.rank, step)
            if step == 1:
                before = steps.state_dict()
                vector[place] = bad if transport.rank == 1 else 1.0
                in_buckets(steps, vector, rng)
                assert repr({**steps.state_dict(), "step": 1}) == repr(before) and steps.stats.uncompressed == 1
                continue
            plain.step = step
            assert torch.equal(in_buckets(steps, vector, rng), plain.average(vector.clone))

    run_ranks_in_threads(RANKS, work)


@pytest.mark.parametrize("after", [0, 2, 5])
def test_an_abandoned_step_raises_on_the_others(after, seed):
    """Rank 1 leaves the step after some parameters. The others raise soon, and all make the step anew."""
    compressor = QSGD(2, error_feedback=True)

    def work(transport):
        rng = np.random.default_rng([seed, transport.rank])
        steps, plain = (runner(compressor, transport) for _ in range(2))
        vector = gradient(seed, transport.rank, 0)
        if transport.rank == 1:
            step = OverlappedStep(steps, torch.empty(COUNT), 1.0, StepEnd(vector.clone, print, lambda: None))
            for span in LAYOUT[:after]:
                step.add(lambda span=span: [(span, span.view(vector))])
            step.abandon()
        else:
            start = time.monotonic()
            with pytest.raises(RankFailed, match="rank 1 failed in step 0"):
                in_buckets(steps, vector, rng)
            assert time.monotonic() - start < 20
        return torch.equal(in_buckets(steps, vector, rng), plain.average(vector.clone))

    assert run_ranks_in_threads(RANKS, work) == [True] * RANKS


def test_samples_of_an_abandoned_step_are_dropped(seed):
    """Rank 1 leaves a step for whose end a choice was due, after its first segment was averaged."""

    def work(transport):
        steps = runner(QSGD(bits=BitAllocation(period=2)), transport)
        vectors = [gradient(seed, transport.rank, number) for number in range(3)]
        rng = np.random.default_rng([seed, transport.rank])
        in_buckets(steps, vectors[0], rng)
        if transport.rank == 1:
            step = OverlappedStep(steps, torch.empty(COUNT), 1.0, StepEnd(vectors[1].clone, print, lambda: None))
            step.add(lambda: [(span, span.view(vectors[1])) for span in LAYOUT[:2]])
            while not steps._samples:
                time.sleep(0.01)
            step.abandon()
        else:
            with pytest.raises(RankFailed, match="rank 1 failed in step 1"):
                in_buckets(steps, vectors[1], rng)
        for vector in vectors[1:]:
            in_buckets(steps, vector, rng)
        return steps._reducer.widths is not None

    assert run_ranks_in_threads(RANKS, work) == [True] * RANKS


def test_a_pause_after_an_abandoned_step_is_no_time_of_the_next(seed):
    def work(transport):
        steps, vector = runner(QSGD(4), transport), gradient(seed, 0, 0)
        steps.start_clock()
        step = OverlappedStep(steps, torch.empty(COUNT), 1.0, StepEnd(vector.clone, print, lambda: None))
        step.abandon()
        return steps._began

    assert run_ranks_in_threads(1, work) == [None]


def test_an_error_of_a_bucket_is_that_of_its_rank(seed):
    def work(transport):
        steps = runner(QSGD(4), transport)
        step = OverlappedStep(steps, torch.empty(COUNT), 1.0, StepEnd(torch.empty, print, lambda: None))

        def parts():
            if transport.rank == 2:
                raise DataError("no such type")
            return [(LAYOUT[0], torch.zeros(700))]

        step.add(parts)
        step.end()
        try:
            step.wait()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "nothing"

    texts = run_ranks_in_threads(RANKS, work)
    assert texts[2] == "DataError: no such type"
    assert all(text.startswith("RankFailed: rank 2 failed in step 0") for text in texts[:2])


@pytest.mark.parametrize("text", ["qsgd:bits=2,error_feedback=True", "micro:density=0.05", "lqsgd:rank=2", "dgc"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_redistributed_states_keep_what_was_not_sent(text, ranks, seed):
    compressor = parse_compressor(text)

    def train(transport):
        steps = runner(compressor, transport)
        for step in range(2):
            in_buckets(steps, gradient(seed, transport.rank, step), np.random.default_rng(seed))
        return steps.state_dict(), steps._reducer.residual()

    states, residuals = zip(*run_ranks_in_threads(3, train), strict=True)
    converted = redistribute(compressor, states, ranks)

    def restore(transport):
        steps = runner(compressor, transport)
        steps.load_state_dict(converted[transport.rank])
        steps._prepare()
        return steps._reducer.residual()

    for residual in run_ranks_in_threads(ranks, restore):
        if residuals[0] is not None:
            torch.testing.assert_close(residual, sum(residuals) / 3, rtol=1e-5, atol=1e-6)


def test_a_state_with_other_segments_is_refused():
    def work(transport):
        steps = runner(QSGD(4), transport)
        steps.average(lambda: torch.ones(COUNT))
        other = runner(QSGD(4), transport, least=COUNT)
        other.load_state_dict(steps.state_dict())
        with pytest.raises(DataError, match=r"has segment 600 instead of .*: attach with the same overlap"):
            other.average(lambda: torch.ones(COUNT))

    run_ranks_in_threads(1, work)


def test_auto_leaves_out_single_ranks_and_selections():
    assert in_segments(QSGD(4), "auto", 2) == Segmented(QSGD(4), 1 << 20)
    assert in_segments(QSGD(4), "auto", 1) == QSGD(4)
    assert [in_segments(each, "auto", 2) for each in (TopK(), parse_compressor("micro"), parse_compressor("dgc"))] == [
        TopK(),
        parse_compressor("micro"),
        parse_compressor("dgc"),
    ]
    assert in_segments(TopK(), True, 1) == Segmented(TopK(), 1 << 20)


@pytest.fixture(scope="module")
def scenes():
    """Return the results of both ranks for each scene."""
    found = launch(overlap_scenes.play, overlap_scenes.RANKS, timeout=120)
    return {name: [rank[name] for rank in found] for name in found[0]}


def test_segments_are_sent_during_the_backward_pass(scenes):
    """All but the segment of the layer that is still computed."""
    for sent_before, sent in scenes["sent_in_backward"]:
        assert 0.5 * sent < sent_before < sent


def test_a_failed_backward_pass_is_made_again(scenes):
    """Rank 1 fails in a layer. Both go on with the same step, as if nothing had happened."""
    for text, equal in scenes["failed_backward"]:
        assert text in ("ZeroDivisionError", "RankFailed") and equal
    assert {text for text, _ in scenes["failed_backward"]} == {"ZeroDivisionError", "RankFailed"}


def test_auto_tries_both_and_has_the_same_bits(scenes):
    """Ten steps alternate; then all ranks keep to one kind."""
    for equal, kinds in scenes["automatic"]:
        assert all(equal) and kinds == scenes["automatic"][0][1]
        assert kinds[:9] == [False, True] * 4 + [False] and len(set(kinds[9:])) == 1


@pytest.mark.parametrize("wins", [True, False])
def test_the_choice_of_auto(seed, wins):
    """The kind counts whose slowest rank is quicker. Without overlap the copies of states are freed."""

    class Timed(OverlapTrial):
        def __init__(self, rank):
            super().__init__()
            self.times = {wins: 1.0 + rank / 10, not wins: 1.5 if rank == 1 else 0.5}

        def add(self, seconds, all_gather):
            assert seconds > 0
            super().add(self.times[self.overlaps], all_gather)

    def work(transport):
        rng, steps = np.random.default_rng([seed, transport.rank]), runner(QSGD(4, error_feedback=True), transport)
        steps.trial = Timed(transport.rank)
        averages = []
        for step in range(12):
            vector = gradient(seed, transport.rank, step)
            averages.append(in_buckets(steps, vector, rng) if steps.overlaps else steps.average(vector.clone))
        return averages, steps.trial.ended, steps.overlaps, len(steps._segment_states)

    def alone(transport):
        steps, rng = runner(QSGD(4, error_feedback=True), transport), np.random.default_rng(0)
        return [in_buckets(steps, gradient(seed, transport.rank, step), rng) for step in range(12)]

    wanted = run_ranks_in_threads(RANKS, alone)
    for rank, (averages, ended, overlaps, kept) in enumerate(run_ranks_in_threads(RANKS, work)):
        assert ended and overlaps == wins and (kept > 0) == wins
        assert all(torch.equal(one, other) for one, other in zip(averages, wanted[rank], strict=True))


def test_a_wrong_setting_is_refused(scenes):
    assert scenes["refused"] == ["DataError: overlap must be True, False or \"auto\"; got 'yes'"] * 2


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_two_hundred_steps_of_small_buckets(ranks):
    """No step hangs, and all ranks end with the same parameters."""
    parameters = launch(overlap_scenes.many_steps, ranks, timeout=240)
    assert all(torch.equal(each, parameters[0]) for each in parameters)

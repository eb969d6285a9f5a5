"""Advice: predictions agree with slow links, bytes with transports, and the recommendation follows from them."""

from __future__ import annotations

import time

import pytest
import torch

from bitlane.cli.main import main
from bitlane.compress import DGC, LQSGD, QSGD, EFSign, TopK
from bitlane.compress.advise import LOCAL, Advice, advice_text, advise, measure_link, measure_model
from bitlane.compress.codecs.wire import Header
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.emulated_links import ThrottledTransport, parse_link
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan, layout_of_shapes, vector_length
from bitlane.compress.costs import ComputeCosts, StepCosts, measure_compute, measure_peaks, measure_step_costs
from bitlane.compress.memory import PeakMemory
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

LAYOUT = [ParameterSpan(0, (300, 200)), ParameterSpan(60_000, (7,))]
VALUES = 60_007
SLOW = AlphaBetaModel(0.02, 4e5)


def stepped(compressor, model, slow):
    """Return the bytes and seconds of the second of two steps on each of three ranks."""

    def work(transport):
        ended = ThrottledTransport(transport, model) if slow else transport
        link = Link(ended, "")
        reducer = compressor.reducer(LAYOUT, link, model, torch.device("cpu"))
        for step in range(2):
            sent, began = transport.sent, time.perf_counter()
            link.handshake(Header(compressor.codec, reducer.bits, VALUES, 0, step=step))
            reducer.average(torch.randn(VALUES, generator=torch.Generator().manual_seed(0)), step)
        return transport.sent - sent, time.perf_counter() - began

    return run_ranks_in_threads(3, work)


@pytest.mark.parametrize("compressor", [QSGD(8), QSGD(2), EFSign()])
def test_a_step_on_a_slow_link_takes_the_predicted_time(compressor):
    predicted = measure_step_costs(compressor, LAYOUT, 3, SLOW)
    expected = predicted.codec + predicted.link_seconds(SLOW)
    found = [seconds for _, seconds in stepped(compressor, SLOW, slow=True)]
    assert all(0.9 * expected < seconds < 1.4 * expected for seconds in found), (expected, found)


@pytest.mark.parametrize("compressor", [QSGD(4), EFSign(), LQSGD(), TopK(0.05)])
@pytest.mark.parametrize("model", [AlphaBetaModel(), AlphaBetaModel(1.0, 1e12)], ids=["owners", "gathered"])
def test_bytes_equal_those_of_real_ranks(compressor, model):
    predicted = measure_step_costs(compressor, LAYOUT, 3, model).sent
    assert [sent for sent, _ in stepped(compressor, model, slow=False)] == pytest.approx([predicted] * 3, rel=0.02)


def test_float32_counts_as_ring_all_reduce():
    costs = measure_step_costs(None, LAYOUT, 4, AlphaBetaModel())
    assert (costs.sent, costs.rounds, costs.codec) == (6 * 4 * VALUES // 4, 6, 0)


def test_a_link_is_measured():
    model = AlphaBetaModel(0.002, 1e8)
    for found in run_ranks_in_threads(2, lambda transport: measure_link(ThrottledTransport(transport, model))):
        assert 0.002 <= found.latency < 0.006
        assert 0.5e8 < found.bandwidth < 1.2e8


def advice(*seconds):
    """Return the advice for candidates whose steps take these seconds, all of it coding."""
    costs = [StepCosts(each, 0, 0, 0) for each in seconds]
    return Advice(
        [f"c{place}" for place in range(len(seconds))],
        costs,
        [None] * len(costs),
        ComputeCosts(0, 0),
        AlphaBetaModel(),
        2,
    )


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [((1.0, 2.0), 0), ((1.0, 0.95), 0), ((1.0, 0.5, 0.4), 2), ((1.0, 0.43, 0.4), 1), ((1.0, 0.4, 0.43), 1)],
)
def test_the_first_fast_enough_candidate_is_chosen(seconds, chosen):
    found = advice(*seconds)
    assert found.chosen == chosen
    assert f"Use {'none' if chosen == 0 else f'c{chosen}'}" in advice_text(found)


def test_rounds_of_diloco_take_at_most_a_twentieth_of_the_time():
    def every(round_seconds, compute):
        names, costs = ["none", LOCAL], [StepCosts(9.0, 0, 0, 0), StepCosts(round_seconds - 0.5, 5, 500_000, 0)]
        found = Advice(names, costs, [None, None], ComputeCosts.of(compute), AlphaBetaModel(0.05, 2e6), 2)
        return found.every, advice_text(found)

    for round_seconds, compute in ((1.0, 0.5), (3.0, 0.01), (0.5, 4.0)):
        steps, told = every(round_seconds, compute)
        assert round_seconds / (round_seconds + steps * compute) <= 0.05
        assert steps == 1 or round_seconds / (round_seconds + (steps - 1) * compute) > 0.05
        assert f" at most 5% of the time from every={steps} on" in told
    steps, told = every(1.0, 0.0)
    assert steps is None and "DiLoCo" not in told
    assert advice(1.0, 2.0).every is None


def test_a_fast_link_needs_no_compression_and_a_slow_one_does():
    layout, names = [ParameterSpan(0, (1000, 1000))], ("none", "qsgd:bits=8")
    assert advise(layout, ComputeCosts.of(1.0), AlphaBetaModel(1e-6, 1e12), 4, names).chosen == 0
    assert advise(layout, ComputeCosts.of(0.0), parse_link("10mbit"), 4, names).chosen == 1


def test_the_command(capsys):
    assert main(["advise", "--parameters", "20000", "--ranks", "4", "--link", "10mbit"]) == 0
    told = capsys.readouterr().out
    assert "4 ranks, 10 Mb/s" in told
    assert "lqsgd:rank=1" in told and "Use " in told
    assert main(["advise", "--parameters", "20000", "--link", "fast"]) == 2
    assert main(["advise", "--network", "deep", "--link", "1gbit"]) == 2
    capsys.readouterr()


def test_a_single_rank_needs_no_advice(capsys):
    assert main(["advise", "--parameters", "1000", "--ranks", "1", "--link", "1gbit"]) == 2
    assert (
        capsys.readouterr().err
        == "bitlane: error: --ranks must be 2 or more, because a single rank sends nothing; got 1\n"
    )


@pytest.mark.parametrize("compute", ["-1", "nan", "soon"])
def test_a_wrong_time_is_one_line(compute, capsys):
    assert main(["advise", "--parameters", "20000", "--link", "1gbit", "--compute", compute]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bitlane: error: argument --compute: ") and error.count("\n") == 1


@pytest.mark.parametrize("shares", [(1.0,), (0.25, 0.25, 0.5), (0.7, 0.1, 0.1, 0.1)])
@pytest.mark.parametrize(("backward", "sending"), [(3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (2.0, 0.0)])
def test_each_part_is_sent_while_the_next_is_computed(shares, backward, sending):
    """A part is coded and sent when it is computed and the part before it was sent: millisecond by millisecond."""
    costs = StepCosts(0.5, 0, int(sending * 1e6), 0, shares=shares)
    computed = sent = clock = 0.0
    ends = [sum(shares[: place + 1]) for place in range(len(shares))]
    while sent < 1 - 1e-9:
        clock += 1e-3
        computed = min(1.0, computed + 1e-3 / backward)
        ready = max((end for end in ends if end <= computed + 1e-9), default=0.0)
        sent = min(ready, sent + 1e-3 / (sending + 0.5))
    found = Advice(["one"], [costs], [0], ComputeCosts(1.0, backward), AlphaBetaModel(0.0, 1e6), 2)
    assert found.step_seconds(0) == pytest.approx(1.0 + clock, abs=0.02)


def test_the_parts_are_those_of_a_step():
    """DDP's buckets of 25 MiB, segments of at least 2**20 values, or the whole gradient where it is needed."""
    layout = layout_of_shapes([(1 << 20,)] * 4 + [(1 << 21,)] * 2)
    shares = {
        name: measure_step_costs(name, layout, 2, AlphaBetaModel(), steps=1).shares
        for name in (None, QSGD(4), TopK(0.01))
    }
    assert list(shares.values()) == [(1.0,), (*[0.125] * 4, 0.25, 0.25), (1.0,)]
    large = measure_step_costs(None, layout_of_shapes([(25 << 20,)]), 2, AlphaBetaModel())
    assert large.shares == (0.25,) * 4


@pytest.mark.skipif(PeakMemory().bytes is None, reason="needs Linux's /proc and glibc")
@pytest.mark.parametrize(
    ("compressor", "least", "most"), [(QSGD(8), 5, 7), (QSGD(4, error_feedback=True), 15, 19), (TopK(0.01), 8, 12)]
)
def test_the_peak_of_memory(compressor, least, most):
    """Bytes a value: the vector (4), the state, its copy with overlap, and what a step needs besides."""
    layout = layout_of_shapes([(2048, 2048)] * 2)
    (found,) = measure_peaks([compressor], layout, 2, AlphaBetaModel())
    assert least <= found / vector_length(layout) <= most


def test_a_module_is_measured():
    """The parts of the step set the clock, which nothing else does."""
    now = 0.0

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            nonlocal now
            now += 2.0
            return x

        @staticmethod
        def backward(_, gradient):
            nonlocal now
            now += 5.0
            return gradient

    module = torch.nn.Linear(3, 1)
    found = measure_compute(module, lambda: Slow.apply(module(torch.ones(3))).sum(), lambda: now)
    assert found == ComputeCosts(2.0, 5.0)


def test_an_empty_model_is_rejected():
    with pytest.raises(DataError, match="--parameters must be 1 or more; got 0"):
        measure_model(None, 0)


@pytest.mark.parametrize(
    ("compressor", "wanted"),
    [
        (QSGD(4), 0),
        (TopK(0.1), 4),
        (EFSign(), 4 + 4 / 3),
        (DGC(), 8),
        (LQSGD(rank=1), 4 + 4 * (300 + 3 * 200) / VALUES),
    ],
)
def test_state_is_counted(compressor, wanted):
    """A residual, the third of an average that a rank owns, two velocities, factors; each within a few groups."""
    found = measure_step_costs(compressor, LAYOUT, 3, AlphaBetaModel()).state_bytes / VALUES
    assert found == pytest.approx(wanted, abs=0.1)

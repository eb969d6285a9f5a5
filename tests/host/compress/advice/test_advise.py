"""Advice: times agree with slow links, the recommendation follows from times and losses, errors are one line."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from bitlane.cli.main import main
from bitlane.compress import DGC, LQSGD, QSGD, EFSign, TopK
from bitlane.compress.advice.advise import Advice, CandidatePrediction, advise
from bitlane.compress.advice.candidates import BFLOAT16, HARMLESS, PLAIN, parse_candidate
from bitlane.compress.advice.links import measure_link
from bitlane.compress.advice.report import advice_text
from bitlane.compress.advice.trial import JUDGES, LossEffect, MeasuredTraining
from bitlane.compress.codecs.wire import Header
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.emulated_links import ThrottledTransport, parse_link
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import FRAME, run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan, layout_of_shapes, vector_length
from bitlane.compress.costs import measure_compute, measure_peaks, measure_step_costs, ring_costs
from bitlane.compress.memory import PeakMemory
from bitlane.compress.step_costs import ComputeCosts, StepCosts
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

LAYOUT = [ParameterSpan(0, (300, 200)), ParameterSpan(60_000, (7,))]
VALUES = 60_007
SLOW = AlphaBetaModel(0.02, 4e5)


def stepped(compressor, model, slow):
    """Return the bytes, with the framing of each message, and the seconds of a second step on each of three ranks."""

    def work(transport):
        ended = ThrottledTransport(transport, model) if slow else transport
        link = Link(ended, "")
        reducer = compressor.reducer(LAYOUT, link, model, torch.device("cpu"))
        messages, exchange = [], transport.exchange

        def counted(buffers, lengths):
            messages.append(sum(len(each) > 0 for rank, each in enumerate(buffers) if rank != transport.rank))
            return exchange(buffers, lengths)

        transport.exchange = counted
        for step in range(2):
            sent, began = transport.sent, time.perf_counter()
            messages.clear()
            link.handshake(Header(compressor.codec, reducer.bits, VALUES, 0, step=step))
            reducer.average(torch.randn(VALUES, generator=torch.Generator().manual_seed(0)), step)
        return transport.sent - sent + FRAME * sum(messages), time.perf_counter() - began

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
    costs = ring_costs(LAYOUT, 4)
    assert (costs.sent, costs.rounds, costs.codec) == (6 * 4 * VALUES // 4, 6, 0)
    assert ring_costs(LAYOUT, 4, torch.bfloat16).sent == 6 * 2 * VALUES // 4


def test_a_link_is_measured():
    model = AlphaBetaModel(0.002, 1e8)
    for found in run_ranks_in_threads(2, lambda transport: measure_link(ThrottledTransport(transport, model))):
        assert 0.002 <= found.latency < 0.006
        assert 0.5e8 < found.bandwidth < 1.2e8


def advice(compute, *rows, measured=True):
    """Return the advice for candidates: name, seconds of an average, increase of the loss, its error, delays."""
    predictions = []
    for name, seconds, *loss in rows:
        effect = LossEffect(loss[0], loss[1], 0.0, 0.0, 0.0, bool(loss[2:])) if loss else None
        predictions.append(CandidatePrediction(parse_candidate(name), StepCosts(seconds, 0, 0, 1), 0, effect))
    return Advice(predictions, ComputeCosts(compute, 0.0), AlphaBetaModel(), 2, measured)


PAIR = ((PLAIN, 1.0, 0.0, 0.0), (BFLOAT16, 0.6, 0.0, 0.0))


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ([("qsgd:bits=8", 0.3, 0.002, 0.001), ("efsign", 0.1, 0.05, 0.001)], "qsgd:bits=8"),
        ([("qsgd:bits=8", 0.3, 0.008, 0.003)], BFLOAT16),  # not within 1 % with its error
        ([("qsgd:bits=8", 0.3, -0.1, 0.2)], BFLOAT16),
        ([("qsgd:bits=8", 0.3, float("inf"), float("inf"))], BFLOAT16),
        ([("qsgd:bits=8", 0.314, 0.0, 0.0), ("efsign", 0.3, 0.0, 0.0)], "qsgd:bits=8"),  # within 5 %
        ([("qsgd:bits=8", 0.317, 0.0, 0.0), ("efsign", 0.3, 0.0, 0.0)], "efsign"),
        ([("qsgd:bits=8", 0.34, 0.0, 0.0), ("efsign", 0.3, 0.0, 0.0)], "efsign"),
        ([("diloco:100", 0.4)], BFLOAT16),  # its loss is not known
        ([("powersgd", 0.4, 0.004, 0.001, "delays")], BFLOAT16),
    ],
)
def test_the_fastest_that_keeps_the_loss_is_chosen(rows, chosen):
    found = advice(0.0, *PAIR, *rows)
    assert found.chosen == chosen
    assert found.faster == [row[0] for row in rows if "delays" in row]
    assert ("Also within 1% of the loss so far: powersgd (1.5 times" in advice_text(found)) == bool(found.faster)
    assert f"Use {chosen}: " in advice_text(found)


def test_a_link_that_is_no_bottleneck_needs_nothing():
    found = advice(20.0, *PAIR, ("efsign", 0.0, 0.0, 0.0))
    assert found.chosen == PLAIN
    assert "Use plain DDP: the link is no bottleneck" in advice_text(found)
    slower = advice(0.0, (PLAIN, 1.0, 0.0, 0.0), (BFLOAT16, 0.96, 0.0, 0.0), ("efsign", 0.1, 0.5, 0.0))
    assert slower.chosen == PLAIN
    assert "nothing that keeps the loss makes it 5% faster" in " ".join(advice_text(slower).split())


def test_without_losses_only_what_studies_found_harmless_is_chosen():
    rows = [(PLAIN, 1.0), (BFLOAT16, 0.6), ("qsgd:bits=4", 0.3), ("efsign", 0.1), ("diloco:100", 0.01)]
    found = advice(0.0, *rows, measured=False)
    text = " ".join(advice_text(found).split())
    assert found.chosen == "qsgd:bits=4"
    assert "Accuracy is not known" in text and HARMLESS["qsgd:bits=4"] in text


def test_the_frontier(seed):
    """What has no other that is faster and loses less, by brute force; the table begins with it."""
    generator = torch.Generator().manual_seed(seed)
    names = [PLAIN, BFLOAT16, *(f"qsgd:bits={bits}" for bits in range(2, 9))]
    for _ in range(50):
        numbers = torch.rand(len(names), 2, generator=generator).tolist()
        rows = [(name, seconds, loss, 0.0) for name, (seconds, loss) in zip(names, numbers, strict=True)]
        found = advice(0.0, *rows)
        best = {a for a, s, x, _ in rows if not any(t < s and y < x for _, t, y, _ in rows)}
        assert set(found.frontier) == best
        assert found.frontier == sorted(best, key=found.step_seconds)
        words = [line.split()[0] for line in advice_text(found).splitlines() if line]
        expected = [*found.frontier, *sorted(set(names) - best, key=found.step_seconds)]
        assert [word for word in words if word in names][: len(names)] == expected


def noisy_training(noise, rate):
    """Return a training whose loss is half the square of the distance to batches around a goal."""
    generator = torch.Generator().manual_seed(0)
    module = nn.Module()
    module.weights = nn.Parameter(torch.zeros(1000))
    goal = torch.randn(1000, generator=generator)
    batches = [goal + noise * torch.randn(1000, generator=generator) for _ in range(JUDGES + 120)]
    return MeasuredTraining(
        module,
        lambda module, batch: (module.weights - batch).square().mean() * 500,
        batches,
        lambda parameters: torch.optim.SGD(parameters, rate),
    )


def test_rounding_harms_large_gradients_without_noise_and_no_noisy_ones():
    names, link = ("qsgd:bits=8", "qsgd:bits=2"), parse_link("10mbit")
    harmed = advise(noisy_training(0.0, 0.5), link, 2, ComputeCosts(0.0, 0.0), names)
    assert harmed["qsgd:bits=2"].effect.increase > 0.1 and harmed.chosen != "qsgd:bits=2"
    fine = advise(noisy_training(20.0, 0.001), link, 2, ComputeCosts(0.0, 0.0), names)
    assert fine["qsgd:bits=2"].effect.increase < 0.01 and fine.chosen == "qsgd:bits=2"


def test_a_fast_link_needs_no_compression():
    found = advise(noisy_training(20.0, 0.001), AlphaBetaModel(1e-6, 1e12), 2, ComputeCosts.of(1.0), ("qsgd:bits=2",))
    assert found.chosen == PLAIN


def test_advice_changes_nothing_of_the_training():
    training = noisy_training(1.0, 0.1)
    training.module.register_buffer("counts", torch.zeros(3))
    before = {name: each.clone() for name, each in training.module.state_dict().items()}
    state = torch.random.get_rng_state()
    found = advise(training, parse_link("1gbit"), 2, names=("qsgd:bits=allocation",))
    assert torch.equal(state, torch.random.get_rng_state())
    assert training.module.weights.grad is None
    assert all(torch.equal(before[name], each) for name, each in training.module.state_dict().items())
    assert found.compute.total > 0
    costs = found["qsgd:bits=allocation"].costs
    assert 2 * 1000 / 8 < costs.sent - FRAME * costs.rounds - 32 < 8 * 1000 / 8 + 3 * 4


def test_rounds_are_spread_over_their_steps():
    costs = StepCosts(0.5, 2, 1_000_000, 900_000)
    found = CandidatePrediction(parse_candidate("diloco:20"), costs, 0)
    assert found.sent == 45_000
    seconds = found.step_seconds(ComputeCosts(1.0, 2.0), AlphaBetaModel(0.25, 1e6))
    assert seconds == pytest.approx(3.0 + (0.5 + 0.5 + 1.0) / 20)


def test_the_command(capsys, tmp_path):
    (tmp_path / "shapes.txt").write_text("300 200\n200\n")
    what = ["advise", "--model", str(tmp_path / "shapes.txt")]
    assert main([*what, "--ranks", "4", "--link", "10mbit", "--compute", "0.01"]) == 0
    told = capsys.readouterr().out
    assert "4 ranks, 10 Mb/s" in told
    assert "lqsgd:rank=1" in told and "Use qsgd:bits=4: " in told
    assert main([*what, "--link", "fast"]) == 2
    assert main(["advise", "--network", "deep", "--link", "1gbit"]) == 2
    capsys.readouterr()


def test_a_single_rank_needs_no_advice(capsys):
    assert main(["advise", "--model", "resnet18", "--ranks", "1", "--link", "1gbit"]) == 2
    assert (
        capsys.readouterr().err
        == "bitlane: error: --ranks must be 2 or more, because a single rank sends nothing; got 1\n"
    )


@pytest.mark.parametrize("compute", ["-1", "nan", "soon"])
def test_a_wrong_time_is_one_line(compute, capsys):
    assert main(["advise", "--model", "lstm", "--link", "1gbit", "--compute", compute]) == 2
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
    seconds = costs.step_seconds(ComputeCosts(1.0, backward), AlphaBetaModel(0.0, 1e6))
    assert seconds == pytest.approx(1.0 + clock, abs=0.02)


def test_the_parts_are_those_of_a_step():
    """DDP's buckets of 25 MiB, segments of at least 2**20 values, or the whole gradient where it is needed."""
    layout = layout_of_shapes([(1 << 20,)] * 4 + [(1 << 21,)] * 2)
    shares = {
        name: measure_step_costs(name, layout, 2, AlphaBetaModel(), steps=1).shares for name in (QSGD(4), TopK(0.01))
    }
    assert list(shares.values()) == [(*[0.125] * 4, 0.25, 0.25), (1.0,)]
    assert ring_costs(layout, 2).shares == (1.0,)
    assert ring_costs(layout_of_shapes([(25 << 20,)]), 2).shares == (0.25,) * 4


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
    with pytest.raises(DataError, match="the model has no parameters: there is nothing to average"):
        advise([], AlphaBetaModel(), 2)


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

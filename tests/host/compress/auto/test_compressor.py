"""`Auto` in steps: what it measures is true, and links, noise and gradients that change change its mind."""

from __future__ import annotations

import io
import logging
import threading

import numpy as np
import pytest
import torch

import bitlane.compress.auto.chooser as chooser_module
import bitlane.compress.auto.compressor as compressor_module
import bitlane.compress.collectives.link as link_module
import bitlane.compress.ddp.steps as steps_module
from bitlane.compress import QSGD, Auto, DiLoCo
from bitlane.compress.advice.candidates import parse_candidate
from bitlane.compress.auto.chooser import FIRST
from bitlane.compress.auto.compressor import quantizer_of
from bitlane.compress.auto.measured import CHOICES, Measured, numbers_of
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.emulated_links import ThrottledTransport
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.ddp.attach import attach
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRunner
from bitlane.compress.registry import parse_compressor
from bitlane.compress.segments import Segmented
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

VALUES, RANKS = 20_000, 3
FAST, SLOW = AlphaBetaModel(1e-5, 1e12), AlphaBetaModel(1e-4, 2e6)
LAYOUT = layout_of_shapes([(8_000,), (12_000,)])
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def measure_often(monkeypatch):
    """Let no measurement on a busy machine delay the next choice."""
    monkeypatch.setattr(chooser_module, "MOST_PERIODS", 1)


def gradient(seed, rank, step, noise=1.0):
    """Return a gradient of two layers of different scales: the same for all ranks, and the noise of a batch."""
    rng, own = np.random.default_rng([seed, step]), np.random.default_rng([seed, step, rank])
    scales = np.repeat([1.0, 0.03], [8_000, 12_000])
    return torch.from_numpy(((rng.normal(size=VALUES) + noise * own.normal(size=VALUES)) * scales).astype(np.float32))


class RankClock(threading.local):
    """The time of a rank, which is a thread: it passes only where a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


class ClockedTransport(ThrottledTransport):
    """Lets the exchanges take the time of the link on a `RankClock`, whatever the machine does meanwhile."""

    def __init__(self, transport, model, clock):
        super().__init__(transport, model)
        self.clock = clock

    def exchange(self, buffers, lengths):
        self.clock.now += self.model.latency + sum(map(len, buffers)) * (1 - 1 / self.size) / self.model.bandwidth
        return self.transport.exchange(buffers, lengths)


@pytest.fixture
def clock(monkeypatch):
    """Return the clock that links, steps and `Auto` see."""
    made = RankClock()
    for module in (link_module, steps_module, chooser_module, compressor_module):
        monkeypatch.setattr(module, "perf_counter", made)
    return made


def runner(transport, compressor):
    return StepRunner(compressor, transport, AlphaBetaModel(), LAYOUT, CPU, Stats())


def one_step(steps, vector):
    return steps.average(lambda: vector).clone()


@pytest.mark.parametrize("compressor", [Auto(period=FIRST), Segmented(Auto(period=FIRST), 5_000)], ids=repr)
def test_a_link_that_slows_down_changes_the_bits(compressor, seed, clock):
    """Between steps that compute for 50 ms a fast link leaves bfloat16; at 2 MB/s it would take 27 ms more."""

    def work(transport):
        clocked = ClockedTransport(transport, FAST, clock)
        steps, bits, equal = runner(clocked, compressor), [], []
        for step in range(2 * FIRST + 2):
            clocked.model = FAST if step <= FIRST else SLOW
            vectors = [gradient(seed, rank, step) for rank in range(RANKS)]
            steps.start_clock()
            clock.now += 0.05
            average = steps.average(lambda vectors=vectors: vectors[transport.rank].clone())
            equal.append(np.abs(average.numpy() - np.mean([each.numpy() for each in vectors], axis=0)).max() < 0.5)
            bits.append(steps.stats.bits)
        return bits, all(equal), steps.choice.step

    (bits, equal, step), *others = run_ranks_in_threads(RANKS, work)
    assert all(other[:2] == (bits, True) for other in others) and equal
    assert bits[: 2 * FIRST] == [16] * 2 * FIRST and 4 <= bits[-1] <= 7 and step == 2 * FIRST


def test_noise_that_vanishes_changes_the_bits(seed, caplog):
    """Late in a training the gradients of all ranks are alike: rounding would be the largest noise."""
    noises = [1.0] * FIRST + [0.1] * FIRST + [0.0] * FIRST + [0.0]

    def work(transport):
        steps, bits = runner(ThrottledTransport(transport, SLOW), Auto(period=FIRST)), []
        for step, noise in enumerate(noises):
            one_step(steps, gradient(seed, transport.rank, step, noise))
            bits.append(steps.stats.bits)
        return bits

    with caplog.at_level(logging.INFO, "bitlane"):
        first, *others = run_ranks_in_threads(RANKS, work)
    assert others == [first] * (RANKS - 1)
    early, later, last = first[FIRST], first[2 * FIRST], first[-1]
    assert early < later <= 16 and last == 32
    told = [record.message for record in caplog.records if "error over noise" in record.message]
    assert len(told) == 3 and told[2].startswith(f"float32 from step {3 * FIRST} on")  # rank 0 alone tells


@pytest.mark.parametrize("ranks", [2, 3])
def test_predicted_errors_are_those_of_many_averages(ranks, seed):
    """The error over the noise, for each choice, with one rounding (2 ranks) and with two."""
    vectors = [gradient(seed, rank, 0, 2.0).numpy() for rank in range(ranks)]
    exact = np.mean(vectors, axis=0, dtype=np.float64)
    noise = sum(np.square(each - exact).sum() for each in vectors) / (ranks - 1) / ranks

    def work(transport):
        link, errors = Link(transport, ""), []
        reducer = Auto(seed=seed % 1000).reducer(LAYOUT, link, AlphaBetaModel(), CPU)
        for bits in CHOICES:
            reducer.bits = bits
            found = 0.0
            for step in range(8):
                vector = torch.from_numpy(vectors[transport.rank].copy())
                sampler = reducer.sample(vector, CHOICES) if step == 7 else None
                reducer.average(vector, step)
                found += np.square(vector.numpy() - exact).sum() / 8
            errors.append(found / noise)
            sample = sampler(vector)
        rows = link.gather_numbers(numbers_of(sample, 0.0, 0.0))
        return errors, Measured.combined(np.array(rows)).noise_ratios(sample.average_rounded)

    (errors, ratios), *others = run_ranks_in_threads(ranks, work)
    assert all((other[1] == ratios).all() for other in others)
    assert ratios[0] == pytest.approx(errors[0], rel=0.6) and ratios[1:7] == pytest.approx(errors[1:7], rel=0.25)
    assert errors[7] / 3 < ratios[7] < 5 * errors[7] and ratios[8] == 0 and errors[8] < 1e-10


def test_the_measured_link_is_that_which_was_emulated(seed, clock):
    model = AlphaBetaModel(0.005, 1e6)

    def work(transport):
        steps = runner(ClockedTransport(transport, model, clock), Auto(period=FIRST))
        for step in range(FIRST):
            one_step(steps, gradient(seed, transport.rank, step))
        return steps.choice.seconds

    found = run_ranks_in_threads(RANKS, work)[0]
    bodies = np.array([VALUES * bits / 8 + (4 * 40 if bits <= 8 else 0) for bits in CHOICES])
    wanted = 2 * 0.005 + bodies * (RANKS - 1) * 2 / RANKS / 1e6
    assert found == pytest.approx(wanted, rel=0.02)  # the shards of the ranks are not quite equal


def test_a_resumed_training_goes_on_with_the_choice(seed):
    """Bits and averages are those of the training that was not interrupted, up to the next choice."""

    def work(transport):
        steps = runner(ThrottledTransport(transport, SLOW), Auto(period=1000))
        for step in range(FIRST + 2):
            one_step(steps, gradient(seed, transport.rank, step))
        file = io.BytesIO()
        torch.save(steps.state_dict(), file)
        file.seek(0)
        again = runner(transport, Auto(period=1000))
        again.load_state_dict(torch.load(file, weights_only=True))
        pairs = []
        for step in range(FIRST + 2, FIRST + 5):
            vector = gradient(seed, transport.rank, step)
            pairs.append([one_step(each, vector.clone()) for each in (steps, again)])
        return all(torch.equal(*pair) for pair in pairs), again.stats.bits, str(steps.choice) == str(again.choice)

    found = run_ranks_in_threads(RANKS, work)
    assert all(each[0] and each[1] < 16 and each[2] for each in found)


def test_bfloat16_is_rounded_to_the_nearest(seed):
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=2000) * 10.0 ** rng.integers(-20, 20, 2000)).astype(np.float32)
    quantizer, groups, out = quantizer_of(16), Groups.of(2000), torch.ones(2000)
    body = quantizer.encode(torch.from_numpy(values), groups, None, 0)
    assert len(body) == quantizer.body_bytes(groups) == 4000
    quantizer.decode(body, groups, out, add=False)
    found = out.numpy()
    quantizer.decode(body, groups, torch.from_numpy(found), add=True)
    spacing = 2.0 ** (np.floor(np.log2(np.abs(values.astype(np.float64)))) - 7)
    assert (found.view(np.uint32) & 0xFFFF == 0).all()
    assert (np.abs(found / 2 - values.astype(np.float64)) <= spacing / 2).all()


def test_it_is_a_compressor_by_name_and_refused_where_it_cannot_be():
    assert parse_compressor("auto") == Auto()
    assert parse_compressor("auto:tolerance=0.05,period=200") == Auto(tolerance=0.05, period=200)
    model = torch.nn.Linear(2, 2)
    for wrong, text in (
        (lambda: Auto(tolerance=0), "tolerance must be above 0 and at most 1; got 0"),
        (lambda: Auto(tolerance=2.0), "tolerance must be above 0 and at most 1; got 2.0"),
        (lambda: Auto(period=0), "period=0: it must be an integer of at least 1"),
        (lambda: QSGD(bits=Auto()), "use an integer from 2 to 8, or a bit policy with such choices"),
        (lambda: DiLoCo(model, compressor=Auto()), r"Auto\(...\) needs the loss or the time of each step"),
        (lambda: parse_candidate("auto"), "'auto' chooses between candidates itself, during a training: leave it out"),
        (lambda: attach(model, "auto"), "attach needs a model in DistributedDataParallel; got Linear"),
    ):
        with pytest.raises(DataError, match=text):
            wrong()

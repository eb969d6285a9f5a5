"""Bit policies on several ranks: all choose the same bits, and the exchanged bytes are counted."""

import numpy as np
import pytest
import torch

from bitlane.compress import LQSGD, QSGD, Adaptive, BitAllocation, FixedBits, MQGrad
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes
from bitlane.compress.ddp.stats import Stats
from bitlane.compress.ddp.steps import StepRules, StepRunner
from bitlane.compress.segments import Segmented
from bitlane.errors import BitlaneError, DataError
from bitlane.policies.protocol import Observation

pytestmark = pytest.mark.torch

RANKS, STEPS = 3, 203


@pytest.mark.parametrize(("policy", "numbers"), [(FixedBits(3), 0), (Adaptive(), 1), (MQGrad(exploration=0.3), 6)])
def test_ranks_with_different_observations_choose_the_same_bits(seed, policy, numbers):
    def work(transport):
        rng = np.random.default_rng([seed, transport.rank])
        link, chooser = Link(transport, ""), policy.start()
        bits = []
        for number in range(STEPS):
            seen = Observation(rng.normal(), rng.random(), lambda number=number: 2.0 ** (number % 7) * rng.random())
            chooser.after(seen, link.gather_numbers)
            bits.append(chooser.bits)
        return bits, transport.sent

    ranks = run_ranks_in_threads(RANKS, work)
    assert [bits for bits, _ in ranks] == [ranks[0][0]] * RANKS
    assert len(set(ranks[0][0])) > 1 or policy == FixedBits(3)
    assert [sent for _, sent in ranks] == [(RANKS - 1) * 8 * numbers * (STEPS // 5)] * RANKS


def test_a_missing_loss_on_one_rank_is_an_error_on_all():
    def work(transport):
        link, chooser = Link(transport, ""), MQGrad().start()
        try:
            for number in range(5):
                loss = None if transport.rank == 1 and number == 2 else 1.0
                chooser.after(Observation(loss, 1.0, lambda: 1.0), link.gather_numbers)
        except BitlaneError as error:
            return str(error)

    errors = run_ranks_in_threads(RANKS, work)
    assert all("rank 1 did not report one" in error for error in errors)
    assert len(set(errors)) == 1


def test_compressors_reject_policies_with_unsupported_bits():
    assert QSGD(bits=MQGrad()).policy == MQGrad()
    with pytest.raises(DataError, match="2 to 8"):
        QSGD(bits=MQGrad(choices=(1, 2)))
    with pytest.raises(DataError, match="2 to 8"):
        QSGD(bits=FixedBits(9))


@pytest.mark.parametrize("least", [None, 3000], ids=["at once", "segments"])
def test_allocation_in_steps(seed, least):
    """Groups of different scales get different bits, alike on all ranks. Averages are right; a state continues."""
    scales = np.repeat(10.0 ** np.random.default_rng(seed).integers(-3, 1, 18), 512)[:9000].astype(np.float32)
    compressor = QSGD(bits=BitAllocation(period=2, weight=1.0), seed=seed % 1000)

    def gradient(rank, step):
        rng = np.random.default_rng([seed, rank, step])
        return torch.from_numpy((rng.normal(size=9000) + 2 * np.sin(np.arange(9000))).astype(np.float32) * scales)

    def work(transport):
        def runner():
            settings = compressor if least is None else Segmented(compressor, least)
            layout = layout_of_shapes([(4000,), (5000,)])
            model, device, rules = AlphaBetaModel(), torch.device("cpu"), StepRules(debug=True)
            return StepRunner(settings, transport, model, layout, device, Stats(), rules)

        steps, averages, bits = runner(), [], []
        for step in range(8):
            averages.append(steps.average(lambda step=step: gradient(transport.rank, step), 1.0).numpy().copy())
            bits.append(steps.stats.bits)
        chosen, other = np.asarray(steps.state_dict()["policy"]["widths"]), runner()
        other.load_state_dict(steps.state_dict())
        one, again = (each.average(lambda: gradient(transport.rank, 8), 1.0).numpy().copy() for each in (steps, other))
        used = steps._reducer.widths
        return np.array(averages), bits, one.tobytes() == again.tobytes() and (used == chosen).all(), chosen

    ranks = run_ranks_in_threads(RANKS, work)
    averages, bits, _, widths = ranks[0]
    assert all(each[0].tobytes() == averages.tobytes() and each[2] for each in ranks)
    assert len(set(widths.tolist())) > 1
    assert bits[:2] == [4, 4] and all(2 < each <= 8 for each in bits[2:])
    gradients = np.array([[gradient(rank, step).numpy() for step in range(8)] for rank in range(RANKS)])
    groups = Groups.of(9000) if least is None else Groups.of(4000, 5000)
    peaks = (np.maximum.reduceat(np.abs(gradients[:, -1]), groups.starts[:-1], axis=1).astype(float) ** 2).mean(axis=0)
    assert (np.diff(widths[np.argsort(peaks)].astype(int)) >= 0).all()
    tops = np.array([np.abs(gradients[:, :, max(0, i - 511) : i + 512]).max() for i in range(9000)])
    assert (np.abs(averages - gradients.mean(axis=0)) <= 3 * tops).all()  # two roundings, in groups around each value


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_sample_tells_how_often_an_average_is_rounded(ranks, seed):
    """The noise that follows from it is that of averages, over many steps."""
    values = np.random.default_rng(seed).normal(size=(ranks, 5120)).astype(np.float32)
    exact = values.mean(axis=0, dtype=np.float64)

    def work(transport):
        link, layout = Link(transport, ""), layout_of_shapes([(5120,)])
        reducer = QSGD(bits=3, seed=seed % 1000).reducer(layout, link, AlphaBetaModel(), torch.device("cpu"))
        errors = []
        for step in range(20):
            vector = torch.from_numpy(values[transport.rank].copy())
            sampler = reducer.sample(vector, (3,))
            reducer.average(vector, step)
            errors.append(np.square(vector.numpy() - exact).sum())
        return np.mean(errors), sampler(vector)

    found = run_ranks_in_threads(ranks, work)
    assert {sample.average_rounded for _, sample in found} == {float(ranks > 2)}
    energy = np.square(values, dtype=np.float64).sum() / ranks
    rounding = sum(float(sample.errors.sum()) for _, sample in found) / ranks / energy  # all groups are sampled
    first = rounding * energy / ranks
    noise = first + found[0][1].average_rounded * rounding * (exact @ exact + first)
    assert noise == pytest.approx(found[0][0], rel=0.1)


@pytest.mark.parametrize(
    "policy",
    [FixedBits(np.int64(4)), Adaptive(start_bits=np.int64(4)), MQGrad(choices=tuple(np.arange(2, 9))),
     BitAllocation(start_bits=np.int64(4))],
    ids=lambda policy: type(policy).__name__,
)  # fmt: skip
def test_bits_may_be_numpy_integers(policy):
    def work(transport):
        layout = layout_of_shapes([(1200,)])
        steps = StepRunner(QSGD(bits=policy), transport, AlphaBetaModel(), layout, torch.device("cpu"), Stats())
        return [steps.average(lambda: torch.ones(1200), 1.0).mean().item() for _ in range(6)]

    assert run_ranks_in_threads(2, work) == [[1.0] * 6] * 2


def test_allocation_needs_random_rounding_of_groups():
    assert QSGD(bits=BitAllocation()).policy == BitAllocation()
    for wrong in (lambda: QSGD(bits=BitAllocation(), error_feedback=True), lambda: LQSGD(bits=BitAllocation())):
        with pytest.raises(DataError, match="chooses the bits of each group, for the random rounding of QSGD"):
            wrong()


def test_bits_of_other_groups_are_not_used(seed):
    """A state of a model with a layer more continues with the first bits, until the next choice."""
    rng = np.random.default_rng(seed)
    vectors = torch.from_numpy(rng.normal(size=(8, 6000)).astype(np.float32))

    def runner(transport, *shapes):
        layout = layout_of_shapes(shapes)
        settings = QSGD(bits=BitAllocation(start_bits=3))
        return StepRunner(settings, transport, AlphaBetaModel(), layout, torch.device("cpu"), Stats(), StepRules())

    def work(transport):
        steps, other = runner(transport, (6000,)), runner(transport, (4000,))
        for vector in vectors[:3]:
            steps.average(vector.clone, 1.0)
        other.average(vectors[3, :4000].clone, 1.0)
        chosen = steps.state_dict()["policy"]
        other.load_state_dict({**other.state_dict(), "policy": chosen})
        found = []
        for vector in vectors[4:]:
            other.average(vector[:4000].clone, 1.0)
            found.append(other._reducer.widths)
        return found

    for found in run_ranks_in_threads(2, work):
        assert found[0] is None and len(found[-1]) == 8

"""PowerSGD and LQ-SGD: optimal factors, exact residuals, identical averages, and bytes by a formula."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest
import torch

from bitlane.compress import LQSGD, PowerSGD
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan, vector_length
from bitlane.errors import DataError
from bitlane.policies.protocol import FixedBits

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
MODELS = {"gathered": AlphaBetaModel(latency=1e9, bandwidth=1.0), "owners": AlphaBetaModel(latency=0.0, bandwidth=1.0)}
REDUCE_SCATTER = MODELS["owners"]
COMPRESSORS = [PowerSGD(2), PowerSGD(1, warm_start=False), LQSGD(1, 8), LQSGD(3, 3)]
SHAPES = [(10,), (10, 60), (60,), (60, 16, 3, 3), (2, 2), (16,), (16, 90)]


def layout_of(shapes):
    layout = []
    for shape in shapes:
        layout.append(ParameterSpan(vector_length(layout), shape))
    return layout


LAYOUT = layout_of(SHAPES)
COUNT = vector_length(LAYOUT)
FACTORED = [place for place in LAYOUT if len(place.shape) > 1 and place.shape != (2, 2)]


def gradients(seed, steps, ranks, count=COUNT):
    """Return float32 [steps, ranks, count]: the sum of a common part and a part of equal size for each rank."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((steps, 1, count))
    return (shared + rng.standard_normal((steps, ranks, count))).astype(np.float32)


def run(compressor, inputs, layout=LAYOUT, model=REDUCE_SCATTER, spoil=lambda step, reducer: reducer):
    """Of each rank: averages float32 [steps, n], kept float32 [steps, n], bytes sent, the reducer.

    spoil: gives the reducer that goes on before a step.
    """

    def work(transport):
        def fresh():
            return compressor.reducer(layout, Link(transport, ""), model, CPU)

        reducer, averages, kept = fresh(), [], []
        for step, vector in enumerate(inputs[:, transport.rank]):
            reducer = spoil(step, reducer) if spoil is not restart else restart(step, reducer, fresh)
            average = torch.from_numpy(vector.copy())
            reducer.average(average, step)
            averages.append(average.numpy())
            kept.append(reducer.residual().numpy())
        return np.array(averages), np.array(kept), transport.sent, reducer

    return run_ranks_in_threads(inputs.shape[1], work)


def restart(step, reducer, fresh):
    """Replace the reducer halfway by a new one with the saved state."""
    if step != 3:
        return reducer
    state, reducer = reducer.state_dict(), fresh()
    reducer.load_state_dict(state)
    return reducer


def without_residual(step, reducer):
    """Set the residual to zero, so that each step continues the power iteration on the same matrix."""
    state = reducer.state_dict()
    state["matrices"] = [torch.zeros_like(each) for each in state["matrices"]]
    reducer.load_state_dict(state)
    return reducer


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_averages_are_identical_and_residuals_exact(compressor, size, model, seed):
    inputs = gradients(seed, 12, size)
    found = run(compressor, inputs, model=model)
    averages = found[0][0]
    assert all(averages.tobytes() == each[0].tobytes() for each in found)
    before = np.zeros(inputs.shape[-1])
    for step, average in enumerate(averages):
        after = sum(kept[step].astype(np.float64) for _, kept, _, _ in found)
        came_in = inputs[step].astype(np.float64).sum(axis=0) + before
        assert np.abs(came_in - size * average.astype(np.float64) - after).max() < 2e-5 * size
        before = after


@pytest.mark.parametrize(("compressor", "off"), [(PowerSGD(3), 1e-3), (LQSGD(3, 8), 0.02)], ids=repr)
def test_a_warm_start_converges_to_the_optimal_factors(compressor, off, seed):
    """The optimal factors are those of the singular value decomposition of the mean gradient."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, 30)))[0] for n in (50, 40))
    mean = left * (2.0 ** -np.arange(30)) @ right.T
    own = rng.standard_normal((4, 50, 40)) * 0.02
    vectors = (mean + own - own.mean(axis=0)).astype(np.float32)
    best = np.sqrt(((2.0 ** -np.arange(3, 30)) ** 2).sum())
    inputs = np.repeat(vectors.reshape(1, 4, -1), 8, axis=0)
    averages = run(compressor, inputs, layout_of([(50, 40)]), spoil=without_residual)[0][0]
    errors = [np.linalg.norm(each.reshape(50, 40) - mean) for each in averages]
    assert errors[-1] < (1 + off) * best < errors[0]
    cold = run(replace(compressor, warm_start=False), inputs, layout_of([(50, 40)]), spoil=without_residual)[0][0]
    assert max(np.linalg.norm(each.reshape(50, 40) - mean) for each in cold) > 1.2 * best


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_residuals_are_applied_later(compressor, seed):
    """With constant gradients, the mean of the averages converges to the mean gradient."""
    inputs = np.repeat(gradients(seed, 1, 3), 100, axis=0)
    averages = run(compressor, inputs)[0][0]
    mean = inputs[0].astype(np.float64).mean(axis=0)
    for place in LAYOUT:
        far = np.linalg.norm((averages.mean(axis=0) - mean)[place.begin : place.end])
        share = 0.5 if place in FACTORED else 0.02  # one of 60 directions a step; three bits
        assert far < share * np.linalg.norm(mean[place.begin : place.end])


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_decoded_values_are_averaged(model, seed):
    """Gradients that differ from rank to rank by signs and decades, of one rank together.

    Eight bits are off by a percent. Averages of the same codes would be off by a third and more.
    """
    rng = np.random.default_rng(seed)
    right = rng.standard_normal(80)
    lefts = rng.standard_normal((4, 120)) * np.array([1, 0.3, 0.1, 0.03])[:, None]
    inputs = np.array([np.outer(left, right).ravel() for left in lefts], np.float32)[None]
    average = run(LQSGD(1, 8), inputs, layout_of([(120, 80)]), model)[0][0][0]
    mean = inputs[0].mean(axis=0)
    assert np.linalg.norm(average - mean) < 0.03 * np.linalg.norm(mean)


def test_the_residual_is_the_error_of_the_factors(seed):
    """The gradients of all ranks have the same column space, so the average includes each of them exactly."""
    rng = np.random.default_rng(seed)
    columns, _ = np.linalg.qr(rng.standard_normal((40, 2)))
    shared, _ = np.linalg.qr(rng.standard_normal((50, 2)))  # so that what a step begins with is far from dependent
    rows = 7 * shared.T + 0.5 * rng.standard_normal((3, 4, 2, 50))
    inputs = np.einsum("mr,skrn->skmn", columns, rows)
    found = run(PowerSGD(2), inputs.reshape(3, 4, -1).astype(np.float32), layout_of([(40, 50)]))
    assert all(np.abs(kept).max() < 1e-3 for _, kept, *_ in found)


def columns_bytes(lengths, bits):
    """Return the bytes of the scales and codes of columns, in groups of 512 values."""
    cut = [min(512, length - begin) for length in lengths for begin in range(0, length, 512)]
    return sum(4 + ceil(length * bits / 8) for length in cut)


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("compressor", [PowerSGD(2), LQSGD(2, 8), LQSGD(1, 3)], ids=repr)
def test_bytes_follow_a_formula(compressor, size, seed):
    rank = compressor.rank
    p = [place.shape[0] for place in FACTORED for _ in range(rank)]
    q = [int(np.prod(place.shape[1:])) for place in FACTORED for _ in range(rank)]
    others = [place.end - place.begin for place in LAYOUT if place not in FACTORED]
    if isinstance(compressor, PowerSGD):
        body = 4 * sum(p + q + others)
    else:
        body = columns_bytes(p + q + others, compressor.bits)
    inputs = gradients(seed, 3, size)
    for name, each in (("gathered", size * (size - 1)), ("owners", 2 * (size - 1))):
        assert sum(sent for *_, sent, _ in run(compressor, inputs, model=MODELS[name])) == 3 * each * body


@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_eight_bits_are_a_quarter_of_float32(rank, model, seed):
    """At equal rank, on a network of two convolutions and three dense layers."""
    layout = layout_of([(10,), (10, 400), (400,), (400, 784), (784,), (784, 16, 25), (16,), (16, 16, 5, 5), (16, 25)])
    inputs = gradients(seed, 1, 4, vector_length(layout))
    low, float32 = (
        sum(sent for *_, sent, _ in run(compressor, inputs, layout, model))
        for compressor in (LQSGD(rank, 8), PowerSGD(rank))
    )
    assert 0.25 < low / float32 <= 0.27


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_a_restored_state_continues_identically(compressor, seed):
    inputs = gradients(seed, 6, 3)
    straight, resumed = run(compressor, inputs), run(compressor, inputs, spoil=restart)
    for (averages, kept, *_), (again, kept_again, *_) in zip(straight, resumed, strict=True):
        assert averages.tobytes() == again.tobytes() and kept.tobytes() == kept_again.tobytes()


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_redistribution_to_another_number_of_ranks(compressor, size, seed):
    inputs = gradients(seed, 4, 3)
    states = [reducer.state_dict() for *_, reducer in run(compressor, inputs)]
    taken = gradients(seed + 1, 1, size)[0]

    def work(transport):
        reducer = compressor.reducer(LAYOUT, Link(transport, ""), REDUCE_SCATTER, CPU)
        reducer.reshard(states, torch.from_numpy(taken[transport.rank]))
        kept, average = reducer.residual(), torch.zeros(COUNT)
        start = reducer.state_dict()["start"]
        reducer.average(average, 4)
        return kept.numpy(), start, average.double() * size, reducer.residual().double()

    kept, starts, applied, after = zip(*run_ranks_in_threads(size, work), strict=True)
    assert np.array_equal(kept, taken)
    assert all(torch.equal(start, states[0]["start"]) for start in starts)
    assert np.abs(taken.astype(np.float64).sum(axis=0) - (applied[0] + sum(after)).numpy()).max() < 2e-5 * size


def test_a_saved_state_is_a_copy(seed):
    inputs = gradients(seed, 2, 1)
    reducer = run(LQSGD(2), inputs[:1])[0][-1]
    state = reducer.state_dict()
    copies = [state["start"].clone(), *(each.clone() for each in state["matrices"])]
    reducer.average(torch.from_numpy(inputs[1, 0].copy()), 1)
    assert all(torch.equal(a, b) for a, b in zip(copies, [state["start"], *state["matrices"]], strict=True))
    assert not torch.equal(reducer.state_dict()["start"], state["start"])


@pytest.mark.parametrize("missing", ["start", "matrices", "residual"])
def test_a_state_of_another_model_is_rejected(missing, seed):
    state = run(PowerSGD(2), gradients(seed, 1, 1))[0][-1].state_dict()
    other = run(PowerSGD(2), gradients(seed, 1, 1, 700), layout_of([(20, 35)]))[0][-1]
    with pytest.raises(DataError, match="of the saved state"):
        other.load_state_dict(state)
    own = other.state_dict()
    del own[missing]
    with pytest.raises(
        DataError,
        match=f"{missing}.* of the saved state have shapes|saved state has no {missing}; this compressor needs",
    ):
        other.load_state_dict(own)


def test_a_model_without_matrices(seed):
    layout, inputs = layout_of([(7,), (2, 2)]), gradients(seed, 2, 3, 11)
    (averages, _, sent, reducer), *_ = run(LQSGD(2), inputs, layout)
    mean = inputs.astype(np.float64).mean(axis=1)
    assert np.abs(averages - mean).max() < 0.3 and sent < 2 * 2 * 2 * (11 + 2 * 4)
    state = reducer.state_dict()
    reducer.load_state_dict(state)
    del state["start"]
    with pytest.raises(DataError, match="of the saved state"):
        reducer.load_state_dict(state)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_nonzero_gradients_after_zero_gradients(compressor, seed):
    inputs = gradients(seed, 8, 2)
    inputs[:3] = 0
    averages = run(compressor, inputs)[0][0]
    assert not averages[:3].any() and np.isfinite(averages).all()
    for place in LAYOUT:
        assert averages[3, place.begin : place.end].any()


@pytest.mark.parametrize(("compressor", "off"), [(PowerSGD(4), 1e-5), (LQSGD(4, 8), 0.03)], ids=repr)
def test_gradients_of_lower_and_then_higher_rank(compressor, off, seed):
    """Columns that a gradient of rank one does not determine are used by the next gradients."""
    rng = np.random.default_rng(seed)
    one = np.repeat(np.outer(rng.standard_normal(40), rng.standard_normal(50))[None], 3, axis=0)
    four = np.repeat((rng.standard_normal((40, 4)) @ rng.standard_normal((4, 50)))[None], 5, axis=0)
    inputs = np.concatenate([one, four]).reshape(8, 1, -1).astype(np.float32)
    averages = run(compressor, np.repeat(inputs, 2, axis=1), layout_of([(40, 50)]), spoil=without_residual)[0][0]
    far = np.linalg.norm(averages - inputs[:, 0], axis=1) / np.linalg.norm(inputs[:, 0], axis=1)
    assert (far[[0, 1, 2, 5, 6, 7]] < off).all()


def test_other_parameters_are_averaged_in_order_of_rank(seed):
    inputs = gradients(seed, 1, 4)
    averages = run(PowerSGD(2), inputs)[0][0]
    total = inputs[0, 0]
    for vector in inputs[0, 1:]:
        total = total + vector
    for place in LAYOUT:
        alike = np.array_equal(averages[0, place.begin : place.end], (total / 4)[place.begin : place.end])
        assert alike == (place not in FACTORED)


def test_min_compression_excludes_matrices(seed):
    inputs = gradients(seed, 1, 2)
    averages = run(PowerSGD(1, min_compression=1000.0), inputs)[0][0]
    assert np.array_equal(averages[0], (inputs[0, 0] + inputs[0, 1]) / 2)


def test_the_reducer_sets_the_bits_of_a_step(seed):
    """The hook sets the bits that a policy chooses."""

    def set_bits(step, reducer):
        reducer.bits = [3, 8][step]
        return reducer

    inputs = gradients(seed, 2, 2)
    both = sum(sent for *_, sent, _ in run(LQSGD(1, FixedBits(5)), inputs, spoil=set_bits))
    each = [sum(sent for *_, sent, _ in run(LQSGD(1, bits), inputs[:1])) for bits in (3, 8)]
    assert both == sum(each)


def test_global_random_states_do_not_change(seed):
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    run(LQSGD(2), gradients(seed, 2, 2))
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


@pytest.mark.parametrize("make", [PowerSGD, LQSGD])
def test_invalid_settings_are_reported(make):
    with pytest.raises(DataError, match="rank=0: it must be an integer of at least 1"):
        make(rank=0)
    with pytest.raises(
        DataError, match=r"min_compression must be 1 or more, because larger factors save nothing; got 0\.5"
    ):
        make(min_compression=0.5)


def test_invalid_levels_are_reported():
    with pytest.raises(DataError, match="bits=1:"):
        LQSGD(bits=1)
    with pytest.raises(DataError, match=r"alpha=0\.0"):
        LQSGD(alpha=0.0)

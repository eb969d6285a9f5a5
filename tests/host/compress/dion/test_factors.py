"""The exchange of Dion: orthonormal results, a momentum that conserves, and columns without a direction."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest
import torch
from tests.helpers.devices import DEVICE

from bitlane.compress.codecs.wire import CodecId
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import layout_of_shapes, vector_length
from bitlane.compress.dion.factors import DionFactors, unit_columns
from bitlane.errors import DataError
from bitlane.policies.adaptive import Adaptive

pytestmark = pytest.mark.torch

MODELS = {"gathered": AlphaBetaModel(latency=1e9, bandwidth=1.0), "owners": AlphaBetaModel(latency=0.0, bandwidth=1.0)}
LAYOUT = layout_of_shapes([(12, 30), (40, 9), (17,)])


def run(settings, inputs, model):
    """Of each rank and step: the momentum plus the gradient, the result and the momentum after, float64 [steps, n]."""

    def work(transport):
        reducer, found = settings.reducer(LAYOUT, Link(transport, ""), model, DEVICE), []
        momentum = np.zeros(vector_length(LAYOUT))
        for step, gradient in enumerate(inputs[:, transport.rank]):
            vector = torch.from_numpy(gradient.copy()).to(DEVICE)
            reducer.average(vector, step)
            before, momentum = momentum + gradient, reducer.residual().double().cpu().numpy().copy()
            found.append((before, vector.double().cpu().numpy(), momentum))
        return np.array(found).transpose(1, 0, 2)

    return run_ranks_in_threads(inputs.shape[1], work)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("bits", [None, 8, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_momenta_keep_all_but_what_is_applied(bits, ranks, model, seed):
    """With one column P V^T has length 1, so the average of the momenta falls by a multiple of it, for any rounding."""
    rng, mu = np.random.default_rng(seed), 0.9
    inputs = (rng.standard_normal((6, 1, 737)) + rng.standard_normal((6, ranks, 737))).astype(np.float32)
    found = run(DionFactors(2, 0.1, mu, bits), inputs, model)
    assert all(np.array_equal(found[0][1], each[1]) for each in found)
    taken = np.mean([before - after for before, _, after in found], axis=0)
    result, buffers = found[0][1], np.mean([each[0] for each in found], axis=0)
    for span in LAYOUT[:2]:
        own = slice(span.begin, span.end)
        for step in range(len(inputs)):
            direction = result[step, own]
            assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-6)
            share = taken[step, own] @ direction
            assert np.linalg.norm(taken[step, own] - share * direction) < 1e-4 * share
            reached = buffers[step, own] @ direction  # P^T B V, the length of R but for rounding
            assert share == pytest.approx((1 - mu) * reached, rel=1e-4 if bits is None else 0.4 if bits == 3 else 0.02)
    vector = slice(LAYOUT[2].begin, LAYOUT[2].end)
    mean = taken[:, vector] if bits else inputs[:, :, vector].mean(1)
    assert np.abs(result[:, vector] - mean).max() < 1e-5  # the average, with error feedback


@pytest.mark.parametrize("fraction", [0.2, 0.5, 1.0])
def test_the_result_is_orthonormal_up_to_the_angles_of_v(fraction, seed):
    inputs = np.random.default_rng(seed).standard_normal((4, 2, 737)).astype(np.float32)
    result = run(DionFactors(2, fraction, 0.95, None), inputs, MODELS["gathered"])[0][1]
    for span, columns in zip(LAYOUT, DionFactors(2, fraction, 0.95, None).factor_columns(LAYOUT)[:2], strict=False):
        update = result[-1, span.begin : span.end].reshape(span.shape)
        squares = np.linalg.svd(update, compute_uv=False) ** 2
        assert np.sum(squares) == pytest.approx(columns, rel=1e-5)  # r columns of length 1
        assert np.count_nonzero(squares > 1e-9) == columns


def test_zero_gradients_have_no_direction():
    inputs = np.zeros((3, 2, 737), np.float32)
    inputs[2, 1, 0] = 5.0
    for bits in (None, 4):
        found = run(DionFactors(2, 0.5, 0.95, bits), inputs, MODELS["gathered"])[0][1]
        assert not found[:2].any() and np.isfinite(found).all()
        assert found[2].nonzero()[0].tolist() == [0] and abs(found[2, 0]) == pytest.approx(1, abs=1e-6)


def test_a_gradient_of_a_lower_rank_has_no_invented_direction(seed):
    """Six columns for a matrix of rank two: the others are zero, and not normalized noise."""
    rng = np.random.default_rng(seed)
    matrix = np.rint(rng.normal(0, 9, (12, 2))) @ np.rint(rng.normal(0, 9, (2, 30)))
    inputs = np.zeros((1, 1, 737), np.float32)
    inputs[0, 0, :360] = matrix.ravel()
    update = run(DionFactors(2, 0.5, 0.95, None), inputs, MODELS["gathered"])[0][1][0, :360].reshape(12, 30)
    assert np.linalg.norm(update) ** 2 == pytest.approx(2, rel=1e-4)
    left, right = np.linalg.svd(matrix)[0][:, :2], np.linalg.svd(matrix)[2][:2]
    assert np.linalg.norm(update - left @ left.T @ update @ right.T @ right) < 1e-4


def test_unit_columns_of_any_length():
    columns = torch.tensor([[3.0, 4.0], [0.0, 0.0], [3e-30, 4e-30], [3e30, 4e30]])
    expected = torch.tensor([[0.6, 0.8], [0, 0], [0.6, 0.8], [0.6, 0.8]])
    torch.testing.assert_close(unit_columns(columns), expected)


@pytest.mark.parametrize(
    ("fraction", "columns"), [(1.0, [12, 9, 0]), (0.5, [6, 4, 0]), (0.125, [2, 1, 0]), (0.001, [1, 1, 0])]
)
def test_columns_are_a_share_of_the_shorter_side(fraction, columns):
    assert DionFactors(2, fraction, 0.95, None).factor_columns(LAYOUT) == columns


def test_codecs():
    assert DionFactors(2, 0.5, 0.9, None).codec == CodecId.FLOAT and DionFactors(2, 0.5, 0.9, 4).codec == CodecId.LOG


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 0.9, None), "rank_fraction must be above 0 and at most 1.*got 0"),
        ((2, 0.9, None), "rank_fraction must be above 0 and at most 1.*got 2"),
        (("half", 0.9, None), "rank_fraction='half': it must be a finite number"),
        ((0.5, 1, None), "momentum must be 0 or more and less than 1; got 1"),
        ((0.5, nan, None), "momentum=nan: it must be a finite number"),
        ((0.5, 0.9, 1), "bits=1: use an integer from 2 to 8"),
        ((0.5, 0.9, Adaptive()), "Dion takes a number of bits, and no policy"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(DataError, match=message):
        DionFactors(2, *settings)

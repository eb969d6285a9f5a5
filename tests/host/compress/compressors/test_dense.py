"""Compressors of single values: ternary gradients, and invalid settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.compressor_steps import alike, integers, steps

from bitlane.compress import QSGD, EFSign, TernGrad
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressor import ParameterSpan
from bitlane.compress.compressors.quantizers import LinearQuantizer, SignQuantizer
from bitlane.errors import DataError

pytestmark = pytest.mark.torch


def averaged(compressor, layout, vectors):
    """Return the averages of one step, float32 [ranks, n], with ranks as threads."""

    def work(transport):
        reducer = compressor.reducer(layout, Link(transport, ""), AlphaBetaModel(), torch.device("cpu"))
        vector = torch.from_numpy(vectors[transport.rank].copy())
        reducer.average(vector, 0)
        return vector.numpy()

    return np.array(run_ranks_in_threads(len(vectors), work))


def test_one_rank_has_three_values_per_group(seed):
    values = np.random.default_rng(seed).normal(size=1200).astype(np.float32)
    found = averaged(TernGrad(clip=None, seed=seed), [ParameterSpan(0, (1200,))], [values])[0]
    for begin in range(0, 1200, 512):
        group, coded = values[begin : begin + 512], found[begin : begin + 512]
        assert set(np.abs(coded).tolist()) <= {0.0, float(np.abs(group).max())}
        assert np.all((coded == 0) | (np.sign(coded) == np.sign(group)))


def test_ternary_values_are_unbiased_without_clipping(seed):
    values = np.random.default_rng(seed).uniform(-1, 1, 100).astype(np.float32)
    count = 2000
    inputs = np.broadcast_to(values, (count, 1, 100))
    found = steps(TernGrad(clip=None, seed=seed), inputs).averages[:, 0].astype(np.float64)
    assert np.abs(found.mean(0) - values).max() < 5.5 / 2 / np.sqrt(count)


def test_parameters_are_clipped_separately(seed):
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=512), 1e-3 * rng.normal(size=(4, 128))
    first[7], second[0, 3] = 100, 5
    values = np.concatenate([first, second.ravel(), [3.0]]).astype(np.float32)
    layout = [ParameterSpan(0, (512,)), ParameterSpan(512, (4, 128)), ParameterSpan(1024, (1,))]
    found = averaged(TernGrad(seed=seed), layout, [values])[0]
    for begin, end in ((0, 512), (512, 1024)):
        spread = np.sqrt(np.mean(values[begin:end].astype(np.float64) ** 2))
        assert np.abs(found[begin:end]).max() == pytest.approx(2.5 * spread, rel=1e-5)
    assert found[1024] == 3.0


@pytest.mark.parametrize("compressor", [TernGrad(), QSGD(4), QSGD(3, error_feedback=True), EFSign()], ids=repr)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_averages_are_identical_and_repeatable(compressor, ranks, seed):
    inputs = integers(seed, 3, ranks, 1500)
    found, again = steps(compressor, inputs), steps(compressor, inputs)
    assert alike(found.averages)
    assert found.averages.tobytes() == again.averages.tobytes()
    rest = steps(compressor, inputs[1:], 1, steps(compressor, inputs[:1]).states)
    assert rest.averages.tobytes() == found.averages[1:].tobytes()


@pytest.mark.parametrize("clip", [0, -1.0, float("nan"), float("inf")])
def test_invalid_clip_is_rejected(clip):
    with pytest.raises(DataError, match="clip"):
        TernGrad(clip=clip)


@pytest.mark.parametrize("quantizer", [LinearQuantizer(4, False), SignQuantizer()], ids=repr)
def test_integers_are_rejected(quantizer):
    from bitlane.compress.codecs.groups import Groups

    with pytest.raises(DataError, match="int32"):
        quantizer.encode(torch.zeros(5, dtype=torch.int32), Groups.of(5), None, 0)

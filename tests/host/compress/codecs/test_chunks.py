"""The largest values of each chunk against a stable sort of each, on host and GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers import sparse_values
from tests.helpers.devices import DEVICE

from bitlane.compress.codecs.chunks import largest_in_rows
from bitlane.compress.codecs.gpu import chunks as gpu_chunks
from bitlane.compress.compressors.chunks import ChunkSelection

pytestmark = pytest.mark.torch


def values_of(seed, n):
    """Return random values, some with ties or many zeros, float32 [n]."""
    rng = np.random.default_rng(seed)
    return {
        0: rng.standard_normal(n),
        1: rng.integers(-3, 4, n),
        2: rng.standard_normal(n) * (rng.random(n) < 0.004),
        3: np.zeros(n),
    }[seed % 4].astype(np.float32)


@pytest.mark.parametrize("n", [0, 1, 2, 4095, 4096, 4097, 3 * 4096, 20_001])
@pytest.mark.parametrize("density", [1e-6, 0.01, 0.03, 0.5, 1.0])
def test_each_chunk_has_its_share_of_the_largest(n, density, seed):
    values = values_of(seed + n, n)
    found = ChunkSelection().select(torch.from_numpy(values).to(DEVICE), density)
    assert found.dtype == torch.int64
    assert np.array_equal(found.cpu().numpy(), np.flatnonzero(sparse_values.chunk_mask(values, density)))


@pytest.mark.parametrize("count", [1, 7, 64])
def test_host_and_gpu_select_alike(count, seed):
    rows = values_of(seed, 64 * 50).reshape(50, 64)
    found = gpu_chunks.largest_in_rows(torch.from_numpy(rows).to(DEVICE), count)
    assert np.array_equal(found.cpu().numpy(), largest_in_rows(rows, count))


def test_blocks_have_the_chunks_of_the_vector(seed, monkeypatch):
    values = torch.from_numpy(values_of(4 * seed, 9 * 4096 + 5)).to(DEVICE)
    whole = ChunkSelection().select(values, 0.01)
    monkeypatch.setattr("bitlane.compress.compressors.chunks.BLOCK", 2 * 4096)
    assert torch.equal(ChunkSelection().select(values, 0.01), whole)
    assert len(whole) == 9 * 41 + 1

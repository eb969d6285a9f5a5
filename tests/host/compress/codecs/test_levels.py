"""Sparse values of few bits: the bytes of a plain reference, on host and GPU, bounds of the error, refused damage."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import sparse_values
from tests.helpers.devices import DEVICE
from tests.helpers.properties import SEEDS, damage, damaged, share

from bitlane.compress.codecs import levels, sparse, tensors
from bitlane.compress.codecs.gpu import levels as gpu_levels
from bitlane.compress.codecs.wire import HEADER_BYTES, PayloadError
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

BITS = [2, 4, 8]


def example(seed):
    """Return random indices and values: of any scale, with zeros, ties, single ones and chunks of one scale."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 5, 4095, 4096, 4097, 20_000]))
    indices = np.flatnonzero(rng.random(n) < rng.choice([0.0005, 0.02, 0.3]))
    values = rng.standard_t(1.5, len(indices)) * 10.0 ** rng.uniform(-40, 25)
    kind = rng.integers(4)
    if kind == 1:
        values = np.round(rng.standard_normal(len(indices)))
    elif kind == 2:
        values = np.full(len(indices), rng.standard_normal()) * rng.choice([-1, 0, 1], len(indices))
    return indices, values.astype(np.float32), n


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("stochastic", [False, True])
def test_bytes_are_those_of_the_textbook_on_host_and_gpu(bits, stochastic, seed):
    indices, values, _ = example(seed)
    drawn = seed % 2**32 if stochastic else None
    expected, meant = sparse_values.encode(indices, values, bits, drawn)
    codes, decoded = levels.encode(indices, values, bits, drawn)
    assert codes.tobytes() == expected and decoded.tobytes() == meant.tobytes()
    assert levels.decode(codes, indices, bits).tobytes() == meant.tobytes()
    on_device = torch.from_numpy(indices).to(DEVICE)
    own, seen = gpu_levels.encode(on_device, torch.from_numpy(values).to(DEVICE), bits, drawn)
    assert own.cpu().numpy().tobytes() == expected and seen.cpu().numpy().tobytes() == meant.tobytes()
    assert gpu_levels.decode(own, on_device, bits).cpu().numpy().tobytes() == meant.tobytes()


@pytest.mark.parametrize("bits", BITS)
def test_the_error_is_at_most_half_a_step(bits, seed):
    rng = np.random.default_rng(seed)
    indices = np.flatnonzero(rng.random(30_000) < 0.05)
    values = (rng.standard_normal(len(indices)) * 10.0 ** rng.uniform(-20, 20)).astype(np.float32)
    decoded = levels.encode(indices, values, bits)[1]
    for chunk in np.unique(indices // 4096):
        own = indices // 4096 == chunk
        magnitudes = np.abs(values[own]).astype(np.float64)
        high, low = magnitudes.max() * (1 + 2**-7), magnitudes.min() - magnitudes.max() / 255
        half = (high - max(low, 0)) / (2 ** (bits - 1) - 1) / 2
        assert np.abs(decoded[own].astype(np.float64) - values[own]).max() <= half * (1 + 1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_stochastic_rounding_is_unbiased(bits, seed):
    rng = np.random.default_rng(seed)
    indices, draws = np.arange(40), 4000
    values = rng.standard_normal(40).astype(np.float32)
    each = np.array([levels.encode(indices, values, bits, (seed + draw) % 2**32)[1] for draw in range(draws)])
    step = np.abs(values).max() / (2 ** (bits - 1) - 1)
    assert np.abs(each.mean(axis=0) - values).max() < 5.5 * step / 2 / np.sqrt(draws) + step * 2**-14


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_values_without_a_level_are_refused(bits, bad, seed):
    indices, values = np.arange(9), np.ones(9, np.float32)
    values[seed % 9] = bad
    for encode in (levels.encode, lambda i, v, b: gpu_levels.encode(torch.from_numpy(i), torch.from_numpy(v), b)):
        with pytest.raises(DataError, match="NaN, an infinity or a magnitude above"):
            encode(indices, values, bits)


@pytest.mark.parametrize("bits", [*BITS, 32])
def test_bytes_of_a_body_are_predicted(bits, seed):
    indices, values, n = example(seed)
    tensor = torch.from_numpy(indices).to(DEVICE)
    body, decoded = tensors.encode(tensor, torch.from_numpy(values).to(DEVICE), n, bits)
    assert body.cpu().numpy().tobytes() == sparse.encode(indices, values, n, bits).tobytes()
    codes = tensors.encode_indices(tensor, n)
    chunks = len({index // 4096 for index in indices.tolist()})
    own = 4 * len(indices) if bits == 32 else 3 * chunks + -(-len(indices) * bits // 8)
    assert tensors.value_bytes(tensor, bits) == own
    assert len(body) == len(codes) + own + (bits < 32) * (1 if chunks < 128 else 2)
    found, seen = tensors.decode(body, n, DEVICE, bits)
    assert torch.equal(found, tensor) and seen.cpu().numpy().tobytes() == decoded.cpu().numpy().tobytes()


@pytest.mark.parametrize("bits", BITS)
def test_truncated_and_longer_bodies_are_refused(bits):
    indices = np.arange(0, 9000, 300)
    payload = sparse.to_payload(indices, np.linspace(1, 2, len(indices), dtype=np.float32), 9000, bits)
    assert len(sparse.from_payload(payload)[0]) == len(indices)
    for length in range(len(payload)):
        with pytest.raises(PayloadError):
            sparse.from_payload(payload[:length])
        if length >= HEADER_BYTES:
            body = np.frombuffer(payload[HEADER_BYTES:length], np.uint8)
            with pytest.raises(PayloadError):
                sparse.decode(body, 9000, bits)
            with pytest.raises(PayloadError):
                tensors.decode(torch.from_numpy(body.copy()), 9000, torch.device("cpu"), bits)


PAYLOADS = {bits: sparse.to_payload(np.arange(0, 9000, 190), np.ones(48, np.float32), 9000, bits) for bits in BITS}


@share(1 / 4)
@given(damage(HEADER_BYTES + 80), st.sampled_from(BITS))
def test_damaged_payloads_give_valid_vectors_or_an_error(changes, bits):
    changes = [(max(index, 16) % len(PAYLOADS[bits]), value) for index, value in changes]
    try:
        indices, values, n = sparse.from_payload(damaged(PAYLOADS[bits], changes))
    except PayloadError:
        return
    assert len(indices) == len(values) and (np.diff(indices) > 0).all() and (indices < n).all()
    assert np.isfinite(values).all()


@share(1 / 40)
@given(SEEDS, st.sampled_from(BITS))
def test_a_damaged_scale_or_rest_is_refused(data_seed, bits):
    rng = np.random.default_rng(data_seed)
    indices = np.flatnonzero(rng.random(9000) < 0.01)
    indices = np.union1d(indices, [3, 4100])[: len(indices) // 4 * 4 + 1]
    codes = levels.encode(indices, np.ones(len(indices), np.float32), bits)[0]
    on_device = torch.from_numpy(indices)
    for place, value in ((1, 255), (1, 1), (len(codes) - 1, 0x80)):
        changed = codes.copy()
        changed[place] = value
        if bits == 8 and place > 1:
            continue  # there is no rest
        for decode in (levels.decode, lambda c, i, b: gpu_levels.decode(torch.from_numpy(c), on_device, b)):
            with pytest.raises(PayloadError, match="damaged"):
                decode(changed, indices, bits)


def test_other_bits_are_refused():
    for bits in (0, 1, 3, 16):
        with pytest.raises(DataError, match=f"sparse values of {bits} bits: use 2, 4 or 8, or 32"):
            sparse.encode(np.arange(3), np.ones(3, np.float32), 5, bits)
    payload = bytearray(PAYLOADS[4])
    payload[6] = 3
    with pytest.raises(PayloadError, match="SPARSE with 3 bits"):
        sparse.from_payload(bytes(payload))

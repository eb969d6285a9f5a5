"""Quantizers of factors: the bytes of the codecs, and lossless float32."""

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bitlane.compress.codecs import log
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.compressors.factors import Float32Quantizer, LogQuantizer

pytestmark = pytest.mark.torch

GROUPS = Groups.of(700, 3, 90)


def drawn(rng):
    return torch.from_numpy(rng.standard_normal(GROUPS.count).astype(np.float32))


def test_float32_sends_values_and_residual(seed):
    rng = np.random.default_rng(seed)
    values, residual, out = drawn(rng), drawn(rng), torch.ones(GROUPS.count)
    whole = values + residual
    body = Float32Quantizer().encode(values, GROUPS, residual, 0)
    assert body.numpy().tobytes() == whole.numpy().astype("<f4").tobytes()
    assert len(body) == Float32Quantizer().body_bytes(GROUPS) and not residual.any()
    Float32Quantizer().decode(body, GROUPS, out, add=True)
    assert torch.equal(out, 1 + whole)
    Float32Quantizer().decode(body, GROUPS, out, add=False)
    assert torch.equal(out, whole)


def test_float32_is_added_from_another_device():
    """As with gloo and gradients on a GPU: the bodies of other ranks come on the CPU. Tensors without memory."""
    with FakeTensorMode():
        out = torch.ones(GROUPS.count, device="cuda")
        Float32Quantizer().decode(torch.zeros(4 * GROUPS.count, dtype=torch.uint8), GROUPS, out, add=True)


def test_float32_is_a_copy(seed):
    """The vector is overwritten with the average before the body is decoded."""
    values = drawn(np.random.default_rng(seed))
    before = values.clone()
    body = Float32Quantizer().encode(values, GROUPS, None, 0)
    values.zero_()
    assert torch.equal(body.view(torch.float32), before)


@pytest.mark.parametrize("bits", [2, 5, 8])
def test_log_equals_the_codec(bits, seed):
    rng = np.random.default_rng(seed)
    values, residual, out = drawn(rng), drawn(rng), torch.ones(GROUPS.count)
    kept, plain = residual.numpy().copy(), np.ones(GROUPS.count, np.float32)
    expected = log.encode(values.numpy(), GROUPS, bits, 10.0, kept)
    body = LogQuantizer(bits, 10.0).encode(values, GROUPS, residual, 0)
    assert np.array_equal(body.numpy(), expected) and np.array_equal(residual.numpy(), kept)
    assert len(body) == LogQuantizer(bits, 10.0).body_bytes(GROUPS)
    log.decode(expected, GROUPS, bits, 10.0, plain, add=True)
    LogQuantizer(bits, 10.0).decode(body, GROUPS, out, add=True)
    assert np.array_equal(out.numpy(), plain)

"""Codecs of indices and of logarithmic levels on a GPU: the bytes, values and errors of numpy's.

Without a GPU they run on the CPU: operations of torch there, kernels in Triton's interpreter. The reducers take them
there, too, and are compared with those that take numpy's.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.compressor_steps import alike, steps
from tests.helpers.devices import DEVICE
from tests.helpers.properties import SEEDS, damage, damaged, index_sets, runs, share

pytest.importorskip("triton")

from bitlane.compress import DGC, LQSGD, MiCRO, TopK
from bitlane.compress.codecs import log, rice, sparse, tensors
from bitlane.compress.codecs.gpu import largest as gpu_largest
from bitlane.compress.codecs.gpu import log as gpu_log
from bitlane.compress.codecs.gpu import rice as gpu_rice
from bitlane.compress.codecs.gpu import select as gpu_select
from bitlane.compress.codecs.gpu.rice import pack_bits, unpack_bits
from bitlane.compress.codecs.groups import Groups
from bitlane.compress.codecs.largest import largest
from bitlane.compress.codecs.wire import PayloadError
from bitlane.compress.compressors import factors

pytestmark = pytest.mark.torch


def tensor(values):
    return torch.from_numpy(values.copy()).to(DEVICE)


@share(1 / 100)
@given(index_sets())
def test_codes_of_indices_are_those_of_numpy(case):
    indices, n = np.array(case[0], np.int64), case[1]
    codes = gpu_rice.encode(tensor(indices), n)
    assert codes.dtype == torch.uint8 and codes.cpu().numpy().tobytes() == rice.encode(indices, n).tobytes()
    found = gpu_rice.decode(codes, n)
    assert found.dtype == torch.int64 and found.cpu().tolist() == indices.tolist()


@share(1 / 100)
@given(index_sets(500), st.data())
def test_damaged_codes_are_refused_as_by_numpy(case, data):
    """Or decoded to the same indices, where another vector has these codes."""
    codes = rice.encode(np.array(case[0], np.int64), case[1]).tobytes()
    codes = damaged(codes, data.draw(damage(len(codes))))[: data.draw(st.integers(0, len(codes)))]
    bad = np.frombuffer(codes, np.uint8)
    try:
        wanted = rice.decode(bad, case[1]).tolist()
    except PayloadError:
        with pytest.raises(PayloadError, match="codes of"):
            gpu_rice.decode(tensor(bad), case[1])
    else:
        assert gpu_rice.decode(tensor(bad), case[1]).cpu().tolist() == wanted


@share(1 / 100)
@given(SEEDS, st.integers(0, 20_000), st.integers(-1, 20_100), st.sampled_from([1, 3, 100, 10_000]))
def test_the_largest_are_those_of_numpy(seed, n, count, kinds):
    """With ties and zeros: few kinds of values. Of the longer vectors every second to fourth value is sampled."""
    values = np.random.default_rng(seed).integers(-kinds, kinds + 1, n).astype(np.float32)
    found = gpu_largest.largest(tensor(values), count)
    assert found.dtype == torch.int64 and found.cpu().tolist() == largest(values, count).tolist()


@pytest.mark.parametrize("sampled", [0.0, 1.0, 9.0])
def test_a_sample_that_misleads_gives_the_largest_too(sampled):
    """Every fourth value is sampled, and differs from all others."""
    values = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    values[::4] = sampled
    for count in (10, 4000, 6000, 16_000, 20_000):
        assert gpu_largest.largest(tensor(values), count).cpu().tolist() == largest(values, count).tolist()


@pytest.mark.parametrize("bits", range(2, 9))
@share(1 / 100)
@given(seed=SEEDS, lengths=runs(1200), feedback=st.booleans(), add=st.booleans())
def test_logarithmic_levels_are_those_of_numpy(bits, seed, lengths, feedback, add):
    rng = np.random.default_rng(seed)
    groups = Groups.of(*lengths)
    values, residual, base = (rng.normal(size=(3, groups.count)) * [[1e-3], [1e-4], [1]]).astype(np.float32)
    values[rng.random(groups.count) < 0.3] = rng.choice([0.0, -0.0, 1e-32, 1e30])
    kept = tensor(residual) if feedback else None
    made = gpu_log.encode(tensor(values), groups, bits, 10.0, kept)
    body = log.encode(values, groups, bits, 10.0, residual if feedback else None)
    assert made.cpu().numpy().tobytes() == body.tobytes()
    if kept is not None:
        assert kept.cpu().numpy().tobytes() == residual.tobytes()
    found, out = tensor(base), base.copy()
    gpu_log.decode(made, groups, bits, 10.0, found, add)
    log.decode(body, groups, bits, 10.0, out, add)
    assert found.cpu().numpy().tobytes() == out.tobytes()
    with pytest.raises(PayloadError, match=f"is not that of {groups.count} values at {bits} bits"):
        gpu_log.decode(torch.nn.functional.pad(made, (0, 1)), groups, bits, 10.0, found, add)


@share(1 / 100)
@given(st.lists(st.booleans(), max_size=50))
def test_single_bits_are_packed_as_by_numpy(bits):
    packed = pack_bits(tensor(np.array(bits, bool)))
    assert packed.cpu().numpy().tobytes() == np.packbits(np.array(bits, bool), bitorder="little").tobytes()
    assert unpack_bits(packed)[: len(bits)].cpu().tolist() == bits


@share(1 / 100)
@given(index_sets(), SEEDS)
def test_bodies_are_those_of_numpy_and_short_ones_are_refused(case, seed):
    indices, n = np.array(case[0], np.int64), case[1]
    values = np.random.default_rng(seed).normal(size=len(indices)).astype(np.float32)
    body = tensors.encode(tensor(indices), tensor(values), n)[0]
    assert body.cpu().numpy().tobytes() == sparse.encode(indices, values, n).tobytes()
    found = tensors.decode(body, n, DEVICE)
    assert (found[0].cpu().tolist(), found[1].cpu().tolist()) == (indices.tolist(), values.tolist())
    if len(indices):
        with pytest.raises(PayloadError):
            tensors.decode(body[:-1], n, DEVICE)


class OneAtATime:
    """The kernels, for ranks that are threads: they share Triton's interpreter."""

    def __init__(self, lock):
        self.lock = lock

    def encode(self, *arguments):
        with self.lock:
            return gpu_log.encode(*arguments)

    def decode(self, *arguments):
        with self.lock:
            gpu_log.decode(*arguments)

    def select(self, *arguments):
        with self.lock:
            return gpu_select.select(*arguments)


COMPRESSORS = [
    *(TopK(0.1), TopK(0.1, residual_dtype="bfloat16"), TopK(0.2, error_feedback=False)),
    *(DGC(0.05, clip=0.5), MiCRO(0.1), LQSGD(rank=1)),
]


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_reducers_have_the_same_bytes_with_the_codecs_of_a_gpu(compressor, monkeypatch, seed):
    vectors = np.random.default_rng(seed).normal(size=(4, 3, 1600)).astype(np.float32)
    vectors[:, :, ::7] = 0
    host = steps(compressor, vectors)
    taken, kernels = [], OneAtATime(Lock())
    monkeypatch.setattr(factors, "_gpu", lambda: kernels)
    monkeypatch.setattr(gpu_largest, "select", kernels.select)
    for module in (tensors, factors):
        monkeypatch.setattr(module, "on_host", lambda device: bool(taken.append(device)))
    there = steps(compressor, vectors)
    assert taken and alike(there.averages)
    assert there.averages.tobytes() == host.averages.tobytes() and there.sent == host.sent
    assert repr(there.states) == repr(host.states)

"""GPU code against the golden payloads and numpy, byte for byte: on a GPU if there is one, else in the interpreter.

Without a GPU the code is also compiled for one, and its assembly is read: interpreted code may not compile, and
compiled code may round differently.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.helpers.devices import DEVICE
from tests.helpers.places import GOLDEN

pytest.importorskip("triton")

from bitlane.compress.codecs import linear, sign
from bitlane.compress.codecs.gpu import codes
from bitlane.compress.codecs.gpu.select import select
from bitlane.compress.codecs.groups import GROUP, Groups
from bitlane.compress.codecs.select import select as plain_select
from bitlane.compress.codecs.wire import HEADER_BYTES, PayloadError
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

GOLDEN_CASES = json.loads((GOLDEN / "codecs.json").read_text())
CASES = [pytest.param(case, id=f"{case['bits']} bits, feedback {case['feedback']}") for case in GOLDEN_CASES["cases"]]


def tensor(values):
    return torch.from_numpy(values.copy()).to(DEVICE)


@pytest.mark.parametrize("case", CASES)
def test_golden_payloads_are_encoded(case):
    values, residual = (np.frombuffer(bytes.fromhex(GOLDEN_CASES[name]), "<f4") for name in ("values", "residual"))
    if case["bits"] == 1:
        values, residual = (np.concatenate([each[:1024], each[1536:]]) for each in (values, residual))
    kept = tensor(residual) if case["feedback"] else None
    body = codes.encode(tensor(values), Groups.of(len(values)), case["bits"], kept, case["seed"])
    assert body.cpu().numpy().tobytes() == bytes.fromhex(case["payload"])[HEADER_BYTES:]
    if kept is not None:
        assert hashlib.sha256(kept.cpu().numpy().tobytes()).hexdigest() == case["kept"]


@pytest.mark.parametrize("bits", range(1, 9))
def test_bodies_equal_those_of_numpy(bits, seed):
    rng = np.random.default_rng(seed)
    for count in (0, 1, int(rng.integers(2, 3 * GROUP))):
        groups = Groups.of(count)
        values, base = rng.normal(size=(2, count)).astype(np.float32)
        draw = None if bits == 1 else int(rng.integers(2**32))
        residual, out, add = values / 8, base.copy(), bool(rng.random() < 0.5)
        kept, found = tensor(residual), tensor(base)
        if bits == 1:
            body = sign.encode(values, groups, residual)
            sign.decode(body, groups, out, add)
        else:
            body = linear.encode(values, groups, bits, residual, draw)
            linear.decode(body, groups, bits, out, add)
        made = codes.encode(tensor(values), groups, bits, kept, draw)
        codes.decode(made, groups, bits, found, add)
        assert made.cpu().numpy().tobytes() == body.tobytes()
        assert kept.cpu().numpy().tobytes() == residual.tobytes()
        assert found.cpu().numpy().tobytes() == out.tobytes()


def test_groups_with_different_bits_equal_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    for count in (0, 1, int(rng.integers(2, 9 * GROUP))):
        groups = Groups.of(count)
        values, base = rng.normal(size=(2, count)).astype(np.float32)
        widths, draw, out = rng.integers(2, 9, len(groups)).astype(np.uint8), int(rng.integers(2**32)), base.copy()
        found, add = tensor(base), bool(rng.random() < 0.5)
        body = linear.encode(values, groups, widths, None, draw)
        linear.decode(body, groups, widths, out, add)
        made = codes.encode(tensor(values), groups, widths, None, draw)
        codes.decode(made, groups, widths, found, add)
        assert made.cpu().numpy().tobytes() == body.tobytes()
        assert found.cpu().numpy().tobytes() == out.tobytes()


@pytest.mark.parametrize("threshold", [0.0, 0.1, 2.0, 9.0])
def test_selections_equal_those_of_numpy(threshold, seed):
    rng = np.random.default_rng(seed)
    for count in (0, 1, 1024, int(rng.integers(2, 3000))):
        values = rng.normal(size=count).astype(np.float32)
        values[::5] = rng.choice([np.nan, threshold, -np.inf], len(values[::5]))
        indices, selected = plain_select(values, threshold)
        found = select(tensor(values), threshold)
        assert found[0].dtype == torch.int64 and found[0].cpu().tolist() == indices.tolist()
        assert found[1].cpu().numpy().tobytes() == selected.tobytes()


def test_other_tensors_are_refused():
    groups, good = Groups.of(6), torch.zeros(6, device=DEVICE)
    for bad in (good.int(), good.double(), torch.zeros(5, device=DEVICE), torch.zeros(12, device=DEVICE)[::2]):
        with pytest.raises(DataError, match="contiguous float32"):
            codes.encode(bad, groups, 4, None, None)
        with pytest.raises(DataError, match="contiguous float32"):
            codes.encode(good, groups, 4, bad, None)
        with pytest.raises(DataError, match="contiguous float32"):
            codes.decode(codes.encode(good, groups, 4, None, None), groups, 4, bad, False)
    for runs in ((3, 3), (1, 512)):  # the second has as many groups as a single run
        with pytest.raises(DataError, match="several runs"):
            codes.encode(torch.zeros(sum(runs), device=DEVICE), Groups.of(*runs), 4, None, None)
    with pytest.raises(PayloadError, match="which is not that of 6 values at 5 bits"):
        codes.decode(codes.encode(good, groups, 4, None, None), groups, 5, good, False)


COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from bitlane.compress.codecs.gpu import codes, log, octets, select

def show(kernel, types, constants):
    types = {**types, **dict.fromkeys(constants, "constexpr")}
    indices = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=types, constexprs=indices)
    made = compile(source, target=GPUTarget("cuda", 90, 32), options=octets.OPTIONS)
    print(made.asm["ptx"], "// END")

encode = {"values": "*fp32", "residual": "*fp32", "steps": "*fp32", "codes": "*u8", "formats": "*i64", "total": "i64"}
decode = {"codes": "*u8", "steps": "*fp32", "formats": "*i64", "out": "*fp32", "total": "i64"}
for same in (0, 1, 3):
    alike = {"formats": None} if same else {"residual": None}
    size = {"same": same, "lanes": octets.lanes(same or 8)}
    show(codes._encode, {**encode, "seed": "i32"}, {**size, **alike, **({"seed": None} if same == 1 else {})})
    show(codes._decode, decode, {**size, "add": True, **({"formats": None} if same else {})})
count = {"values": "*fp32", "counts": "*i64", "total": "i64", "least": "fp32"}
show(select._count, count, {"size": 1024})
tables = {"spans": "*i64", "total": "i64", "levels": "*fp32"}
encode = {"values": "*fp32", "residual": "*fp32", "scales": "*fp32", "codes": "*u8", **tables, "thresholds": "*fp32"}
show(log._encode, encode, {"bits": 4, "lanes": 4})
decode = {"codes": "*u8", "scales": "*fp32", **tables, "out": "*fp32"}
show(log._decode, decode, {"bits": 4, "lanes": 4, "add": True, "spans": None})
write = {"values": "*fp32", "starts": "*i64", "to": "*i64", "selected": "*fp32", "total": "i64", "least": "fp32"}
show(select._write, write, {"size": 1024})
"""


@pytest.mark.skipif(DEVICE.type != "cpu", reason="runs on the GPU instead")
def test_compiled_code_has_no_fused_flushed_or_approximate_operation(tmp_path):
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("// END") == 10
    assert not re.findall(r"fma\.|\.ftz|div\.full|div\.approx|rcp\.", done.stdout)
    assert done.stdout.count("div.rn.f32") >= 4

"""The training for a GPU: loops and kernels against a textbook, on a GPU if there is one, else interpreted."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers.devices import DEVICE

pytest.importorskip("triton")

from bitlane_studies.float_sgd import ScaledTable, steps_of
from bitlane_studies.when_it_wins import gpu

pytestmark = pytest.mark.torch

ROWS, EPOCHS = 83, 2  # the last batch is short, and so is the last tile


@pytest.fixture(params=[5, 8])
def scaled(request: pytest.FixtureRequest, seed: int) -> ScaledTable:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(ROWS, request.param)).astype(np.float32)
    return ScaledTable.of(X, (X @ np.arange(request.param) + rng.normal(size=ROWS)).astype(np.float32))


def textbook(rows: np.ndarray, labels: np.ndarray, batch: int, steps: np.ndarray) -> np.ndarray:
    """SGD in float64."""
    rows, weights = rows.astype(float), np.zeros(rows.shape[1])
    for step in steps:
        for start in range(0, len(rows), batch):
            some = slice(start, start + batch)
            weights -= step * (rows[some].T @ (rows[some] @ weights - labels[some]))
    return weights


@pytest.mark.parametrize("batch", [7, 20])
def test_all_ways_on_floats_take_the_steps_of_a_textbook(scaled: ScaledTable, batch: int) -> None:
    steps = steps_of(0.3, batch, EPOCHS)
    expected = textbook(scaled.rows, scaled.labels, batch, steps)
    found = gpu.ways(gpu.TorchTable.of(scaled, DEVICE.type), batch, steps)
    for name in ("loop of calls", "CUDA graph of an epoch", "persistent kernel, float32"):
        for _ in range(2):  # a second call begins from nothing, too
            np.testing.assert_allclose(found[name]().cpu().numpy(), expected, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("batch", [7, 20])
def test_packed_codes_train_as_the_rounded_rows(scaled: ScaledTable, batch: int) -> None:
    steps = steps_of(0.3, batch, EPOCHS)
    low, high = scaled.rows.min(0), scaled.rows.max(0)
    rounded = low + np.rint((scaled.rows - low) / (high - low) * 15) * ((high - low) / 15)
    assert np.abs(rounded - scaled.rows).max() <= (high - low).max() / 30 + 1e-6
    expected = textbook(rounded, scaled.labels, batch, steps)
    packed = gpu.PackedTable.of(gpu.TorchTable.of(scaled, DEVICE.type))
    assert packed.rows.shape == (ROWS, -(-scaled.rows.shape[1] // 2))
    weights = gpu.persistent(packed, batch, steps).cpu().numpy()
    np.testing.assert_allclose(weights[: len(expected)], expected, atol=1e-3)  # a code may round the other way
    assert not weights[len(expected) :].any()


def test_the_table_has_a_line_for_each_way_and_batch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "EPOCHS", 1)
    X = np.random.default_rng(seed).normal(size=(40, 4)).astype(np.float32)
    lines = gpu.lines(X, X @ np.arange(4, dtype=np.float32), DEVICE.type, 1)
    assert len(lines) == 4 * len(gpu.BATCHES) and all(len(line) == len(gpu.HEAD) for line in lines)
    losses = [float(line[-1]) for line in lines[:3]]  # of floats
    assert max(losses) - min(losses) < 1e-3 * max(losses) + 2e-4


@pytest.mark.skipif(DEVICE.type != "cpu", reason="there is a GPU")
def test_without_a_gpu_it_tells_what_it_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main([])
    assert "would train 20 epochs of MNIST with batches of 16, 64, 1024 rows" in capsys.readouterr().out


COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from bitlane_studies.when_it_wins import kernel

floats = {"labels": "*fp32", "weights": "*fp32", "steps": "*fp32", "count": "i32", "epochs": "i32"}
own = (
    (kernel.train_floats, {"rows": "*fp32", "columns": "i32"}, 1024),
    (kernel.train_packed, {"rows": "*u8", "units": "*fp32", "lows": "*fp32", "octets": "i32"}, 512),
)
for function, types, width in own:
    sizes = {"batch": 64, "tile": kernel.TILE, "width": width}
    given = {**floats, **types, **dict.fromkeys(sizes, "constexpr")}
    given = {name: given[name] for name in function.arg_names}
    indices = {(function.arg_names.index(name),): value for name, value in sizes.items()}
    source = ASTSource(fn=function, signature=given, constexprs=indices)
    made = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": kernel.WARPS})
    print(made.asm["ptx"], "// END")
"""


@pytest.mark.skipif(DEVICE.type != "cpu", reason="runs on the GPU instead")
def test_the_kernels_compile_for_a_gpu(tmp_path) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("// END") == 2 and "fma.rn.f32" in done.stdout
    assert "ld.local" not in done.stdout  # the model stays in registers

"""The kernels in C: numpy's bits here and on 32-bit Arm, and numpy itself if they cannot be built.

`tests/host/training/test_samples.py` compares 300 random tables in numpy and C.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest
from tests.helpers.compilers import arm_compiler, arm_emulator, has_compiler, script_compiler
from tests.helpers.emulated_kernels import build_driver, emulated_kernels
from tests.helpers.encode_cases import Case

from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.quantization.c_kernels import c_kernels
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.samples import SMALL, SampleEncoder

compiles = pytest.mark.skipif(not has_compiler(), reason="this machine has no C compiler")
ARM_FLAGS = {"VFP": ["-mfpu=vfpv3-d16"], "NEON": ["-mfpu=neon"]}


@pytest.fixture(autouse=True)
def fresh_cache(monkeypatch, tmp_path):
    """Build into a folder of the test, and ask again which kernels there are."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    c_kernels.cache_clear()
    yield
    c_kernels.cache_clear()


class Far(Case):
    """A table whose products with the multipliers are as large as doubles that are all integers, and around them."""

    def __init__(self, rng):
        rows, n = 40, int(rng.integers(1, 70))
        self.precision = precision = Precision(2 * int(rng.integers(1, 17)), str(rng.choice(["double", "naive"])))
        center = rng.choice([-1, 1], n) * 2.0 ** rng.integers(-20, 40, n)
        X = center + rng.normal(size=(rows, n)) * 2.0 ** rng.integers(-30, 30, n)
        X[:4] = [[0.0], [-0.0], [1.0], [-1.0]]
        self.X, self.y = X.astype(rng.choice(["f4", "f8"])), np.zeros((rows, 1))
        self.scaling = fit_scaling(self.X, self.y, bool(rng.random() < 0.5), precision.limit, margins=True)
        self.X[rng.random(X.shape) < 0.1] *= 4  # outside the range of the scaling
        self.X[rng.random(X.shape) < 0.05] = np.finfo(np.float32).smallest_subnormal
        self.first, self.seed, self.number, self.numbers = 0, int(rng.integers(1 << 40)), 0, [0, 3]
        self.geometry = Geometry.of(precision, self.scaling.stored_features, rows, 7)


@compiles
def test_values_far_from_the_range(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        case = Far(rng)
        assert case.words(c_kernels()) == case.words(None), (case.precision, case.X.dtype)


@compiles
def test_types_at_their_limits(seed):
    rng = np.random.default_rng(seed)
    for dtype in ("u1", "i2"):
        case = Case(rng)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        case.X = rng.integers(low, high, case.X.shape, dtype, endpoint=True)
        case.X[:2] = [[low], [high]]
        case.scaling = fit_scaling(case.X, case.y, True, case.precision.limit)
        shape = case.geometry
        args = (case.scaling.stored_features, shape.rows, shape.batch, shape.rows_per_beat, shape.outputs)
        case.geometry = Geometry.of(case.precision, *args)
        assert case.words(c_kernels()) == case.words(None)


def trouble_no_compiler(monkeypatch, folder):
    monkeypatch.setenv("CC", "no-such-compiler")
    return "there is no C compiler no-such-compiler: install one, or set CC"


def trouble_broken_compiler(monkeypatch, folder):
    monkeypatch.setenv("CC", script_compiler(folder, "echo 'ld: error: no space' >&2; exit 4"))
    return "failed with status 4: ld: error: no space"


def trouble_folder(monkeypatch, folder):
    (folder / "cache").write_text("a file where the folder should be")
    return "cannot be written (Not a directory): set BITLANE_CACHE to a folder that can"


def trouble_other_library(monkeypatch, folder):
    other = folder / "other.c"
    other.write_text("int other(void) { return 1; }\n")
    monkeypatch.setenv("CC", script_compiler(folder, f'exec cc -shared -fPIC -o "$out" {other}'))
    return "the library lacks a function"


def trouble_wide_registers(monkeypatch, folder):
    monkeypatch.setenv("CC", "cc -ffast-math")
    return "this compiler does not round each operation to a double"


TROUBLES = (trouble_no_compiler, trouble_broken_compiler, trouble_folder, trouble_other_library, trouble_wide_registers)


@compiles
@pytest.mark.parametrize("trouble", TROUBLES, ids=[each.__name__.removeprefix("trouble_") for each in TROUBLES])
def test_without_kernels_numpy_encodes_and_one_line_says_why(seed, monkeypatch, tmp_path, caplog, trouble):
    reason = trouble(monkeypatch, tmp_path)
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 256, (SMALL // 256, 256)).astype(np.uint8), np.zeros((SMALL // 256, 1))
    precision = Precision(4)
    scaling = fit_scaling(X, y)
    geometry = Geometry.of(precision, scaling.stored_features, len(X), 64)
    expected = SampleEncoder(X[:-1], y[:-1], scaling, precision, seed)  # one row less is encoded in numpy
    assert expected.kernels is None and not caplog.records
    for _ in range(2):
        encoder = SampleEncoder(X, y, scaling, precision, seed)
        assert encoder.kernels is None
        found = encoder.draws(geometry, 0, [1])[0]
    part = Geometry.of(precision, scaling.stored_features, len(X) - 1, 64)
    assert found[: part.draw_words].tolist() == expected.draws(part, 0, [1])[0].tolist()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "\n" not in record.getMessage()
    assert record.getMessage().startswith(
        "note: samples are encoded by numpy, several times slower than compiled code: "
    )
    assert reason in record.getMessage()


@pytest.mark.slow
@pytest.mark.parametrize("flags", ARM_FLAGS.values(), ids=ARM_FLAGS)
def test_32_bit_arm_gives_the_bits_of_numpy(seed, tmp_path, flags):
    """The same C file under an emulator: 300 random tables, and 30 with large numbers."""
    compiler, emulator = arm_compiler(), arm_emulator()
    if compiler is None:
        pytest.skip("no C compiler for Arm: install gcc-arm-linux-gnueabihf, or set ARM_CC to its command")
    if emulator is None:
        pytest.skip("no emulator of Arm: install qemu-user, or set QEMU_ARM to its path")
    build_driver(compiler, flags, tmp_path / "driver")
    on_arm = emulated_kernels([emulator, str(tmp_path / "driver")], pointer_bytes=4)
    rng = np.random.default_rng(seed)
    for _ in range(300):
        case = Case(rng)
        assert case.words(on_arm) == case.words(None), (case.precision, case.geometry, case.X.dtype)
    for _ in range(30):
        case = Far(rng)
        assert case.words(on_arm) == case.words(None), (case.precision, case.geometry, case.X.dtype)

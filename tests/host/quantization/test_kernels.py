"""The loops of a chunk in C equal the textbook before a draw hides their last bits."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tests.helpers import encode_textbook as textbook
from tests.helpers.compilers import has_compiler
from tests.helpers.places import ROOT

from bitlane.contract.draws import draw_words, feature_offsets
from bitlane.contract.precision import Precision
from bitlane.quantization.c_kernels import CONSTANTS, SOURCE
from bitlane.quantization.positions import position_map
from bitlane.quantization.scaling import fit_scaling
from bitlane.support.c_library import load_library

if not has_compiler():
    pytest.skip("this machine has no C compiler", allow_module_level=True)

CHUNK = 32
POINTER, NUMBER = ctypes.c_void_p, ctypes.c_double
TYPES = {
    "positions": [POINTER, POINTER, NUMBER, POINTER],
    "codes": [NUMBER, *[POINTER] * 4],
    "words": [ctypes.c_uint32, *[POINTER] * 3],
}


def call(name: str, count: int, *arguments: float | np.ndarray) -> None:
    """Call a loop of the library for arrays of `count` elements."""
    library = load_library([SOURCE, ROOT / "tests" / "helpers" / "kernels_parts.c"], CONSTANTS)
    function = library[f"test_{name}"]
    function.argtypes, function.restype = [ctypes.c_ssize_t, *TYPES[name]], None  # type: ignore[attr-defined]
    function(count, *(each.ctypes.data if isinstance(each, np.ndarray) else each for each in arguments))


def in_chunks(values: np.ndarray) -> np.ndarray:
    """Values and zeros that fill the last chunk."""
    return np.pad(values, (0, -len(values) % CHUNK))


def places(rng, base_bits, count=400):
    """Return positions, many of them at an end of an interval or of a threshold: float64 [count]."""
    top = 1 << base_bits + 20
    near = (rng.integers(0, top + 1, count) >> 20 << 20) + rng.integers(-17, 18, count)
    found = np.where(rng.random(count) < 0.5, near, rng.integers(0, top + 1, count))
    return np.append(found, [0, top, top - 8, top - 9]).clip(0, top).astype(np.float64)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_positions(seed, dtype):
    rng = np.random.default_rng(seed)
    X = (rng.normal(0, 20, (50, 30)) + 100).clip(0, 255).astype(dtype)
    X[:, rng.random(30) < 0.3] = 7
    X[:2, 0] = [1, 2]
    for bits in (2, 4, 18, 30):
        scaling = fit_scaling(X, np.zeros((50, 1)), margins=True, intercept_value=1.0)
        mapped = position_map(scaling, Precision(bits))
        multipliers, offsets = in_chunks(mapped.multipliers), in_chunks(mapped.offsets)
        for row in X:
            found = in_chunks(row[mapped.columns].astype(np.float64))
            call("positions", len(found), multipliers, offsets, 2.0 ** (bits - 2 + 20), found)
            expected = [
                textbook.position(float(row[column]), scaling.center[column], scaling.scale[column], bits - 2)
                for column in scaling.active
            ]
            assert found[: len(mapped.columns)].tolist() == [*expected, 2.0 ** (bits - 2 + 20)]
            assert np.array_equal(mapped.positions(row[None])[0], found[: len(mapped.columns)])


@pytest.mark.parametrize("base_bits", [0, 2, 16, 30])
def test_codes_and_thresholds(seed, base_bits):
    rng = np.random.default_rng(seed)
    positions, last = in_chunks(places(rng, base_bits)), 2.0**base_bits - 1
    codes = np.empty(len(positions), np.uint32)
    low, full = np.empty(len(positions), np.uint16), np.empty(len(positions), np.uint16)
    call("codes", len(positions), last, positions, codes, low, full)
    thresholds = low + (full.astype(np.int64) << 16)
    for place, code, threshold in zip(positions.astype(np.int64).tolist(), codes.tolist(), thresholds, strict=True):
        assert code == textbook.base_and_draws(place, base_bits, None, False)[0]
        for word in (threshold - 1, threshold):
            if 0 <= word < 1 << 16:
                both = textbook.base_and_draws(place, base_bits, int(word << 16 | word), False)[1]
                assert both == (3 if word < threshold else 0)


def test_words(seed):
    of_rows = np.random.default_rng(seed).integers(1 << 32, size=20, dtype=np.uint32)
    offsets = feature_offsets(96)
    high, low = np.empty(96, np.uint16), np.empty(96, np.uint16)
    for word, expected in zip(of_rows, draw_words(of_rows, 96), strict=True):
        call("words", 96, int(word), offsets, high, low)
        assert np.array_equal(high.astype(np.uint32) << 16 | low, expected)

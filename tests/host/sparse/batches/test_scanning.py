"""Numbers in text: as Python reads them."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bitlane.sparse.batches.cell_texts import MISSING
from bitlane.sparse.batches.scanning import NO_NUMBER, OK, TOO_LARGE, numbers_of_cells, scan_integer

DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def numbers(cells: list[str]) -> list[float] | int:
    """The cells' numbers, or the index of the first that is none."""
    encoded = [cell.encode() for cell in cells]
    offsets = np.concatenate([[0], np.cumsum([len(cell) for cell in encoded])]).astype(np.int64)
    found = np.empty(len(cells))
    missing = np.frombuffer("".join(f"{text}\n" for text in MISSING if text).encode(), np.uint8)
    wrong = numbers_of_cells(np.frombuffer(b"".join(encoded), np.uint8), offsets, missing, found)
    return found.tolist() if wrong < 0 else int(wrong)


@given(st.lists(st.tuples(st.integers(0, 10**15 - 1), st.integers(0, 22), st.booleans()), max_size=20))
def test_short_decimals_are_those_of_python(drawn: list[tuple[int, int, bool]]) -> None:
    cells = []
    for digits, places, negative in drawn:
        text = str(digits).rjust(places + 1, "0")
        text = f"{text[: len(text) - places]}.{text[len(text) - places :]}"
        cells.append("-" * negative + text)
    assert numbers(cells) == [float(cell) for cell in cells]


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(-22, 22), st.sampled_from(["e", "E"]))
def test_short_numbers_with_exponents_are_those_of_python(digits: int, exponent: int, letter: str) -> None:
    cells = [f"{digits}{letter}{exponent}", f"{digits}{letter}{exponent:+}", f" {digits}.{letter}{exponent}\t"]
    assert numbers(cells) == [float(cell) for cell in cells]


@given(st.floats(-1e300, 1e300))
def test_any_float_is_near(number: float) -> None:
    found = numbers([repr(number), f"{number:.25e}", f"{number:.400f}"])
    assert isinstance(found, list)
    for each in found:
        assert abs(Fraction(each) - Fraction(number)) <= 4 * Fraction(math.ulp(number))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float32_comes_back(number: float) -> None:
    found = numbers([repr(number), f"{number:.9g}"])
    assert isinstance(found, list)
    assert [float(np.float32(each)) for each in found] == [number, number]


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("1e400", math.inf),
        ("-1e99999999999", -math.inf),
        ("1e-400", 0.0),
        ("0e999999", 0.0),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("0.00000000000000000000000000000012345678901234567890", 1.2345678901234567890e-31),
        ("00000000000000000000000000000000000001.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("+1", 1.0),
    ],
)
def test_numbers_at_the_edges(cell: str, number: float) -> None:
    found = numbers([cell])
    assert isinstance(found, list) and found[0] == pytest.approx(number, rel=1e-15)


@given(st.text("0123456789.+-eE naif", max_size=8))
def test_a_cell_is_a_number_if_python_says_so(cell: str) -> None:
    found = numbers(["1", cell, "2"])
    stripped = cell.strip()
    if stripped in MISSING:
        assert isinstance(found, list) and math.isnan(found[1])
    elif DECIMAL.fullmatch(stripped):
        assert isinstance(found, list) and found[1] == pytest.approx(float(stripped), rel=1e-15)
    else:
        assert found == 1


def test_missing_cells_are_nan() -> None:
    found = numbers([*sorted(MISSING), "  ", " NA\r", "7"])
    assert isinstance(found, list)
    assert [math.isnan(each) for each in found] == [True] * (len(MISSING) + 2) + [False]
    for cell in ("N", "NAN", "Na", "nul", "nulL", "NULLS", "/NA", "NANA", "NA\nN/A", "<NA", "inf", "1,5", "1_0", "é"):
        assert numbers(["1", cell]) == 1


def test_whole_numbers_have_64_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scan = numba.njit(lambda text: scan_integer(text, 0))  # not kept on disk: the callee may have changed
    drawn = [int(number) for number in rng.integers(0, 2**64 - 1, 100, dtype=np.uint64, endpoint=True)]
    for number in [0, 9, 10**19 - 1, 10**19, 2**64 - 1, *drawn]:
        for text in (str(number), "000000" + str(number)):
            found, at, code = scan(np.frombuffer(text.encode() + b":\n", np.uint8))
            assert (int(found), at, code) == (number, len(text), OK)
    for number in (2**64, 2**64 + 10, 10**20, 10**40, 18446744073709551620):
        assert scan(np.frombuffer(str(number).encode() + b"\n", np.uint8))[2] == TOO_LARGE


def test_a_whole_number_ends_before_any_other_byte(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scan = numba.njit(lambda text: scan_integer(text, 0))
    for byte in set(range(256)) - set(b"0123456789"):
        for digits in range(10):
            number = b"".join(rng.choice([b"0", b"1", b"8", b"9"], digits))
            behind = bytes([byte]) + rng.integers(0, 256, 9, np.uint8).tobytes()
            for text in (number + behind, number + behind[:1]):  # beside eight more bytes, and at the end of the text
                found, at, code = scan(np.frombuffer(text, np.uint8))
                assert (int(found), at, code) == (int(number or b"0"), digits, OK if digits else NO_NUMBER), text

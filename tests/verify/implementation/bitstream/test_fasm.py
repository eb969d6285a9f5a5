"""FASM: features of each kind of line, and errors with their line."""

from __future__ import annotations

import random

import pytest

from bitlane.errors import BitlaneError
from bitlane_verify.implementation.bitstream.fasm import parse


def names(text: str) -> list[str]:
    return [f"{feature.tile} {feature.name}" for feature in parse(text, "a.fasm")]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("", []),
        ("# routing for net a[17]", []),
        ("INT_L_X0Y1.NE2BEG0.EE2END0", ["INT_L_X0Y1 NE2BEG0.EE2END0"]),
        ('  A.B { .src = "a.v:1", x = "#" } # why', ["A B"]),
        ("A.B = 1", ["A B"]),
        ("A.B = 0", []),
        ("A.B[7]", ["A B[7]"]),
        ("A.B[07] = 1'b1", ["A B[7]"]),
        ("A.B[7] = 1'h0", []),
        ("A.B[5:2] = 4'b1001", ["A B[2]", "A B[5]"]),
        ("A.B[11:0]=12'h8_01", ["A B[0]", "A B[11]"]),
        ("A.B[5:0] = 6'o41", ["A B[0]", "A B[5]"]),
        ("A.B[3:0] = 10", ["A B[1]", "A B[3]"]),
        ("A.B[3:0] = 4'd10", ["A B[1]", "A B[3]"]),
        ("A.B[3:0] = 'b11", ["A B[0]", "A B[1]"]),
    ],
)
def test_features_of_a_line(line: str, wanted: list[str]) -> None:
    assert names(line) == wanted


def test_vectors_of_every_length(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        low, bits = rng.randrange(300), rng.randrange(1, 257)
        ones = [rng.randrange(2) for _ in range(bits)]
        text = "".join(map(str, reversed(ones)))
        wanted = [f"T V[{low + index}]" for index, one in enumerate(ones) if one]
        assert names(f"T.V[{low + bits - 1}:{low}] = {bits}'b{text}") == wanted


def test_each_feature_has_its_line() -> None:
    features = list(parse("A.B\n\n# nothing\nC.D[1:0] = 2'b11\n", "top.fasm"))
    assert [feature.location for feature in features] == ["top.fasm, line 1", "top.fasm, line 4", "top.fasm, line 4"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A.B = ", r"a\.fasm, line 2: 'A\.B = ' is not FASM"),
        ("A..B", "is not FASM"),
        ("A.B[3:0 = 4'b0", "is not FASM"),
        ("A.B C.D", "is not FASM"),
        ("x" * 200 + "!", r"line 2: 'x{77}\.\.\.' is not FASM"),
        ("A", "has no feature; expected TILE.FEATURE"),
        ("A.B[0:3] = 1", r"A\.B\[0:3\] has its limits in the wrong order"),
        ("A.B[3:0]", r"A\.B\[3:0\] has no value"),
        ("A.B[3:0] = 5'b10000", "more than its 4 bits"),
        ("A.B[3:0] = 2'b100", "more than its"),
        ("A.B = 2", "more than its 1 bits"),
        ("A.B[3:0] = 4'b0012", "'0012' is not a number of base 2"),
        ("A.B[3:0] = 4'b_", "'_' is not a number of base 2"),
    ],
)
def test_invalid_lines_are_errors(line: str, message: str) -> None:
    with pytest.raises(BitlaneError, match=message):
        names(f"A.B\n{line}\n")

"""Mutation operators: the changes of each construct, and of the RTL."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

import bitlane_hw
from bitlane_verify.mutation.operators import mutants
from bitlane_verify.mutation.trial import sources


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants("block", source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a + b", ["`a + b` became `a - b`"]),
        ("x = a & ~b", ["`a & ~b` became `a | ~b`", "`~b` became `b`"]),
        ("x = a << b", ["`a << b` became `a >> b`"]),
        ("x = a < b", ["`a < b` became `a <= b`"]),
        ("x = a == b", ["`a == b` became `a != b`"]),
        ("x = Mux(a, b, c)", ["`Mux(a, b, c)` became `Mux(a, c, b)`"]),
        ("x = a[3]", ["`3` became `4` in `a[3]`", "`3` became `2` in `a[3]`"]),
        ("x = a.any()", ["`a.any()` became `a.all()`"]),
        ("x = a.as_signed()", ["`a.as_signed()` became `a.as_unsigned()`"]),
        ("m.d.sync += [a.eq(b), c.eq(d)]", ["dropped `a.eq(b)`", "dropped `c.eq(d)`"]),
        ("m.d.comb += a.eq(b)", ["dropped `a.eq(b)`"]),
        ("m.next = 'A'", ["dropped `m.next = 'A'`"]),
        ("with m.If(a):\n    pass", ["`a` always true", "`a` inverted"]),
        ("x = Signal(24)", ["`24` a bit narrower"]),
        ("x = delay(m, a, n, 'a')", ["`n` became `n + 1`", "`n` became `n - 1`"]),
        ("class A:\n    a: unsigned(5)", ["`5` a bit narrower in a"]),
        ('def f():\n    """1 + 1"""\n    raise ValueError(1 + 1)', []),
    ],
)
def test_changes(source: str, expected: list[str]) -> None:
    assert changes(source) == expected


def test_changes_of_the_rtl(seed: int) -> None:
    """Each makes another program, and has a key of its own."""
    for name, source in sources(Path(bitlane_hw.__file__).parent).items():
        found = mutants(name, source)
        assert len({mutant.key for mutant in found}) == len(found)
        for mutant in random.Random(seed).sample(found, min(5, len(found))):
            assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source)), mutant

"""The model of the DSP48E1 against integers in Python: every selection of its adder, and its registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.helpers.cells import Cell, CellBench, Refused

CYCLES = 400
WIDTHS = {
    **{
        "A": 30,
        "B": 18,
        "C": 48,
        "D": 25,
        "ACIN": 30,
        "BCIN": 18,
        "PCIN": 48,
        "CARRYIN": 1,
        "OPMODE": 7,
        "ALUMODE": 4,
        "INMODE": 5,
    },
    **{f"CE{name}": 1 for name in ("A1", "A2", "AD", "B1", "B2", "C", "D", "M", "P")},
    **{f"RST{name}": 1 for name in "ABCDMP"},
    "CARRYINSEL": 3,
}
OUTPUTS = {"P": 48, "PCOUT": 48, "ACOUT": 30, "BCOUT": 18}
XY = {0b0000: "0", 0b0101: "M", 0b1100: "C", 0b0010: "P", 0b1110: "P + C"}
Z = {0b000: "0", 0b001: "PCIN", 0b010: "P", 0b011: "C", 0b101: "PCIN >> 17", 0b110: "P >> 17"}
NO_CONTROL_REGISTERS = dict.fromkeys(
    ("ALUMODEREG", "CARRYINREG", "CARRYINSELREG", "INMODEREG", "OPMODEREG"), 0
)  # as Yosys always has it


@dataclass(frozen=True)
class Variant:
    """Registers in each path, whether the multiplier takes D, and whether A and B come from the cascades.

    What goes to the cascades has passed `cascaded` registers, or all there are.
    """

    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    ad: int = 0
    m: int = 0
    p: int = 0
    adds: bool = False
    cascade: bool = False
    cascaded: int = 2

    def add(self, bench: CellBench) -> Cell:
        registers = {"AREG": self.a, "BREG": self.b, "CREG": self.c, "DREG": self.d, "ADREG": self.ad}
        numbers = {**registers, "MREG": self.m, "PREG": self.p, **NO_CONTROL_REGISTERS}
        numbers |= {"ACASCREG": min(self.a, self.cascaded), "BCASCREG": min(self.b, self.cascaded)}
        parameters = {name: str(value) for name, value in numbers.items()}
        parameters["USE_DPORT"] = '"TRUE"' if self.adds else '"FALSE"'
        if self.cascade:
            parameters |= {"A_INPUT": '"CASCADE"', "B_INPUT": '"CASCADE"'}
        return bench.add("DSP48E1", parameters, WIDTHS, OUTPUTS, "CLK")


VARIANTS = (
    Variant(),
    Variant(a=1, b=1, m=1, p=1),
    Variant(a=2, b=2, c=1, m=1, p=1),
    Variant(a=1, b=2, c=1, d=1, ad=1, m=1, p=1, adds=True),
    Variant(d=1, adds=True),
    Variant(a=1, b=1, ad=1, p=1, adds=True, cascade=True),
    Variant(a=2, b=2, p=1, cascade=True, cascaded=1),
)


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


class Register:
    """So many registers in a row, with a common reset; without any, a wire."""

    def __init__(self, depth: int):
        self.values = [0] * depth

    def out(self, now: int) -> int:
        return self.values[-1] if self.values else now

    def step(self, now: int, enables: list[int], reset: int) -> None:
        before = [now, *self.values]
        enables = enables[len(enables) - len(self.values) :]
        self.values = [
            0 if reset else before[i] if enable else before[i + 1]
            for i, enable in enumerate(enables[: len(self.values)])
        ]


def expected(variant: Variant, inputs: list[dict[str, int]]) -> list[tuple[int, int, int]]:
    """P, ACOUT and BCOUT in each cycle."""
    depths = {"A": variant.a, "B": variant.b, "C": variant.c, "D": variant.d, "AD": variant.ad}
    registers = {name: Register(depth) for name, depth in {**depths, "M": variant.m, "P": variant.p}.items()}
    found = []
    for given in inputs:
        now = {name: signed(given[name], WIDTHS[name]) for name in ("A", "B", "C", "D", "ACIN", "BCIN", "PCIN")}
        if variant.cascade:
            now |= {"A": now["ACIN"], "B": now["BCIN"]}
        out = {name: registers[name].out(now[name]) for name in "ABCD"}
        a = signed(out["A"], 25)
        d = out["D"] if given["INMODE"] & 4 else 0
        now["AD"] = signed(d - a if given["INMODE"] & 8 else d + a, 25)
        now["M"] = (registers["AD"].out(now["AD"]) if variant.adds else a) * out["B"]
        m = registers["M"].out(now["M"])
        p = registers["P"].out(0)
        x = {"0": 0, "M": m, "C": out["C"], "P": p, "P + C": p + out["C"]}[XY[given["OPMODE"] & 15]]
        choices = {
            "0": 0,
            "PCIN": now["PCIN"],
            "P": p,
            "C": out["C"],
            "PCIN >> 17": now["PCIN"] >> 17,
            "P >> 17": p >> 17,
        }
        z = choices[Z[given["OPMODE"] >> 4]]
        now["P"] = signed(z - (x + given["CARRYIN"]) if given["ALUMODE"] else z + x + given["CARRYIN"], 48)
        out_a, out_b = ([now[name], *registers[name].values][: variant.cascaded + 1][-1] for name in "AB")
        found.append((registers["P"].out(now["P"]) % (1 << 48), out_a % (1 << 30), out_b % (1 << 18)))
        enables = {"A": ["CEA1", "CEA2"], "B": ["CEB1", "CEB2"]}
        for name, register in registers.items():
            reset = given["RSTD" if name == "AD" else f"RST{name}"]
            register.step(now[name], [given[port] for port in enables.get(name, [f"CE{name}"])], reset)
    return found


@pytest.fixture(scope="module")
def bench():
    bench = CellBench()
    return bench, {variant: variant.add(bench) for variant in VARIANTS}


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_any_sequence(bench, seed, variant):
    """Operands, their extremes, enables, resets and selections at random; P feeds back only where it has a register."""
    rng = np.random.default_rng(seed)
    whole, cells = bench
    vectors = np.zeros_like(whole.vectors(rng, CYCLES))
    for cell in cells.values():
        cell.drive(vectors, "OPMODE", 0b0000101)
    cell = cells[variant]
    for port in set(WIDTHS) - {"OPMODE", "ALUMODE", "INMODE", "CARRYINSEL"}:
        limit = 1 << WIDTHS[port]
        values = rng.integers(0, limit, CYCLES)
        if port.startswith("RST"):
            values = rng.random(CYCLES) < 0.1
        elif not port.startswith("CE"):
            values = np.where(
                rng.random(CYCLES) < 0.2, rng.choice([0, limit // 2, limit // 2 - 1, limit - 1], CYCLES), values
            )
        cell.drive(vectors, port, values)
    feedback = {"P", "P + C", "P >> 17"}
    xy = [mode for mode, name in XY.items() if variant.p or name not in feedback]
    z = [mode for mode, name in Z.items() if variant.p or name not in feedback]
    cell.drive(vectors, "OPMODE", rng.choice(z, CYCLES) << 4 | rng.choice(xy, CYCLES))
    cell.drive(vectors, "ALUMODE", rng.choice([0, 3], CYCLES))
    cell.drive(vectors, "INMODE", rng.choice([0, 4, 8, 12], CYCLES))
    inputs = [
        dict(zip(WIDTHS, values, strict=True))
        for values in zip(*(cell.given(vectors, port) for port in WIDTHS), strict=True)
    ]
    out = whole.run(vectors)
    got = zip(*(cell.result(out, port) for port in ("P", "ACOUT", "BCOUT")), strict=True)
    assert list(got) == expected(variant, inputs)
    assert cell.result(out, "PCOUT") == cell.result(out, "P")


@pytest.mark.parametrize(
    ("port", "value"), [("OPMODE", 0b0000001), ("OPMODE", 0b1000101), ("ALUMODE", 1), ("INMODE", 16), ("CARRYINSEL", 2)]
)
def test_modes_that_are_not_modelled_end_the_simulation(bench, port, value):
    whole, cells = bench
    vectors = np.zeros_like(whole.vectors(np.random.default_rng(0), 2))
    next(iter(cells.values())).drive(vectors, port, value)
    with pytest.raises(Refused, match=r"DSP48E1: OPMODE .* are not modelled"):
        whole.run(vectors)

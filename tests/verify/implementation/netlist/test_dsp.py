"""The model of the DSP48E1 against integers in Python: every selection of its adder, and its registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.helpers.cells import Cell, CellBench, Refused

CYCLES = 400
WIDTHS = {
    **{"A": 30, "B": 18, "C": 48, "D": 25, "ACIN": 30, "BCIN": 18, "PCIN": 48, "CARRYIN": 1},
    **{"OPMODE": 7, "ALUMODE": 4, "INMODE": 5, "CARRYINSEL": 3},
    **{f"CE{name}": 1 for name in ("A1", "A2", "AD", "B1", "B2", "C", "D", "M", "P")},
    **{f"CE{name}": 1 for name in ("ALUMODE", "CARRYIN", "CTRL", "INMODE")},
    **{f"RST{name}": 1 for name in ("A", "B", "C", "D", "M", "P", "ALLCARRYIN", "ALUMODE", "CTRL", "INMODE")},
}
OUTPUTS = {"P": 48, "PCOUT": 48, "ACOUT": 30, "BCOUT": 18, "PATTERNDETECT": 1, "PATTERNBDETECT": 1}
X = {0b00: "0", 0b10: "P", 0b11: "A:B"}
Y = {0b00: "0", 0b10: "-1", 0b11: "C"}
XY = {0b0101: ("M", "0"), **{y << 2 | x: (X[x], Y[y]) for x in X for y in Y}}
Z = {0b000: "0", 0b001: "PCIN", 0b010: "P", 0b011: "C", 0b101: "PCIN >> 17", 0b110: "P >> 17"}
CONTROLS = ("ALUMODE", "CARRYIN", "INMODE", "OPMODE")
MASK = 0x0000_FFFF_FFF0  # 20 bits of P are compared
PATTERN = 0x7FFF_8000_0005


@dataclass(frozen=True)
class Variant:
    """Registers in each path, whether the multiplier takes D, and whether A and B come from the cascades.

    `control` is the number of registers of the control inputs and the carry, `mult` USE_MULT. What goes to the cascades
    has passed `cascaded` registers, or all there are.
    """

    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    ad: int = 0
    m: int = 0
    p: int = 0
    control: int = 0
    mult: str = "MULTIPLY"
    adds: bool = False
    cascade: bool = False
    cascaded: int = 2
    detects: bool = False

    def add(self, bench: CellBench) -> Cell:
        registers = {"AREG": self.a, "BREG": self.b, "CREG": self.c, "DREG": self.d, "ADREG": self.ad}
        registers |= {f"{name}REG": self.control for name in (*CONTROLS, "CARRYINSEL")}
        numbers = {**registers, "MREG": self.m, "PREG": self.p}
        numbers |= {"ACASCREG": min(self.a, self.cascaded), "BCASCREG": min(self.b, self.cascaded)}
        parameters = {name: str(value) for name, value in numbers.items()}
        parameters["USE_DPORT"] = '"TRUE"' if self.adds else '"FALSE"'
        parameters["USE_MULT"] = f'"{self.mult}"'
        if self.cascade:
            parameters |= {"A_INPUT": '"CASCADE"', "B_INPUT": '"CASCADE"'}
        if self.detects:
            compared = {"PATTERN": f"48'h{PATTERN:x}", "MASK": f"48'h{MASK:x}"}
            parameters |= {"USE_PATTERN_DETECT": '"PATDET"', **compared}
        return bench.add("DSP48E1", parameters, WIDTHS, OUTPUTS, "CLK")

    @property
    def idle(self) -> int:
        """An OPMODE that the variant has."""
        return 0b0000000 if self.mult == "NONE" else 0b0000101

    @property
    def opmodes(self) -> list[int]:
        """Every OPMODE that the variant has."""
        absent = {"P", "P >> 17"} if not self.p else set()
        absent |= {"MULTIPLY": {"A:B"}, "NONE": {"M"}, "DYNAMIC": set()}[self.mult]
        return [z << 4 | xy for z in Z for xy in XY if not absent.intersection((Z[z], *XY[xy]))]


VARIANTS = (
    Variant(),
    Variant(a=1, b=1, m=1, p=1),
    Variant(a=2, b=2, c=1, m=1, p=1),
    Variant(a=1, b=2, c=1, d=1, ad=1, m=1, p=1, adds=True),
    Variant(d=1, adds=True),
    Variant(a=1, b=1, ad=1, p=1, adds=True, cascade=True),
    Variant(a=2, b=2, p=1, cascade=True, cascaded=1),
    Variant(mult="NONE"),
    Variant(p=1, mult="NONE", detects=True),
    Variant(a=1, b=1, c=1, p=1, control=1, mult="NONE", detects=True),
    Variant(a=2, b=1, c=1, p=1, control=1, mult="NONE"),
    Variant(c=1, control=1, mult="NONE", detects=True),
    Variant(a=1, b=1, c=1, d=1, ad=1, m=1, p=1, control=1, adds=True),
    Variant(a=1, b=1, m=1, p=1, control=1, mult="DYNAMIC"),
)
ACCUMULATOR = VARIANTS[9]


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


def expected(variant: Variant, inputs: list[dict[str, int]]) -> list[tuple[int, ...]]:
    """P, ACOUT, BCOUT, PATTERNDETECT and PATTERNBDETECT in each cycle."""
    depths = {"A": variant.a, "B": variant.b, "C": variant.c, "D": variant.d, "AD": variant.ad}
    depths |= {"M": variant.m, "P": variant.p, **dict.fromkeys(CONTROLS, variant.control)}
    registers = {name: Register(depth) for name, depth in depths.items()}
    detected, inverse = Register(variant.p), Register(variant.p)
    found = []
    for given in inputs:
        now = {name: signed(given[name], WIDTHS[name]) for name in ("A", "B", "C", "D", "ACIN", "BCIN", "PCIN")}
        now |= {name: given[name] for name in CONTROLS}
        if variant.cascade:
            now |= {"A": now["ACIN"], "B": now["BCIN"]}
        out = {name: registers[name].out(now[name]) for name in ("A", "B", "C", "D", *CONTROLS)}
        a = signed(out["A"], 25)
        d = out["D"] if out["INMODE"] & 4 else 0
        now["AD"] = signed(d - a if out["INMODE"] & 8 else d + a, 25)
        now["M"] = (registers["AD"].out(now["AD"]) if variant.adds else a) * out["B"]
        p, pcin = registers["P"].out(0), now["PCIN"]
        operands = {
            **{"0": 0, "-1": -1, "M": registers["M"].out(now["M"]), "A:B": out["A"] * 2**18 + out["B"] % 2**18},
            **{"C": out["C"], "P": p, "P >> 17": p >> 17, "PCIN": pcin, "PCIN >> 17": pcin >> 17},
        }
        x, y = (operands[name] for name in XY[out["OPMODE"] & 15])
        z = operands[Z[out["OPMODE"] >> 4]]
        operand = x + y + out["CARRYIN"]
        now["P"] = signed(z - operand if out["ALUMODE"] else z + operand, 48)
        compared = ((1 << 48) - 1) ^ MASK
        same = int((now["P"] ^ PATTERN) & compared == 0), int((now["P"] ^ ~PATTERN) & compared == 0)
        out_a, out_b = ([now[name], *registers[name].values][: variant.cascaded + 1][-1] for name in "AB")
        patterns = (detected.out(same[0]), inverse.out(same[1])) if variant.detects else (0, 0)
        found.append((registers["P"].out(now["P"]) % (1 << 48), out_a % (1 << 30), out_b % (1 << 18), *patterns))
        enables = {"A": ["CEA1", "CEA2"], "B": ["CEB1", "CEB2"], "OPMODE": ["CECTRL"]}
        resets = {"AD": "RSTD", "OPMODE": "RSTCTRL", "CARRYIN": "RSTALLCARRYIN"}
        for name, register in registers.items():
            reset = given[resets.get(name, f"RST{name}")]
            register.step(now[name], [given[port] for port in enables.get(name, [f"CE{name}"])], reset)
        for register, value in zip((detected, inverse), same, strict=True):
            register.step(value, [given["CEP"]], given["RSTP"])
    return found


@pytest.fixture(scope="module")
def bench():
    bench = CellBench()
    return bench, {variant: variant.add(bench) for variant in VARIANTS}


def idle_vectors(bench, rng, cycles):
    """Inputs of 0, and an OPMODE that each variant has."""
    whole, cells = bench
    vectors = np.zeros_like(whole.vectors(rng, cycles))
    for variant, cell in cells.items():
        cell.drive(vectors, "OPMODE", variant.idle)
    return vectors


def inputs_of(cell, vectors):
    columns = (cell.given(vectors, port) for port in WIDTHS)
    return [dict(zip(WIDTHS, values, strict=True)) for values in zip(*columns, strict=True)]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_any_sequence(bench, seed, variant):
    """Operands, their extremes, enables, resets and selections at random; P feeds back only where it has a register."""
    rng = np.random.default_rng(seed)
    whole, cells = bench
    vectors = idle_vectors(bench, rng, CYCLES)
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
    cell.drive(vectors, "OPMODE", rng.choice(variant.opmodes, CYCLES))
    cell.drive(vectors, "ALUMODE", rng.choice([0, 3], CYCLES))
    cell.drive(vectors, "INMODE", rng.choice([0, 4, 8, 12], CYCLES))
    if variant.detects:  # a sum of C alone that has the pattern, or nearly
        some = rng.random(CYCLES) < 0.5
        near = np.uint64(PATTERN) ^ rng.integers(0, MASK, CYCLES, np.uint64) & np.uint64(MASK)
        near ^= np.uint64(1) << rng.integers(0, 96, CYCLES).astype(np.uint64) & np.uint64((1 << 48) - 1)
        near = np.where(rng.random(CYCLES) < 0.5, near, ~near & np.uint64((1 << 48) - 1))
        cell.drive(vectors, "C", np.where(some, near, np.array(cell.given(vectors, "C"), np.uint64)))
        for port, value in {"OPMODE": 0b0110000, "ALUMODE": 0, "CARRYIN": 0, "RSTCTRL": 0, "RSTC": 0}.items():
            cell.drive(vectors, port, np.where(some, value, cell.given(vectors, port)))
    want = expected(variant, inputs_of(cell, vectors))
    out = whole.run(vectors)
    assert list(zip(*(cell.result(out, port) for port in OUTPUTS if port != "PCOUT"), strict=True)) == want
    assert cell.result(out, "PCOUT") == cell.result(out, "P")
    if variant.detects:
        assert all(len({row[column] for row in want}) == 2 for column in (3, 4)), "each output must have both values"


def test_accumulator(bench, seed):
    """Sums of A:B from 0 or from C on, with a carry, as plain integers: Z is 0, C or P, and changes in each cycle."""
    rng = np.random.default_rng(seed)
    whole, cells = bench
    cell = cells[ACCUMULATOR]
    vectors = idle_vectors(bench, rng, CYCLES)
    terms, starts = rng.integers(-(2**31), 2**31, (2, CYCLES))
    begins = rng.random(CYCLES) < 0.2
    origins = rng.integers(0, 2, CYCLES)  # 1: from C on
    carries, subtracts = rng.integers(0, 2, (2, CYCLES))
    for port in (name for name in WIDTHS if name.startswith("CE")):
        cell.drive(vectors, port, 1)
    cell.drive(vectors, "A", terms >> 18 & 0x3FFF_FFFF)
    cell.drive(vectors, "B", terms & 0x3_FFFF)
    cell.drive(vectors, "C", starts & (1 << 48) - 1)
    cell.drive(vectors, "CARRYIN", carries)
    cell.drive(vectors, "ALUMODE", 3 * subtracts)
    cell.drive(vectors, "OPMODE", np.where(begins, 0b0110011 * origins + 0b0000011 * (1 - origins), 0b0100011))
    sums, total = [0, 0], 0
    for i in range(CYCLES - 2):
        before = (int(starts[i]) if origins[i] else 0) if begins[i] else total
        operand = int(terms[i]) + int(carries[i])
        total = before - operand if subtracts[i] else before + operand
        sums.append(total % (1 << 48))
    assert cell.result(whole.run(vectors), "P") == sums


REFUSED = [
    *(("MULTIPLY", "OPMODE", opmode) for opmode in (0b0000001, 0b0000100, 0b0000011, 0b1000101, 0b1110101)),
    *(("MULTIPLY", "OPMODE", opmode) for opmode in (0b0000010, 0b0100101, 0b1100101)),  # P, without a register
    *(("MULTIPLY", port, value) for port, value in (("ALUMODE", 1), ("ALUMODE", 12), ("INMODE", 16), ("INMODE", 1))),
    *(("MULTIPLY", port, value) for port, value in (("INMODE", 2), ("CARRYINSEL", 2), ("OPMODE", 0b0001101))),
    ("NONE", "OPMODE", 0b0000101),
]


@pytest.mark.parametrize(("mult", "port", "value"), REFUSED)
def test_modes_that_are_not_modelled_end_the_simulation(bench, mult, port, value):
    whole, cells = bench
    vectors = idle_vectors(bench, np.random.default_rng(0), 2)
    cells[Variant(mult=mult)].drive(vectors, port, value)
    with pytest.raises(Refused, match=r"DSP48E1: OPMODE .* are not modelled"):
        whole.run(vectors)

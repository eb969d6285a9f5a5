"""The models of block RAMs against a memory of single bits in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from tests.helpers.cells import Bits, Cell, CellBench

CYCLES = 500
ADDRESSES = 6  # that the two ports choose from, so that they meet
INIT, SRVAL = 0x2F37B519E, 0x1C64E0A35  # of an output: parity above data


@dataclass(frozen=True)
class Port:
    """One side: widths as the user guide names them (0, 1, 2, 4, 9, 18, 36, 72: with parity) and the write mode."""

    read: int = 0
    write: int = 0
    mode: str = "READ_FIRST"


@dataclass(frozen=True)
class Variant:
    """A block RAM: kilobits, its ports, and whether they are a simple dual port."""

    size: int
    a: Port
    b: Port
    simple: bool = False

    @property
    def lanes(self) -> int:
        """Bytes of the data inputs of one port."""
        return self.size // 9

    @property
    def data_bits(self) -> int:
        return self.size // 9 * 8192


VARIANTS = (
    Variant(36, Port(read=72), Port(write=72), simple=True),
    Variant(18, Port(read=36), Port(write=36), simple=True),
    Variant(36, Port(write=9), Port(read=9)),
    Variant(36, Port(read=36), Port(read=9)),  # read only: what INIT says
    Variant(36, Port(36, 36, "WRITE_FIRST"), Port(read=36)),
    Variant(36, Port(18, 36, "NO_CHANGE"), Port(9, 18, "WRITE_FIRST")),
    Variant(36, Port(1, 4), Port(4, 2)),
    Variant(18, Port(18, 9), Port(1, 18, "NO_CHANGE")),
)


def initial(variant: Variant) -> tuple[Bits, Bits]:
    """Data bits and parity bits, always the same ones."""
    rng = np.random.default_rng(variant.size)
    return rng.integers(0, 2, variant.data_bits, np.uint8), rng.integers(0, 2, variant.data_bits // 8, np.uint8)


def contents(bits: Bits, prefix: str) -> dict[str, str]:
    """The parameters that hold these bits, 256 each."""
    rows = np.packbits(bits.reshape(-1, 256), axis=1, bitorder="little")
    return {f"{prefix}_{i:02X}": f"256'h{int.from_bytes(row.tobytes(), 'little'):x}" for i, row in enumerate(rows)}


def add(bench: CellBench, variant: Variant) -> Cell:
    """The variant's instance, with initial contents."""
    data, parity = initial(variant)
    lanes, bits = variant.lanes, 9 * variant.lanes
    parameters = {"RAM_MODE": '"SDP"' if variant.simple else '"TDP"'}
    for name, port in (("A", variant.a), ("B", variant.b)):
        parameters |= {f"READ_WIDTH_{name}": str(port.read), f"WRITE_WIDTH_{name}": str(port.write)}
        parameters |= {f"WRITE_MODE_{name}": f'"{port.mode}"'}
        parameters |= {
            f"INIT_{name}": f"{bits}'h{INIT % (1 << bits):x}",
            f"SRVAL_{name}": f"{bits}'h{SRVAL % (1 << bits):x}",
        }
    parameters |= contents(data, "INIT") | contents(parity, "INITP")
    address = 16 if variant.size == 36 else 14
    inputs = {"ADDRARDADDR": address, "ADDRBWRADDR": address, "WEA": lanes, "WEBWE": 2 * lanes}
    inputs |= {"DIADI": 8 * lanes, "DIBDI": 8 * lanes, "DIPADIP": lanes, "DIPBDIP": lanes}
    inputs |= dict.fromkeys(("ENARDEN", "ENBWREN", "RSTRAMARSTRAM", "RSTRAMB"), 1)
    outputs = {"DOADO": 8 * lanes, "DOBDO": 8 * lanes, "DOPADOP": lanes, "DOPBDOP": lanes}
    return bench.add(f"RAMB{variant.size}E1", parameters, inputs, outputs, "CLKARDCLK", "CLKBWRCLK")


class Side:
    """One port of the oracle. Data bits have the first positions of the memory, parity bits those behind them."""

    def __init__(self, variant: Variant, port: Port):
        self.port = port
        self._first_parity = variant.data_bits
        self.init, self.srval = (self._output(variant, value) for value in (INIT, SRVAL))
        self.out = self.init

    def _output(self, variant: Variant, value: int) -> int:
        """What INIT or SRVAL makes of the output: in a simple dual port each half has its own."""
        bits, data = 9 * variant.lanes, 8 * variant.lanes
        value %= 1 << bits
        if variant.simple:
            half, parity = value % (1 << data), value >> data
            value = half | half << data | parity << 2 * data | parity << 2 * data + variant.lanes
        return value % (1 << self.port.read)

    def positions(self, width: int, address: int) -> list[int]:
        """Of a word's bits: its data, then its parity."""
        data = width if width < 9 else width // 9 * 8
        first = address % self._first_parity // data * data if data else 0
        return [*range(first, first + data), *(self._first_parity + first // 8 + i for i in range(width - data))]

    def written(self, address: int, lanes: int, data: int, parity: int) -> dict[int, int]:
        """New values of the bits that a write changes, by position."""
        found = {}
        for i, at in enumerate(self.positions(self.port.write, address)):
            is_data = at < self._first_parity
            lane = i // 8 if is_data else i - self.port.write // 9 * 8
            value = data >> i if is_data else parity >> lane
            if lanes >> lane & 1:
                found[at] = value & 1
        return found

    def load(self, memory: list[int], address: int, mine: dict[int, int], other: dict[int, int]) -> None:
        """A read, while this port writes `mine`; what the other one writes and is not to be relied on is `other`."""
        if self.port.mode == "NO_CHANGE" and mine:
            return
        shown = mine if self.port.mode == "WRITE_FIRST" else {}
        bits = [shown.get(at, memory[at]) ^ (at in other) for at in self.positions(self.port.read, address)]
        self.out = sum(bit << i for i, bit in enumerate(bits))


def expected(variant: Variant, inputs: list[dict[str, int]]) -> Iterator[list[int]]:
    """Each cycle's outputs of both ports, parity above data."""
    memory = [int(bit) for bits in initial(variant) for bit in bits]
    sides = [Side(variant, variant.a), Side(variant, variant.b)]
    for given in inputs:
        yield [side.out for side in sides]
        words = [(given["DIADI"], given["DIPADIP"]), (given["DIBDI"], given["DIPBDIP"])]
        if variant.simple:
            words[1] = tuple(
                low | high << bits for low, high, bits in zip(*words, (8 * variant.lanes, variant.lanes), strict=True)
            )
        addresses = given["ADDRARDADDR"], given["ADDRBWRADDR"]
        enables = given["ENARDEN"], given["ENBWREN"]
        lanes = given["WEA"], given["WEBWE"]
        new = [sides[i].written(addresses[i], lanes[i] * enables[i], *words[i]) for i in (0, 1)]
        for i, reset in enumerate(("RSTRAMARSTRAM", "RSTRAMB")):
            other = new[1 - i] if sides[1 - i].port.mode != "READ_FIRST" else {}
            if enables[i] and given[reset]:
                sides[i].out = sides[i].srval
            elif enables[i]:
                sides[i].load(memory, addresses[i], new[i], other)
        for at, bit in {**new[0], **new[1]}.items():
            memory[at] = bit


@pytest.fixture(scope="module")
def bench():
    bench = CellBench()
    return bench, {variant: add(bench, variant) for variant in VARIANTS}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"{variant.size}-{variant.a}-{variant.b}")
def test_any_sequence(bench, seed, variant):
    """Reads and writes that often meet, with byte enables and resets; initial contents and outputs included."""
    rng = np.random.default_rng(seed)
    whole, cells = bench
    cell = cells[variant]
    vectors = whole.vectors(rng, CYCLES)
    near = rng.integers(0, 1 << 14, ADDRESSES)
    for port in ("ADDRARDADDR", "ADDRBWRADDR"):
        cell.drive(vectors, port, rng.choice(near, CYCLES) ^ rng.integers(0, 64, CYCLES))
    for port in ("RSTRAMARSTRAM", "RSTRAMB"):
        cell.drive(vectors, port, rng.random(CYCLES) < 0.1)
    columns = {name: cell.given(vectors, name) for name in cell.inputs}
    inputs = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    out = whole.run(vectors)
    data_a, data_b, parity_a, parity_b = (cell.result(out, name) for name in cell.outputs)
    lanes = variant.lanes
    for cycle, (a, b) in enumerate(expected(variant, inputs)):
        if variant.simple:
            data = data_a[cycle] | data_b[cycle] << 8 * lanes
            assert data | (parity_a[cycle] | parity_b[cycle] << lanes) << 16 * lanes == a
        else:
            for port, data, parity, value in ((variant.a, data_a, parity_a, a), (variant.b, data_b, parity_b, b)):
                width = port.read if port.read < 9 else port.read // 9 * 8
                assert data[cycle] | parity[cycle] << width == value

"""The models of LUTs, carry chains, flip-flops and LUT memories against plain arithmetic in Python."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.cells import CellBench, Refused

from bitlane.errors import DeviceError

CYCLES = 500
FLOPS = {"FDRE": ("R", 0), "FDSE": ("S", 1), "FDCE": ("CLR", 0), "FDPE": ("PRE", 1)}


@pytest.fixture(scope="module")
def bench() -> CellBench:
    return CellBench()


@pytest.fixture(scope="module")
def tables(bench):
    """For each size of LUT: its table, its instance, and an instance whose table differs in the first entry."""
    rng = np.random.default_rng(1)
    found = []
    for size in range(1, 7):
        table = int(rng.integers(1 << 63)) * 2 + 1 & (1 << (1 << size)) - 1
        names = {f"I{i}": 1 for i in range(size)}
        cells = [
            bench.add(f"LUT{size}", {"INIT": f"{1 << size}'h{init:x}"}, names, {"O": 1}) for init in (table, table ^ 1)
        ]
        found.append((size, table, *cells))
    return found


@pytest.fixture(scope="module")
def carry(bench):
    return bench.add("CARRY4", {}, {"CI": 1, "CYINIT": 1, "DI": 4, "S": 4}, {"CO": 4, "O": 4})


@pytest.fixture(scope="module")
def wide_mux(bench):
    return [bench.add(module, {}, {"I0": 1, "I1": 1, "S": 1}, {"O": 1}) for module in ("MUXF7", "MUXF8")]


@pytest.fixture(scope="module")
def buffers(bench):
    return {name: bench.add(name, {}, {"I": 1}, {"O": 1}) for name in ("INV", "BUFG", "IBUF", "OBUF")}


@pytest.fixture(scope="module")
def flops(bench):
    """name, initial value -> instance; x means no initial value."""
    return {
        (name, init): bench.add(name, {"INIT": f"1'b{init}"}, {"D": 1, "CE": 1, reset: 1}, {"Q": 1}, "C")
        for name, (reset, _) in FLOPS.items()
        for init in "01x"
    }


@pytest.fixture(scope="module")
def shifts(bench):
    """length, initial contents, address ports, instance."""
    short = {f"A{i}": 1 for i in range(4)}
    common = {"CE": 1, "D": 1}
    return [
        (16, 0xB3C5, list(short), bench.add("SRL16E", {"INIT": "16'hB3C5"}, {**short, **common}, {"Q": 1}, "CLK")),
        (
            *(32, 0x9D2E61F7, ["A"]),
            bench.add("SRLC32E", {"INIT": "32'h9D2E61F7"}, {"A": 5, **common}, {"Q": 1, "Q31": 1}, "CLK"),
        ),
    ]


@pytest.fixture(scope="module")
def dual(bench):
    """depth, initial contents, instance: one address to write and read, one to read."""
    found = []
    for bits, init in ((5, 0x5A0FC396), (6, 0xFEDCBA9812345678)):
        addresses = {f"{kind}{i}": 1 for kind in ("A", "DPRA") for i in range(bits)}
        given = {"INIT": f"{1 << bits}'h{init:x}"}
        outputs = {"SPO": 1, "DPO": 1}
        found.append(
            (bits, init, bench.add(f"RAM{1 << bits}X1D", given, {**addresses, "D": 1, "WE": 1}, outputs, "WCLK"))
        )
    return found


@pytest.fixture(scope="module")
def quad(bench):
    """width of a word, bits of an address, instance: four memories, written at the last one's address."""
    found = []
    for module, width, bits in (("RAM32M", 2, 5), ("RAM64M", 1, 6)):
        inits = {f"INIT_{name}": f"64'h{0x0123456789ABCDEF * (i + 3) % (1 << 64):x}" for i, name in enumerate("ABCD")}
        inputs = {**{f"ADDR{name}": bits for name in "ABCD"}, **{f"DI{name}": width for name in "ABCD"}, "WE": 1}
        found.append((width, bits, bench.add(module, inits, inputs, {f"DO{name}": width for name in "ABCD"}, "WCLK")))
    return found


@pytest.fixture
def result(bench, seed, request):
    """Random inputs and the outputs of all cells."""
    for cells in ("tables", "carry", "wide_mux", "buffers", "flops", "shifts", "dual", "quad"):
        request.getfixturevalue(cells)  # adds them to the bench
    vectors = bench.vectors(np.random.default_rng(seed), CYCLES)
    return vectors, bench.run(vectors)


def test_tables(result, tables):
    vectors, out = result
    for size, table, right, flipped in tables:
        for cell, init in ((right, table), (flipped, table ^ 1)):
            index = sum(np.array(cell.given(vectors, f"I{i}")) << i for i in range(size))
            assert cell.result(out, "O") == [init >> int(i) & 1 for i in index]
        index = sum(np.array(flipped.given(vectors, f"I{i}")) << i for i in range(size))
        assert flipped.result(out, "O") != [table >> int(i) & 1 for i in index], "one bit of a LUT was not seen"


def test_carry_chain_adds(result, carry):
    """O and CO are those of a + b + carry, with DI = a and S = a ^ b, which covers any DI and S."""
    vectors, out = result
    names = ("CI", "CYINIT", "DI", "S", "O", "CO")
    values = [carry.given(vectors, name) for name in names[:4]] + [carry.result(out, name) for name in names[4:]]
    for first, init, a, propagate, o, co in zip(*values, strict=True):
        b = a ^ propagate
        total = a + b + (first | init)
        assert o == total & 15
        assert co >> 3 == total >> 4
        assert co & 7 == (total ^ a ^ b) >> 1 & 7


def test_wide_multiplexers(result, wide_mux):
    vectors, out = result
    for cell in wide_mux:
        inputs = (cell.given(vectors, name) for name in ("I0", "I1", "S"))
        assert cell.result(out, "O") == [(zero, one)[select] for zero, one, select in zip(*inputs, strict=True)]


def test_buffers(result, buffers):
    vectors, out = result
    for name, cell in buffers.items():
        assert cell.result(out, "O") == [bit ^ (name == "INV") for bit in cell.given(vectors, "I")]


@pytest.mark.parametrize("name", FLOPS)
@pytest.mark.parametrize("init", ["0", "1"])
def test_flip_flops(result, flops, name, init):
    vectors, out = result
    reset, value = FLOPS[name]
    cell = flops[name, init]
    state, expected = int(init), []
    for data, enable, resetting in zip(*(cell.given(vectors, port) for port in ("D", "CE", reset)), strict=True):
        if resetting and name in ("FDCE", "FDPE"):
            state = value  # at once
        expected.append(state)
        state = value if resetting else data if enable else state
    assert cell.result(out, "Q") == expected


def test_without_initial_value_it_is_random(bench, result, flops):
    vectors, _ = result
    still = np.zeros_like(vectors[:1])
    first = {(name, init): set() for name, init in flops}
    for seed in range(1, 25):
        out = bench.run(still, seed)
        for key, cell in flops.items():
            first[key] |= set(cell.result(out, "Q"))
    assert first == {(name, init): {0, 1} if init == "x" else {int(init)} for name, init in flops}


def test_shift_registers(result, shifts):
    vectors, out = result
    for length, init, ports, cell in shifts:
        bits = [init >> i & 1 for i in range(length)]
        address = sum(np.array(cell.given(vectors, port)) << i for i, port in enumerate(ports))
        got = [cell.result(out, port) for port in cell.outputs]
        for cycle, (enable, data) in enumerate(zip(cell.given(vectors, "CE"), cell.given(vectors, "D"), strict=True)):
            assert [values[cycle] for values in got] == [bits[address[cycle]], bits[-1]][: len(got)]
            if enable:
                bits = [data, *bits[:-1]]


def test_memories_of_two_addresses(result, dual):
    vectors, out = result
    for bits, init, cell in dual:
        contents = [init >> i & 1 for i in range(1 << bits)]
        write, read = (
            sum(np.array(cell.given(vectors, f"{kind}{i}")) << i for i in range(bits)) for kind in ("A", "DPRA")
        )
        got = zip(cell.result(out, "SPO"), cell.result(out, "DPO"), strict=True)
        inputs = zip(cell.given(vectors, "WE"), cell.given(vectors, "D"), strict=True)
        for at, other, pair, (enable, data) in zip(write, read, got, inputs, strict=True):
            assert pair == (contents[at], contents[other])
            if enable:
                contents[at] = data


def test_memories_of_four_addresses(result, quad):
    vectors, out = result
    for width, bits, cell in quad:
        where = cell.given(vectors, "ADDRD")
        for i, name in enumerate("ABCD"):
            init = 0x0123456789ABCDEF * (i + 3) % (1 << 64)
            contents = [init >> width * at & (1 << width) - 1 for at in range(1 << bits)]
            inputs = (where, cell.given(vectors, f"ADDR{name}"), cell.given(vectors, "WE"))
            pairs = zip(*inputs, cell.given(vectors, f"DI{name}"), cell.result(out, f"DO{name}"), strict=True)
            for at, read, enable, data, got in pairs:
                assert got == contents[read]
                if enable:
                    contents[at] = data


def test_unsupported_modes_are_errors():
    """The simulation ends at its start, and names the mode."""
    refused = {
        ("SRL16E", "IS_CLK_INVERTED", "1"): "SRL16E: an inverted clock is not modelled",
        ("SRLC32E", "IS_CLK_INVERTED", "1"): "SRLC32E: an inverted clock is not modelled",
        ("RAM32X1D", "IS_WCLK_INVERTED", "1"): "RAM32X1D: an inverted clock is not modelled",
        ("RAM64X1D", "IS_WCLK_INVERTED", "1"): "RAM64X1D: an inverted clock is not modelled",
        ("RAM32M", "IS_WCLK_INVERTED", "1"): "RAM32M: an inverted clock is not modelled",
        ("RAM64M", "IS_WCLK_INVERTED", "1"): "RAM64M: an inverted clock is not modelled",
        ("DSP48E1", "USE_SIMD", '"TWO24"'): "DSP48E1: USE_SIMD other than ONE48 is not modelled",
        ("DSP48E1", "USE_MULT", '"MULT_S"'): "DSP48E1: USE_MULT is NONE, MULTIPLY or DYNAMIC",
        ("DSP48E1", "USE_PATTERN_DETECT", '"ON"'): "DSP48E1: USE_PATTERN_DETECT is NO_PATDET or PATDET",
        ("DSP48E1", "SEL_MASK", '"C"'): "DSP48E1: SEL_MASK other than MASK is not modelled",
        ("DSP48E1", "SEL_PATTERN", '"C"'): "DSP48E1: SEL_PATTERN other than PATTERN is not modelled",
        ("DSP48E1", "AUTORESET_PATDET", '"RESET_MATCH"'): "DSP48E1: automatic reset is not modelled",
        ("DSP48E1", "AREG", "3"): "DSP48E1: AREG and BREG are 0, 1 or 2",
        ("RAMB36E1", "DOA_REG", "1"): "RAMB36E1: output registers are not modelled",
        ("RAMB36E1", "RAM_EXTENSION_A", '"LOWER"'): "RAMB36E1: cascades are not modelled",
        ("RAMB36E1", "RAM_MODE", '"SDP"'): "RAMB36E1: simple dual port is modelled with a read and a write width of 72",
        ("RAMB18E1", "DOB_REG", "1"): "RAMB18E1: output registers are not modelled",
        ("RAMB18E1", "RAM_MODE", '"SDP"'): "RAMB18E1: simple dual port is modelled with a read and a write width of 36",
        ("RAMB18E1", "WRITE_MODE_B", '"OTHER"'): "block RAM: write mode OTHER is not modelled",
    }
    bench = CellBench()
    for module, parameter, value in refused:
        width = {"READ_WIDTH_A": "9"} if module.startswith("RAMB") else {}
        bench.add(module, {**width, parameter: value}, {}, {})
    with pytest.raises(Refused) as error:
        bench.run(bench.vectors(np.random.default_rng(0), 1))
    assert [message for message in refused.values() if message not in str(error.value)] == []


@pytest.mark.parametrize(("module", "parameters"), [("LDCE", {}), ("FDRE", {"IS_C_INVERTED": "1"})])
def test_cells_without_a_model_are_errors(module, parameters):
    """An unknown cell or parameter is an error."""
    bench = CellBench()
    bench.add(module, parameters, {}, {})
    with pytest.raises(DeviceError, match=[module, *parameters][-1]):
        bench.run(bench.vectors(np.random.default_rng(0), 1))

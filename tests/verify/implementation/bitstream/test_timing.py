"""Static timing of small designs, with path delays added by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane_verify.implementation.bitstream.timing import (
    MODELS,
    Netlist,
    add_models,
    cut_false_paths,
    read_models,
    read_netlist,
    slowest_path,
)

# A flip-flop, a LUT, a DSP48E1 and PS7 in a row; as nextpnr writes it, names with its escapes.
DESIGN = r"""(DELAYFILE
  (SDFVERSION "3.0")
  (DESIGN "top")
  (TIMESCALE 1ps)
  (CELL
    (CELLTYPE "top")
    (INSTANCE )
    (DELAY
      (ABSOLUTE
        (INTERCONNECT a\$1/Q lut\[2\]/A1 (10:20:400) (10:20:300))
        (INTERCONNECT lut\[2\]/O6 mul\$top.v\:7/A0 (700:700:700) (700:700:700))
        (INTERCONNECT a\$1/Q mul\$top.v\:7/B17 (600:600:600) (600:600:600))
        (INTERCONNECT gnd/Y mul\$top.v\:7/OPMODE0 (9000:9000:9000) (9000:9000:9000))
        (INTERCONNECT mul\$top.v\:7/P47 ps7/MAXIGP0RDATA31 (1000:1000:1000) (1000:1000:1000))
        (INTERCONNECT ps7/MAXIGP0WVALID b/D (2000:2000:2000) (2000:2000:2000))
        (INTERCONNECT a\$1/Q b/CE (5000:5000:5000) (5000:5000:5000))
      )
    )
  )
  (CELL
    (CELLTYPE "PSEUDO_GND")
    (INSTANCE gnd)
    )
  (CELL
    (CELLTYPE "SLICE_FFX")
    (INSTANCE a\$1)
    (DELAY
      (ABSOLUTE
        (IOPATH CK Q (300:325:350) (300:325:350))
      )
    )
    (TIMINGCHECK
      (SETUPHOLD (posedge D) (posedge CK) (100:100:100) (200:200:200))
    )
    )
  (CELL
    (CELLTYPE "SLICE_LUTX")
    (INSTANCE lut\[2\])
    (DELAY
      (ABSOLUTE
        (IOPATH A1 O6 (100:112:125) (100:112:125))
      )
    )
    )
  (CELL
    (CELLTYPE "DSP48E1_DSP48E1")
    (INSTANCE mul\$top.v\:7)
    )
  (CELL
    (CELLTYPE "PS7_PS7")
    (INSTANCE ps7)
    )
  (CELL
    (CELLTYPE "SLICE_FFX")
    (INSTANCE b)
    (DELAY
      (ABSOLUTE
        (IOPATH CK Q (300:325:350) (300:325:350))
      )
    )
    (TIMINGCHECK
      (SETUPHOLD (posedge D) (posedge CK) (100:100:100) (200:200:200))
      (SETUPHOLD (negedge CE) (posedge CK) (110:110:110) (0:0:0))
    )
    )
)
"""
DSP = """(DELAYFILE
    (CELL
        (CELLTYPE "DSP48E1_AREG_0_A_INPUT_DIRECT_MREG_0_PREG_0_USE_DPORT_FALSE_USE_MULT_MULTIPLY")
        (INSTANCE DSP48E1)
                (IOPATH A P (1.000::1.5)(2.000::3.000))
    (CELL
        (CELLTYPE "DSP48E1_AREG_0_A_INPUT_DIRECT_MREG_1_USE_DPORT_FALSE_USE_MULT_MULTIPLY")
        (INSTANCE DSP48E1)
            (HOLD A (posedge CLK) (-0.5::9.000))
            (SETUP A (posedge CLK) (0.4::1.250))
    (CELL
        (CELLTYPE "DSP48E1_BREG_1_B_INPUT_DIRECT")
        (INSTANCE DSP48E1)
            (SETUP B (posedge CLK) (0.4::0.500))
    (CELL
        (CELLTYPE "DSP48E1_MREG_1_PREG_0")
        (INSTANCE DSP48E1)
                (IOPATH CLK P (1.000::1.5)(2.000::2.500))
    (CELL
        (CELLTYPE "DSP48E1_PREG_1")
        (INSTANCE DSP48E1)
                (IOPATH CLK P (0.1::0.2)(0.3::0.450))
)
"""
PS7 = """(DELAYFILE
    (CELL
        (CELLTYPE "PS7")
        (INSTANCE PS7)
                (IOPATH MAXIGP0ACLK MAXIGP0WVALID (0.351::0.468)(1.088::1.400))
            (SETUP MAXIGP0RDATA (posedge MAXIGP0ACLK) (0.662::0.800))
)
"""
KNOWN = {"A_INPUT": "DIRECT", "USE_DPORT": "FALSE", "USE_MULT": "MULTIPLY", "AREG": "0", "BREG": "1"}


@pytest.fixture(scope="module")
def timings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("timings")
    (folder / MODELS["DSP48E1"]).write_text(DSP)
    (folder / MODELS["PS7"]).write_text(PS7)
    return folder


def netlist(timings: Path, without: str = "no such pin", **registers: str) -> Netlist:
    """Return the design with these registers in its DSP48E1, without the wires that have `without` in their line."""
    made = read_netlist(
        "\n".join(line for line in DESIGN.splitlines() if "INTERCONNECT" not in line or without not in line)
    )
    add_models(made, read_models(timings), {"mul$top.v:7": {**KNOWN, **registers}})
    return made


@pytest.mark.parametrize(
    ("registers", "period", "end"),
    [
        # clock to Q, wire, LUT, wire, the whole DSP48E1, wire, setup of PS7
        ({"MREG": "0", "PREG": "0"}, 0.35 + 0.4 + 0.125 + 0.7 + 3.0 + 1.0 + 0.8, "ps7/MAXIGP0RDATA31"),
        # from the register behind the multiplier to PS7
        ({"MREG": "1", "PREG": "0"}, 2.5 + 1.0 + 0.8, "ps7/MAXIGP0RDATA31"),
        # from PS7 to the flip-flop, now that the product has its register
        ({"MREG": "1", "PREG": "1"}, 1.4 + 2.0 + 0.1, "b/D"),
    ],
)
def test_the_slowest_path_by_hand(timings: Path, registers: dict[str, str], period: float, end: str) -> None:
    """The path between flip-flops is slower than some, but does not count: nextpnr times it."""
    found = slowest_path(netlist(timings, **registers), MODELS)
    assert (pytest.approx(found[0]), found[1]) == (period, end)


def test_the_end_at_a_multiplier(timings: Path) -> None:
    """The path ends at the register after the multiplier and includes its delay, without hold."""
    found = slowest_path(netlist(timings, without="ps7", MREG="1", PREG="1"), MODELS)
    assert (pytest.approx(found[0]), found[1]) == (0.35 + 0.4 + 0.125 + 0.7 + 1.25, "mul$top.v:7/A0")
    found = slowest_path(netlist(timings, without="ps7", MREG="0", PREG="1"), MODELS)
    assert (pytest.approx(found[0]), found[1]) == (0.35 + 0.6 + 0.5, "mul$top.v:7/B17")


def test_unknown_parameters_take_the_slowest_model(timings: Path) -> None:
    assert slowest_path(netlist(timings), MODELS) == slowest_path(netlist(timings, MREG="0", PREG="0"), MODELS)


def test_paths_of_other_cells(timings: Path) -> None:
    made = netlist(timings, MREG="1", PREG="1")
    found = slowest_path(made, {"SLICE"})
    assert (pytest.approx(found[0]), found[1]) == (0.35 + 5.0 + 0.11, "b/CE")
    assert slowest_path(made, ()) == (0.0, "")
    assert slowest_path(Netlist({}, {}), MODELS) == (0.0, "")


@pytest.mark.parametrize(("memory", "inputs"), [({}, {"A1"}), ({"X_LUT_AS_DRAM": "1"}, {"A1", "A2"})])
def test_a_lut_waits_for_its_own_inputs(memory: dict[str, str], inputs: set[str]) -> None:
    """A2 belongs to the other LUT of the pair; all inputs belong to a memory."""
    path = "(IOPATH A1 O6 (100:112:125) (100:112:125))"
    made = read_netlist(DESIGN.replace(path, path + "\n" + path.replace("A1", "A2")))
    assert {start for start, _ in made.cells["lut[2]"].paths} == {"A1", "A2"}
    attributes = {"X_ORIG_PORT_A1": "I0", "X_ORIG_PORT_O6": "O", "X_ORIG_TYPE": "LUT1", **memory}
    before = made.cells["b"].paths.copy()
    cut_false_paths(
        made,
        {
            "lut[2]": {"type": "SLICE_LUTX", "attributes": attributes},
            "b": {"type": "SLICE_FFX", "attributes": {}},
        },
    )
    assert {start for start, _ in made.cells["lut[2]"].paths} == inputs
    assert made.cells["b"].paths == before

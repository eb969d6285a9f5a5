"""The vendor recipes, run in a Tcl interpreter with stubs: what they do, and that what is not there is an error."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.helpers.places import ROOT
from tests.helpers.shells import shell

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.registers import REGISTERS, VLNV
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.build_digest import TWO_PORTS, build_digest
from bitlane_hw.export.core import Core
from bitlane_hw.export.verilog import TOP, to_verilog
from bitlane_hw.export.vivado_tcl import vivado_tcl
from bitlane_hw.zynq.two_ports import TwoPortAccelerator

tkinter = pytest.importorskip("tkinter", reason="needs a Tcl interpreter: Python's tkinter")

RECIPES = ROOT / "bitstreams"
BOARDS = ("zcu104", "kv260")
CONFIG = AcceleratorConfig(256)
CORE = Core(CONFIG, memory_ports=2)


@pytest.fixture(scope="session")
def verilog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the recipes are given: Verilog with the ports of 256 bits, and the register map."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "bitlane_accelerator.v").write_text(to_verilog(shell(TwoPortAccelerator)(CONFIG), TOP))
    (folder / "accelerator.tcl").write_text(vivado_tcl(CORE))
    return folder


@pytest.fixture
def folder(verilog: Path, tmp_path: Path) -> Path:
    """A copy of it for one build."""
    return Path(shutil.copytree(verilog, tmp_path / "build"))


@pytest.fixture
def vivado():
    from tests.helpers.vivado import Vivado

    return Vivado()


def build(vivado, board: str, folder: Path, recipes: Path = RECIPES) -> None:
    vivado.run(recipes / board / "build.tcl", str(folder))


# --- what the recipes do -------------------------------------------------------------------------
@pytest.mark.parametrize("board", BOARDS)
def test_a_bitstream_and_its_handoff_come_out(vivado, board: str, folder: Path) -> None:
    build(vivado, board, folder)
    for name in ("bitlane.bit", "bitlane.hwh"):
        assert (folder / name).read_text() == "written by a stub\n"
    assert vivado.properties["project", "board_part"].startswith(f"xilinx.com:{board}")
    assert {"validate_bd_design", "ipx::check_integrity", "launch_runs"} <= set(vivado.called)


@pytest.mark.parametrize("board", BOARDS)
def test_every_register_is_packaged(vivado, board: str, folder: Path) -> None:
    build(vivado, board, folder)
    words = {f"{name}{'_high' * word}": word for name, register in REGISTERS.items() for word in range(register.words)}
    assert list(vivado.registers) == list(words)
    for name, word in words.items():
        register, packaged = REGISTERS[name.removesuffix("_high")], vivado.registers[name]
        assert int(packaged["address_offset"], 0) == register.offset + 4 * word
        assert int(packaged["size"]) == 32
        assert packaged["access"] == ("read-write" if register.writable else "read-only")
        assert packaged["description"] == register.meaning
    assert {name: vivado.block[name] for name in ("base_address", "range", "width")} == {
        "base_address": "0",
        "range": "4096",
        "width": "32",
    }
    assert vivado.parameters == {"rst@POLARITY": "ACTIVE_HIGH", "irq@SENSITIVITY": "LEVEL_HIGH"}


@pytest.mark.parametrize("board", BOARDS)
def test_clock_reset_buses_interrupt_and_memory_are_connected(vivado, board: str, folder: Path) -> None:
    build(vivado, board, folder)
    _, ps = vivado.cells["ps"]
    assert [ps[f"CONFIG.PSU__SAXIGP{port}__DATA_WIDTH"] for port in (2, 3)] == ["128", "128"]
    clocks = {pin for pin in vivado.wires if re.search(r"aclk$|/clk$|_clk$", pin)}
    assert len(clocks) == 7 and {vivado.wires[pin] for pin in clocks} == {"ps/pl_clk0"}
    assert vivado.wires["accelerator/rst"] == "resets/peripheral_reset"  # high, as the accelerator wants it
    assert vivado.wires["ps/pl_ps_irq0"] == "interrupts/irq"
    assert vivado.wires["interrupts/intr"] == "accelerator/irq"
    assert vivado.links["ps/S_AXI_HP0_FPD"] == "accelerator/m_axi0"
    assert vivado.links["ps/S_AXI_HP1_FPD"] == "accelerator/m_axi1"
    assert vivado.assigned == {
        ("ps/Data", "/accelerator/s_axi/reg0"): ("0xA0000000", "4096"),
        ("ps/Data", "/interrupts/S_AXI/Reg"): ("0xA0010000", "64K"),
        **{
            (f"accelerator/m_axi{port}", f"/ps/SAXIGP{port + 2}/HP{port}_{name}"): (None, None)
            for port in range(2)
            for name in ("DDR_LOW", "DDR_HIGH")
        },
    }
    assert vivado.excluded == {
        (f"accelerator/m_axi{port}", f"/ps/SAXIGP{port + 2}/HP{port}_{name}")
        for port in range(2)
        for name in ("LPS_OCM", "QSPI")
    }


def test_a_build_of_128_bits_has_one_port(vivado, folder: Path, tmp_path: Path) -> None:
    """A recipe of that width connects HP0 alone."""
    config = AcceleratorConfig(128)
    (folder / "bitlane_accelerator.v").write_text(to_verilog(shell(Accelerator)(config), TOP))
    (folder / "accelerator.tcl").write_text(vivado_tcl(Core(config)))
    recipes = Path(shutil.copytree(RECIPES, tmp_path / "bitstreams"))
    recipe = recipes / "kv260" / "build.tcl"
    recipe.write_text(recipe.read_text().replace("width 256", "width 128"))
    build(vivado, "kv260", folder, recipes)
    assert {slave: master for slave, master in vivado.links.items() if slave.startswith("ps/")} == {
        "ps/S_AXI_HP0_FPD": "accelerator/m_axi"
    }
    assert vivado.cells["ps"][1]["CONFIG.PSU__SAXIGP2__DATA_WIDTH"] == "128"


@pytest.mark.parametrize("board", BOARDS)
def test_the_driver_finds_its_facts(vivado, board: str, folder: Path) -> None:
    build(vivado, board, folder)
    facts = {name: properties["value"] for name, properties in vivado.facts.items()}
    assert facts == {
        "BUILD": str(build_digest(CONFIG, TWO_PORTS)),
        "WIDTH": "256",
        "OUTPUTS": "1",
        "BOARD": board.upper(),
        "CLOCK_MHZ": vivado.cells["ps"][1]["CONFIG.PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ"],
    }
    name = [vivado.properties["core", part] for part in ("name", "version")]
    assert VLNV.split(":") == [vivado.core["-vendor"], vivado.core["-library"], *name]


def test_every_recipe_says_that_it_is_untested() -> None:
    files = [*RECIPES.glob("vivado/*.tcl"), *(RECIPES / board / "build.tcl" for board in BOARDS)]
    assert len(files) == 6
    assert all(path.read_text().startswith("# UNTESTED IN VIVADO") for path in files)
    assert "UNTESTED IN VIVADO" in (RECIPES / "README.md").read_text()


# --- what is refused, by the recipe --------------------------------------------------------------
def fails(vivado, folder: Path, message: str, *arguments: str) -> None:
    with pytest.raises(tkinter.TclError, match=message):
        vivado.run(RECIPES / "zcu104" / "build.tcl", *(arguments or (str(folder),)))
    assert not list(folder.glob("bitlane.*"))


def test_no_folder(vivado, folder: Path) -> None:
    fails(vivado, folder, "give one folder", "a", "b")
    assert vivado.called == []


@pytest.mark.parametrize("name", ["bitlane_accelerator.v", "accelerator.tcl"])
def test_a_missing_file_is_named_before_anything_is_made(vivado, folder: Path, name: str) -> None:
    (folder / name).unlink()
    fails(vivado, folder, f"has no {name}: bitstreams/README.md")
    assert vivado.called == []


def test_verilog_of_another_width(vivado, folder: Path) -> None:
    (folder / "accelerator.tcl").write_text(vivado_tcl(Core(AcceleratorConfig(64))))
    fails(vivado, folder, "is for 64 bits: make it with --width 256")


def test_one_port_for_256_bits(vivado, folder: Path) -> None:
    """A port of the chip has 128 bits at most."""
    (folder / "accelerator.tcl").write_text(vivado_tcl(Core(CONFIG)))
    fails(vivado, folder, "has 1 memory port: make it with --memory-ports 2")


def test_another_name_of_the_top(vivado, folder: Path) -> None:
    top = "sgd_core"
    (folder / f"{top}.v").write_text((folder / f"{TOP}.v").read_text().replace(TOP, top))
    (folder / f"{TOP}.v").unlink()
    (folder / "accelerator.tcl").write_text(vivado_tcl(Core(CONFIG, top, memory_ports=2)))
    build(vivado, "kv260", folder)
    assert (folder / "bitlane.bit").exists()


def test_no_board_files(vivado, folder: Path) -> None:
    vivado.BOARDS = ()
    fails(vivado, folder, r"no board file xilinx.com:zcu104:part0:\*: install it")


@pytest.mark.parametrize(("slack", "what"), [("STATS.WNS", "setup"), ("STATS.WHS", "hold")])
def test_missed_timing_gives_no_bitstream(vivado, folder: Path, slack: str, what: str) -> None:
    vivado.slack[slack] = "-0.25"
    fails(vivado, folder, f"{what} timing is missed by 0.25 ns: lower the board's clock")


# --- what is refused, by the stubs: they are worth something --------------------------------------
@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("implement.tcl", "launch_runs", "launch_run", 'invalid command name "launch_run"'),
        ("implement.tcl", "$slack $run", "$slak $run", 'can\'t read "slak"'),
        ("implement.tcl", "-to_step", "-until", "no option -until"),
        ("implement.tcl", "hw_handoff", "handoff", "the tool wrote no .*handoff/bitlane.hwh"),
        ("design.tcl", "ps/pl_clk0 {", "ps/pl_clk1 {", "no pin ps/pl_clk1"),
        ("design.tcl", "CONFIG.NUM_MI 2", "CONFIG.NUM_MI 1", "no interface pin control/M01_AXI"),
        ("design.tcl", "CONFIG.PSU__USE__IRQ0 1", "CONFIG.PSU__USE__IRQ0 0", "no pin ps/pl_ps_irq0"),
        (
            "design.tcl",
            "CONFIG.PSU__USE__M_AXI_GP1 0",
            "CONFIG.PSU__USE__M_AXI_GP1 1",
            "hpm1_fpd_aclk is not connected",
        ),
        ("design.tcl", "CONFIG.PSU__USE__IRQ0", "CONFIG.PSU__USE_IRQ0", "no property CONFIG.PSU__USE_IRQ0"),
        (
            "design.tcl",
            "resets/interconnect_aresetn control/aresetn",
            "resets/mb_reset resets/aux_reset_in",
            "control/aresetn is not",
        ),
        ("design.tcl", "exclude_bd_addr_seg -target", "list -target", "neither assigned nor excluded"),
        ("ip.tcl", "set_property size", "set_property bits", "a register has no property bits"),
        ("ip.tcl", "-clock clk -reset rst", "-clock clock -reset rst", "no clock clock"),
        ("ip.tcl", "rst reset irq", "reset reset irq", "no port reset"),
        ("ip.tcl", "set_property access $access $register", "", "register identity is half described"),
    ],
)
def test_a_mistake_in_a_recipe_is_noticed(
    vivado, folder: Path, tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    recipes = Path(shutil.copytree(RECIPES, tmp_path / "bitstreams"))
    path = recipes / "vivado" / file
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new))
    with pytest.raises(tkinter.TclError, match=message):
        build(vivado, "kv260", folder, recipes)

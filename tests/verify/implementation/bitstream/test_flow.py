"""From Verilog to a .bit file, if the tools are installed; reports of the tools, and the manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.places import HELPERS

from bitlane.contract.config import AcceleratorConfig
from bitlane.errors import BitlaneError, DataError, DeviceError
from bitlane_verify.implementation.bitstream import __main__ as command
from bitlane_verify.implementation.bitstream import flow, manifest, tools
from bitlane_verify.implementation.bitstream.chips import XC7Z020, Chip, chip_named
from bitlane_verify.implementation.bitstream.flow import Routed, SlicePath, routed, slice_path
from bitlane_verify.implementation.bitstream.tools import BitstreamTools
from bitlane_verify.implementation.yosys import SynthesisFigures

SMALL = HELPERS / "bitstream_small.v"
CHIP = XC7Z020
AREA = SynthesisFigures(lut=10, ff=20, bram36=1.5, dsp=1)


@pytest.fixture(scope="session")
def programs() -> BitstreamTools:
    try:
        return tools.find()
    except DeviceError as error:
        pytest.skip(str(error))


def built(programs: BitstreamTools, folder: Path) -> tuple[SynthesisFigures, Routed]:
    folder.mkdir()
    shutil.copyfile(SMALL, folder / "small.v")
    area = flow.synthesise(folder / "small.v", "small", programs, folder)
    result = flow.place_and_route(CHIP, programs, folder, seed=1)
    flow.pack("small", CHIP, programs, folder)
    return area, result


@pytest.mark.slow
def test_a_small_design_becomes_the_same_bitstream_twice(programs: BitstreamTools, tmp_path: Path) -> None:
    """The flow runs twice in different folders; `pack` compares the .bit file with the frames."""
    area, result = built(programs, tmp_path / "one")
    assert built(programs, tmp_path / "two") == (area, result)
    one, two = ((tmp_path / name / "top.bit").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) > 4_000_000
    assert area.dsp == 1 and area.bram36 == 1 and area.ff >= 64 and area.lut >= 32
    result.require(CHIP.clock_mhz)
    with pytest.raises(BitlaneError, match=r"but the board's clock has 900\.0 MHz"):
        result.require(900)

    # The slowest of these is the product's, whose operand has no register in its DSP48E1; the ends of PS7 are faster.
    assert result.block_mhz is not None and 100 < result.block_mhz < 400
    assert "$mul$" in result.slowest and re.search(r"/A\d+$", result.slowest)


@pytest.mark.slow
def test_a_different_bitstream_is_an_error(programs: BitstreamTools, tmp_path: Path) -> None:
    """xc7frames2bit omits a frame."""
    (tmp_path / "top.fasm").write_text("CLBLL_L_X18Y0.SLICEL_X0.AFF.ZINI\n")
    flow.pack("small", CHIP, programs, tmp_path)
    forgetful = tmp_path / "xc7frames2bit"
    forgetful.write_text(f'#!/bin/sh\nsed -i 1d top.frm\nexec {programs.frames2bit} "$@"\n')
    forgetful.chmod(0o755)
    with pytest.raises(BitlaneError, match=r"the bitstream differs from the routed design: word \d+ of frame 0x00"):
        flow.pack("small", CHIP, dataclasses.replace(programs, frames2bit=str(forgetful)), tmp_path)


def test_timing_is_read_from_the_last_report() -> None:
    """The slowest clock is used; hold violations come from the log, which lists ten."""
    report = {"fmax": {"a": {"achieved": 130.256, "constraint": 100.0}, "b": {"achieved": 99.5, "constraint": 100.0}}}
    shown = "Warning: Hold/min time violation for clock 'posedge a':\nInfo: hold -0.67  0.61 Source ram.DIADI3\n"
    log = f"Info: 40 Hold/min time violations (showing 10 worst paths):\n{shown}"
    assert routed(report, "Info: Program finished normally.", 0.0, "") == Routed(99.5, None, "", 0)
    assert routed(report, log, 12.5, "dsp/A3") == Routed(99.5, 80.0, "dsp/A3", 40)
    assert routed(report, log + log.replace("40", "12"), 5.0, "a/D").hold_violations == 12
    with pytest.raises(BitlaneError, match="no maximum frequency"):
        routed({"fmax": {}}, log, 5.0, "a/D")


def test_the_limiting_path() -> None:
    """The slowest path between two edges of the clock, with the share of its wires; paths of pins do not count."""

    def path(start: str, end: str, *steps: tuple[str, float]) -> dict[str, Any]:
        cells = {"from": {"cell": f"{end}0"}, "to": {"cell": f"{end}1"}}
        return {"from": start, "to": end, "path": [{"type": kind, "delay": ns, **cells} for kind, ns in steps]}

    fast = path("posedge clk", "posedge clk", ("clk-to-q", 0.5), ("routing", 1.0), ("setup", 0.1))
    slow = path("posedge clk", "posedge a", ("clk-to-q", 0.5), ("routing", 2.0), ("logic", 0.125), ("routing", 1.0))
    pins = path("async", "posedge clk", ("routing", 20.0))
    assert slice_path({"critical_paths": [fast, slow, pins]}) == SlicePath("posedge a0", "posedge a1", 0.62, 3.0)
    assert slice_path({"critical_paths": [pins]}) is slice_path({}) is None


def test_missed_timing_is_an_error() -> None:
    for good in (Routed(100.0, 130.0, "dsp/A3", 0), Routed(130.0, 100.0, "dsp/A3", 0), Routed(100.0, None, "", 0)):
        good.require(100)
    for slow in (Routed(99.94, 130.0, "dsp/A3", 0), Routed(130.0, 99.94, "dsp/A3", 0)):
        with pytest.raises(BitlaneError, match=r"99\.9 MHz at most, but the board's clock has 100.0 MHz .* at dsp/A3"):
            slow.require(100)
    with pytest.raises(BitlaneError, match="3 paths violate hold"):
        Routed(130.0, 130.0, "a/D", 3).require(100)


def test_boards() -> None:
    for name in ("pynq-z2", "pynq-z1", "arty-z7-20", "xc7z020"):
        chip = chip_named(name)
        assert (chip.part, chip.clock_mhz, chip.ports) == ("xc7z020clg400-1", 100.0, ("HP2", "HP3"))
        assert chip.config() == AcceleratorConfig(width=128, address_bits=32)
    narrow = Chip("one", "xc7z010clg400-1", (), divisors=(4, 2), ports=("HP2",))
    assert (narrow.clock_mhz, narrow.config().width) == (125.0, 64)
    with pytest.raises(DataError, match="unknown board 'zcu104'; choose from pynq-z2, pynq-z1, arty-z7-20, xc7z020"):
        chip_named("zcu104")


def test_every_board_of_a_chip_gets_a_handoff(tmp_path: Path) -> None:
    """They differ in the name of the board alone, and name the HP ports that the design uses."""
    files = command.write_handoffs(CHIP, 0xABCD, tmp_path)
    assert [file.name for file in files] == ["pynq-z2.hwh", "pynq-z1.hwh", "arty-z7-20.hwh"]
    texts = [file.read_text() for file in files]
    for (_, board), text in zip(CHIP.boards, texts, strict=True):
        assert text.count(board) == 2
        assert text.replace(board, "Pynq-Z2") == texts[0]
    assert re.findall(r'"PCW_USE_S_AXI_HP(\d)"', texts[0]) == ["2", "3"]
    assert f'NAME="BUILD" VALUE="{0xABCD}"' in texts[0]


def test_contents_of_the_manifest(tmp_path: Path) -> None:
    file = tmp_path / "bitlane.bit"
    file.write_bytes(b"bits")
    source = manifest.BitstreamSource("c0ffee", 0xC0FFEE, "5eed")
    made = json.loads(
        json.dumps(
            manifest.manifest(
                CHIP, source, AREA, Routed(130.0, 123.4, "a/B7", 0), 7, {"yosys": "Yosys 0"}, {"a.deb": "1"}, [file]
            )
        )
    )
    config = AcceleratorConfig(width=128, address_bits=32)
    assert (made["chip"], made["part"], made["ports"]) == ("xc7z020", "xc7z020clg400-1", ["HP2", "HP3"])
    assert made["boards"] == {"pynq-z2": "Pynq-Z2", "pynq-z1": "Pynq-Z1", "arty-z7-20": "Arty-Z7-20"}
    assert AcceleratorConfig(**made["configuration"]) == config
    assert (made["build"], made["circuit"], made["verilog"]) == ("0x00C0FFEE", "c0ffee", "5eed")
    assert (made["clock_mhz"], made["clock_divisors"]) == (100.0, [10, 1])
    assert made["fmax_mhz"] == 123.4
    timing = {"slice_mhz": 130.0, "block_mhz": 123.4, "slowest": "a/B7", "hold_violations": 0, "slice_path": None}
    assert made["timing"] == timing
    assert made["area"] == {"lut": 10, "ff": 20, "bram36": 1.5, "dsp": 1}
    assert made["sha256"] == {"bitlane.bit": hashlib.sha256(b"bits").hexdigest()}
    assert made["packages"] == {"a.deb": "1"}
    assert made["tools"]["yosys"] == "Yosys 0" and made["placement"][-2:] == ["--seed", "7"]
    assert "No silicon has run" in made["trust"] and "community" in made["trust"]


def fill(text: str, fails: bool = False):  # type: ignore[no-untyped-def]
    def build(chip: Chip, seed: int, folder: Path) -> None:
        (folder / "bitlane.bit").write_text(f"{text} {chip.name} {seed}")
        if fails:
            raise BitlaneError("timing is missed")

    return build


def test_results_appear_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "bitstreams" / "xc7z020"

    def run(build: object, *arguments: str) -> int:
        monkeypatch.setattr(command, "build", build)
        status = command.main(["pynq-z1", *arguments])
        assert [path.name for path in out.parent.iterdir()] == ([out.name] if out.exists() else [])
        return status

    assert run(fill("new", fails=True)) == 1
    assert "error: timing is missed" in capsys.readouterr().err
    assert not out.exists()
    assert run(fill("new"), "--seed", "5") == 0
    (out / "notes").touch()
    assert run(fill("half", fails=True)) == 1
    assert (out / "bitlane.bit").read_text() == "new xc7z020 5"
    assert run(fill("newer")) == 0
    assert [path.name for path in out.iterdir()] == ["bitlane.bit"]
    assert command.main(["zcu104"]) == 1
    assert "choose from" in capsys.readouterr().err
    assert command.main(["pynq-z1", "--out", str(out / "bitlane.bit" / "below")]) == 1


def test_missing_tools_leave_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    assert command.main(["pynq-z2", "--out", str(tmp_path / "out")]) == 1
    assert "make toolchain" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

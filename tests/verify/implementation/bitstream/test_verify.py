"""The check of an overlay against its sources: every kind of difference is found, and only real ones are errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bitlane import overlays
from bitlane_verify.implementation.bitstream import manifest, tools, verify
from bitlane_verify.implementation.bitstream.chips import Chip

CIRCUIT, VERILOG = "a circuit", b"module"


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package's overlay, with a circuit and Verilog that take no time to make."""
    folder = tmp_path / "xc7z020"
    shutil.copytree(overlays.FOLDER / "xc7z020", folder)
    monkeypatch.setattr(verify, "circuit_digest", lambda config: CIRCUIT)
    monkeypatch.setattr(verify.verilog, "write", lambda chip, build, file: file.write_bytes(VERILOG))
    (tmp_path / "top.v").write_bytes(VERILOG)
    change(folder, lambda facts: facts.update(circuit=CIRCUIT, verilog=manifest.sha256(tmp_path / "top.v")))
    return folder


def change(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    facts = verify.read_manifest(folder)
    edit(facts)
    (folder / "manifest.json").write_text(json.dumps(facts))


def check(folder: Path, *options: str) -> int:
    return verify.main(["pynq-z1", "--folder", str(folder), *options])


def differing(text: str) -> list[str]:
    return [line.partition("  ")[0] for line in text.splitlines() if "differs" in line]


def test_an_overlay_of_these_sources(overlay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(overlay) == 0
    assert not differing(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda facts: facts["sha256"].update({"bitlane.bit": "0"}), "files"),
        (lambda facts: facts["boards"].pop("pynq-z1"), "chip and boards"),
        (lambda facts: facts.update(fmax_mhz=99.9), "clock"),
        (lambda facts: facts["timing"].update(hold_violations=1), "clock"),
        (lambda facts: facts.update(build="0x00000001"), "handoffs"),
        (lambda facts: facts.update(circuit="another"), "circuit"),
    ],
    ids=["a file", "a board", "too slow", "hold", "a build", "a circuit"],
)
def test_differences_are_errors(
    overlay: Path, capsys: pytest.CaptureFixture[str], edit: Callable[[dict[str, Any]], None], what: str
) -> None:
    change(overlay, edit)
    assert check(overlay) == 1
    assert differing(capsys.readouterr().out) == [what]


def test_new_names_are_no_error(overlay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(overlay, lambda facts: facts.update(verilog="another"))
    assert check(overlay) == 0
    out = capsys.readouterr().out
    assert differing(out) == ["Verilog"] and "a rebuild makes other bytes" in out


@pytest.mark.parametrize("same", [True, False])
def test_a_rebuild(
    overlay: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], same: bool
) -> None:
    """With the seed and the build number of the manifest; the tools that differ are named."""
    facts = verify.read_manifest(overlay)

    change(overlay, lambda facts: facts.update(packages={"a.deb": "1"}))

    class Programs:
        def packages(self) -> dict[str, str]:
            return {"a.deb": "1" if same else "2"}

        def versions(self) -> dict[str, str]:
            return {"yosys": facts["tools"]["yosys"] if same else "Yosys 1", "nextpnr": facts["tools"]["nextpnr"]}

    def build(chip: Chip, seed: int, folder: Path, number: int) -> None:
        assert (seed, number) == (int(facts["placement"][-1]), int(facts["build"], 16))
        made = json.loads(json.dumps(facts))
        made["sha256"]["bitlane.bit"] = facts["sha256"]["bitlane.bit"] if same else "0000"
        (folder / "manifest.json").write_text(json.dumps(made))

    monkeypatch.setattr(tools, "find", Programs)
    monkeypatch.setattr(verify.command, "build", build)
    assert check(overlay, "--rebuild") == (0 if same else 1)
    out = capsys.readouterr().out
    assert differing(out) == ([] if same else ["packages", "yosys", "bytes"])
    if not same:
        assert "Yosys 1 here" in out and "SHA-256 0000" in out


def test_no_overlay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path / "nothing") == 1
    assert "No such file" in capsys.readouterr().err

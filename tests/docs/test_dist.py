"""The release check refuses a wheel or sdist that lacks a file, holds another one, or needs more than numpy."""

from __future__ import annotations

import io
import runpy
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.places import ROOT

DIST = runpy.run_path(str(ROOT / ".ci" / "dist.py"))
TRACKED = {"README.md", "host/bitlane/__init__.py", "hw/bitlane_hw/engine.py", "sim/bitlane_sim/harness.cpp"}
INFO = "bitlane-0.1.0.dist-info"
METADATA = """Name: bitlane
Classifier: Programming Language :: Python :: 3.10
Classifier: Programming Language :: Python :: 3.12
Requires-Python: >=3.10
Requires-Dist: numpy>=1.21.5
Requires-Dist: amaranth>=0.5; extra == 'sim'

Text
"""


def wheel(folder: Path, metadata: str = METADATA, **changes: str | None) -> Path:
    """A wheel of the tracked files; `changes` adds a file, or removes it where the text is None."""
    files: dict[str, str | None] = {name.partition("/")[2]: "" for name in TRACKED if "/" in name}
    files |= {f"{INFO}/{name}": "" for name in DIST["METADATA"]}
    files |= {f"{INFO}/METADATA": metadata, **changes}
    path = folder / "bitlane-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            if text is not None:
                archive.writestr(name, text)
    return path


def test_a_complete_wheel_promises_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert DIST["check_wheel"](wheel(tmp_path), TRACKED) == ["3.10", "3.12"]
    assert "0.00 MB, 8 files, no studies, no verification" in capsys.readouterr().out


def test_a_wheel_with_a_study_is_refused(tmp_path: Path) -> None:
    tracked = TRACKED | {"host/bitlane_studies/claim.py"}
    with pytest.raises(AssertionError, match=r"modules of other distributions: \['bitlane_studies/claim.py'\]"):
        DIST["check_wheel"](wheel(tmp_path, **{"bitlane_studies/claim.py": ""}), tracked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bitlane_sim/harness.cpp": None}, r"lacks 1 files: \['bitlane_sim/harness.cpp'\]"),
        ({f"{INFO}/licenses/LICENSE": None}, "lacks 1 files"),
        ({"bitlane/__pycache__/x.pyc": ""}, "holds 1 files that are not tracked"),
        ({"metadata": METADATA.replace("; extra == 'sim'", "")}, "needs .*amaranth"),
        ({"metadata": METADATA.replace(">=3.10", ">=3.9")}, r"requires 3.9 and promises \['3.10', '3.12'\]"),
    ],
)
def test_a_faulty_wheel_is_refused(options: Mapping[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=message):
        DIST["check_wheel"](wheel(tmp_path, **options), TRACKED)


def add_link(archive: tarfile.TarFile) -> None:
    link = tarfile.TarInfo("bitlane-0.1.0/link")
    link.type, link.linkname = tarfile.SYMTYPE, "README.md"
    archive.addfile(link)


def add_file(name: str) -> Callable[[tarfile.TarFile], None]:
    return lambda archive: archive.addfile(tarfile.TarInfo(f"bitlane-0.1.0/{name}"), io.BytesIO())


@pytest.mark.parametrize(
    ("names", "change", "message"),
    [
        (TRACKED, lambda archive: None, None),
        (TRACKED - {"README.md"}, lambda archive: None, r"lacks 1 files: \['README.md'\]"),
        (TRACKED, add_file("runs/demo/loss.png"), "holds 1 files that are not tracked"),
        (TRACKED, add_link, "holds links"),
    ],
    ids=["complete", "missing", "leftover", "link"],
)
def test_the_sdist_holds_the_tracked_files(
    names: set[str], change: Callable[[tarfile.TarFile], None], message: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "bitlane-0.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            add_file(name)(archive)
        change(archive)
    if message is None:
        DIST["check_sdist"](path, TRACKED)
        return
    with pytest.raises(AssertionError, match=message):
        DIST["check_sdist"](path, TRACKED)


def test_a_missing_interpreter_ends_the_check_before_the_build() -> None:
    with pytest.raises(SystemExit, match=r"python9.9 does not run .*: install it .*make dist PYTHONS="):
        DIST["main"](["python9.9"])

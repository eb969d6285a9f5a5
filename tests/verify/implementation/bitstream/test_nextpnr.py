"""The build of nextpnr from Debian's source and the patch, with a server and programs of our own."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.file_server import FileServer

from bitlane.errors import DeviceError
from bitlane_verify.implementation.bitstream import nextpnr

PLACER = "common/place/placer_static.cc"
CMAKE = """\
#!/bin/sh
[ -n "$BROKEN" ] && { echo "CMake Error: Could NOT find Boost"; exit 1; }
echo "$@" >> "$CALLS"
if [ "$1" = --build ]; then echo built > "$2/nextpnr-himbaechel"; else mkdir -p "$4"; fi
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Debian's archive with a source in which the lines before and after the patch are those of the real one."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "cmake").write_text(CMAKE)
    (programs / "cmake").chmod(0o755)
    for name in ("make", "g++", "patch", "sh", "mkdir"):
        (programs / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    content = archive(unpatched())
    server = FileServer()
    name = nextpnr.SOURCE.name
    server.files[name] = content
    source = replace(nextpnr.SOURCE, url=f"{server.url}/{name}", sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(nextpnr, "SOURCE", source)
    yield server
    server.close()


def unpatched() -> str:
    """Return a file with the lines that the patch removes or leaves, at their numbers."""
    lines: dict[int, str] = {}
    number = 0
    for line in nextpnr.PATCH.read_text().splitlines():
        if line.startswith("@@"):
            number = int(line.split()[1].partition(",")[0][1:])
        elif line[:1] in (" ", "-") and not line.startswith("---"):
            lines[number] = line[1:]
            number += 1
    return "".join(lines.get(i, "//") + "\n" for i in range(1, max(lines) + 1))


def archive(placer: str) -> bytes:
    """Return a source archive with one file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as files:
        entry = tarfile.TarInfo(f"nextpnr-{nextpnr.VERSION}/{PLACER}")
        entry.size = len(placer.encode())
        files.addfile(entry, io.BytesIO(placer.encode()))
    return packed.getvalue()


def test_the_source_is_patched_and_compiled(server: FileServer, tmp_path: Path) -> None:
    program = nextpnr.build(tmp_path / "work", Path("/database"), jobs=3)
    assert program.read_text() == "built\n"
    patched = (tmp_path / "work" / f"nextpnr-{nextpnr.VERSION}" / PLACER).read_text()
    assert "// insert_dark();" not in patched and "insert_dark();" in patched and "in_hole" in patched
    configured, compiled = (tmp_path / "calls").read_text().splitlines()
    assert "-DCURRENT_GIT_VERSION=0.11.1+dark_areas" in configured and "-DHIMBAECHEL_PRJXRAY_DB=/database" in configured
    assert compiled.endswith("--target nextpnr-himbaechel --parallel 3")
    nextpnr.build(tmp_path / "again", Path("/database"))
    assert len(server.requests) == 1, "the source stays in the cache"


def test_what_goes_wrong(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(DeviceError, match=r"(?s)Could NOT find Boost.*if a library is missing: apt install cmake"):
        nextpnr.build(tmp_path / "boost", Path("/database"))
    shutil.rmtree(tmp_path / "cache")
    server.files[nextpnr.SOURCE.name] = b"another version"
    with pytest.raises(DeviceError, match=r"has SHA-256 .*; if Debian has another version now, fetch this one from"):
        nextpnr.build(tmp_path / "moved", Path("/database"))
    (tmp_path / "bin" / "patch").unlink()
    with pytest.raises(DeviceError, match="patch is missing: apt install cmake make"):
        nextpnr.build(tmp_path / "patch", Path("/database"))

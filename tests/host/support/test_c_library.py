"""A C file is built once and loaded; whatever goes wrong is one line."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.compilers import has_compiler, script_compiler

from bitlane.support import c_library
from bitlane.support.c_library import LibraryError, cpu_flags, definitions, load_library

AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")
pytestmark = pytest.mark.skipif(not has_compiler(), reason="this machine has no C compiler")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "number.c"
    path.write_text("int number(void) { return NUMBER; }\n")
    return path


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of what is built."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


def number(source: Path, value: int = 5) -> int:
    found: int = load_library([source], {"NUMBER": str(value)}).number()
    return found


def test_it_is_built_once_for_each_source_and_command(source: Path, built: Path, tmp_path: Path) -> None:
    assert [number(source), number(source), number(source, 7)] == [5, 5, 7]
    assert len(list(built.iterdir())) == 2
    source.write_text("int number(void) { return NUMBER + 1; }\n")
    assert number(source) == 6
    assert len(list(built.iterdir())) == 3


def test_a_library_that_is_there_is_not_built(
    source: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", script_compiler(tmp_path, f'echo >> {tmp_path}/calls; exec cc "$@"'))
    assert [number(source), number(source)] == [5, 5]
    assert (tmp_path / "calls").read_text() == "\n"


def test_processes_at_once_get_the_whole_library(source: Path, built: Path) -> None:
    program = (
        "import sys, pathlib; from bitlane.support.c_library import load_library; sys.stdin.read()\n"
        f"print(load_library([pathlib.Path({str(source)!r})], {{'NUMBER': '5'}}).number())"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()  # all begin
    assert [process.stdout.read() for process in processes if process.stdout is not None] == ["5\n"] * 4
    assert [process.wait() for process in processes] == [0] * 4
    assert len(list(built.iterdir())) == 1  # no halves are left


@pytest.mark.parametrize("damage", ["short", "changed", "empty"])
def test_a_damaged_library_is_built_again(
    source: Path, built: Path, caplog: pytest.LogCaptureFixture, damage: str, seed: int
) -> None:
    load_library([source], {"NUMBER": str(seed)})
    (path,) = built.iterdir()
    whole = path.read_bytes()
    path.unlink()  # the old file stays as it is for this process, which has loaded it
    at = seed % len(whole)
    changed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    path.write_bytes({"short": whole[: len(whole) // 2], "changed": changed, "empty": b""}[damage])
    for _ in range(2):
        load_library([source], {"NUMBER": str(seed)})
    assert [record.getMessage() for record in caplog.records] == [f"note: {path} is damaged; rebuilding it"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo first >&2; echo 'source.c:1: error: no such thing' >&2; exit 3", "with status 3: source.c:1: error: no"),
        ("exit 1", "failed with status 1: no message"),
        ("echo no library > $out", "invalid ELF header|file too short"),
        ("exit 0", r"No such file or directory: '.*library.so'"),
    ],
)
def test_a_broken_compiler(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.setenv("CC", script_compiler(tmp_path, script))
    with pytest.raises(LibraryError, match=reason) as caught:
        number(source)
    assert "\n" not in str(caught.value)


def test_no_compiler(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O1")
    with pytest.raises(LibraryError, match="there is no C compiler no-such-compiler: install one, or set CC"):
        number(source)


def test_a_folder_that_cannot_be_written(source: Path, built: Path) -> None:
    built.parent.write_text("a file where the folder should be")  # permissions do not stop an administrator
    with pytest.raises(
        LibraryError, match=r"native cannot be written \(Not a directory\): set BITLANE_CACHE to a folder that can"
    ):
        number(source)


def test_a_full_folder_keeps_no_part(source: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(LibraryError, match=r"cannot be written \(No space left on device\): set BITLANE_CACHE"):
        number(source)
    assert list(built.iterdir()) == []


@pytest.mark.parametrize(
    ("machine", "text", "flags"),
    [
        ("x86_64", "processor\t: 0\nflags\t\t: fpu sse2 avx avx2 fma\n", ["-mavx2"]),
        ("x86_64", "processor\t: 0\nflags\t\t: fpu sse2 avx\n", []),
        ("x86_64", f"flags\t\t: avx2 {' '.join(AVX512)}\n", [f"-m{each}" for each in AVX512]),
        ("x86_64", f"flags\t\t: avx2 {' '.join(AVX512[1:])}\n", ["-mavx2"]),
        ("armv7l", "model name\t: ARMv7 Processor rev 0\nFeatures\t: half thumb neon vfpv3 \n", ["-mfpu=neon"]),
        ("armv7l", "processor\t: 0\nflags\t\t: fpu sse2 avx avx2 fma\n", []),  # an emulator shows the host's
        ("aarch64", "Features\t: fp asimd\n", []),
        ("x86_64", "", []),
    ],
)
def test_flags_of_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, text: str, flags: list[str]
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(c_library, "CPU_INFO", tmp_path / "cpuinfo")
    assert cpu_flags() == []  # there is no such file
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_flags() == flags


def test_definitions() -> None:
    assert definitions({"A": "1", "B": "2,3"}) == ["-DA=1", "-DB=2,3"]

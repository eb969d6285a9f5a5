"""Compilation is announced once, when it begins."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bitlane.support.compile_notice import CompileNotice

LOG = logging.getLogger("bitlane.test_compile_notice")


def new_loop() -> Callable[[int], int]:
    """A loop that is not compiled yet, and not kept."""
    numba = pytest.importorskip("numba")
    return numba.njit(lambda n: n + 1)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOG.name]


def test_compiling_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    notice = CompileNotice(LOG, "compiling")
    for _ in range(2):
        with notice.watch():
            assert new_loop()(1) == 2
    assert messages(caplog) == ["compiling"]


def test_other_threads_are_watched(caplog: pytest.LogCaptureFixture) -> None:
    loop = new_loop()
    with CompileNotice(LOG, "compiling").watch():
        thread = threading.Thread(target=loop, args=(1,))
        thread.start()
        thread.join()
    assert messages(caplog) == ["compiling"]


def test_a_compiled_loop_is_not_announced(caplog: pytest.LogCaptureFixture) -> None:
    loop = new_loop()
    loop(1)
    with CompileNotice(LOG, "compiling").watch():
        loop(2)
    new_loop()(1)  # outside
    assert messages(caplog) == []


def test_silence(caplog: pytest.LogCaptureFixture) -> None:
    notice = CompileNotice(LOG, "compiling")
    notice.silence()
    with notice.watch():
        new_loop()(1)
    assert messages(caplog) == []


PROGRAM = """
import logging
import numba
from bitlane.support.compile_notice import CompileNotice
logging.basicConfig(level=logging.WARNING, format="%(message)s")

@numba.njit(cache=True)
def loop(n):
    return n + 1

with CompileNotice(logging.getLogger(), "compiling").watch():
    loop(1)
"""


def test_a_loop_from_numbas_cache_is_not_announced(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    (tmp_path / "program.py").write_text(PROGRAM)
    runs = [subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True) for _ in range(2)]
    assert [(run.returncode, run.stderr) for run in runs] == [(0, "compiling\n"), (0, "")]


def test_without_numba_nothing_is_watched(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "numba.core.event", None)
    with CompileNotice(LOG, "compiling").watch():
        pass
    assert messages(caplog) == []

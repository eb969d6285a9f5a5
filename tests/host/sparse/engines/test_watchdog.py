"""The watchdog: when its input ends, Ray's processes with files of the folder die, others live, the folder goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

WAITS = "import sys, time; file = open(sys.argv[1]); print('open', flush=True); time.sleep(600)"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_it_ends_what_the_driver_left(tmp_path: Path) -> None:
    folder, other = tmp_path / "session", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
        (each / "log").touch()
    watchdog = subprocess.Popen(
        [sys.executable, "-m", "bitlane.sparse.engines.watchdog", str(folder)], cwd=ROOT, stdin=subprocess.PIPE
    )
    left, elsewhere, mine = (
        subprocess.Popen([sys.executable, "-c", WAITS, str(path), name], stdout=subprocess.PIPE)
        for path, name in ((folder / "log", "/ray/agent"), (other / "log", "/ray/agent"), (folder / "log", "tail"))
    )
    try:
        for each in (left, elsewhere, mine):
            assert each.stdout is not None and each.stdout.readline() == b"open\n"
        assert watchdog.poll() is None and folder.exists()
        assert watchdog.stdin is not None
        watchdog.stdin.close()
        assert watchdog.wait(30) == 0
        assert left.wait(30) == -9 and elsewhere.poll() is None and mine.poll() is None
        assert not folder.exists() and other.exists()
    finally:
        for each in (watchdog, left, elsewhere, mine):
            each.kill()
            each.wait()

"""A server on a full disk: updates stop, and go on when there is room; a checkpoint fails, and the log stays.

The disk is a small file system in namespaces of the test. Where the system does not allow them, and in a slow test
everywhere, a limit on the size of files stands in for it.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

ALONE = ["unshare", "--map-root-user", "--mount", "bash", "-c"]
SECONDS = 300
ERRORS = {"real": "No space left on device: make room on this disk, then try again", "limit": "File too large"}


@cache
def can_mount() -> bool:
    try:
        subprocess.run([*ALONE, "mount -t tmpfs tmpfs /mnt"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def check(kind: str, folder: Path, seed: int) -> None:
    """Run the scene of `tests.helpers.full_disk`, and compare the errors of the client."""
    command = [sys.executable, "-m", "tests.helpers.full_disk", kind, str(folder), str(seed)]
    if kind == "real":
        command = [*ALONE, f"mount -t tmpfs -o size=4m tmpfs {shlex.quote(str(folder))}; exec {shlex.join(command)}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, third = (line.partition(": ")[2] for line in done.stdout.splitlines())
    epoch = folder / "shard-0-of-1" / "epoch-0000002"  # of the process; in the first one, the training began
    assert (
        first
        == second
        == (
            f"{epoch}/log/000000000001.log cannot be written: {ERRORS[kind]}; "
            "the update is retained: `flush` sends it again"
        )
    )
    assert third == f"{epoch}/checkpoint-0000002 cannot be written: {ERRORS[kind]}; the log remains"


def test_a_full_disk_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    check("real" if can_mount() else "limit", tmp_path, seed)


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    check("limit", tmp_path, seed)

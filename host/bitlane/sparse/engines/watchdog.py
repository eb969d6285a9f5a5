"""A process that cleans up behind Ray, however its driver ends: `python -m bitlane.sparse.engines.watchdog FOLDER`.

Ray ends its processes with the driver, but two of its agents stay for a minute when the driver is killed, and its
temporary folder stays for ever. This process waits until its standard input ends, which it does with the driver. Then
it kills the processes of Ray that still have a file of the folder open, and removes the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

_TRIES, _PAUSE = 20, 0.1  # for processes that start while the driver dies; seconds between two looks


def main() -> None:
    """Wait for the end of the driver, then clean up."""
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    for _ in range(_TRIES):
        processes = users_of(folder)
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        if not processes and not folder.exists():
            return
        time.sleep(_PAUSE)


def users_of(folder: Path) -> list[int]:
    """Return the processes of Ray that have a file below `folder` open; none where there is no /proc."""
    inside = f"{folder}/"
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is of another user
            command = (entry / "cmdline").read_bytes()
            if not (command.startswith(b"ray::") or b"/ray/" in command):
                continue
            links = [os.readlink(each) for each in (entry / "fd").iterdir()]
            if any(link.startswith(inside) for link in links):
                processes.append(int(entry.name))
    return processes


if __name__ == "__main__":
    main()

"""`bitlane sparse train --engine ray` in a process of its own, seen from outside: windows, processes, its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bitlane.errors import BitlaneError

ENDED = 180.0  # seconds that the end may take
_INTERRUPTED = 130


def pairs(options: Mapping[str, object]) -> list[str]:
    """Return options and their values as arguments."""
    return [str(each) for pair in options.items() for each in pair]


class RayTraining:
    """One training, which may be killed and resumed.

    Parameters
    ----------
    run : Path
        Its folder.
    arguments : sequence of str
        Of ``bitlane sparse train``, but for the engine and the folder.
    """

    def __init__(self, run: Path, arguments: Sequence[str]):
        self.run = run
        self._log = run.with_suffix(".log")
        self._start([*arguments, "--engine", "ray", "--out", str(run)])

    def _start(self, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "bitlane.cli", "sparse", "train", *arguments]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def has_ended(self) -> bool:
        """Whether the training is over, and well.

        Raises
        ------
        BitlaneError
            It has failed; with the last line that it wrote.
        """
        status = self._process.poll()
        if status not in (None, 0):
            lines = self._log.read_text().strip().splitlines()
            raise BitlaneError(f"the training ended with status {status}: {lines[-1] if lines else ''}")
        return status == 0

    def windows(self) -> list[dict[str, Any]]:
        """Return the windows of progressive validation so far."""
        path = self.run / "run.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["kind"] == "window"]

    def processes(self, kind: str) -> list[int]:
        """Return the processes of the ``servers`` or the ``workers``, 0 where there is none."""
        try:
            serving = json.loads((self.run / "servers" / "serving.json").read_text())
        except FileNotFoundError:
            return []
        return [int(each["pid"] or 0) for each in serving[kind]]

    def kill_driver(self) -> None:
        """Kill the driver, and resume the training."""
        self._process.kill()
        self._process.wait()
        self._start(["--resume", str(self.run)])

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for the checkpoint."""
        self._process.send_signal(signal.SIGINT)
        if self._process.wait(ENDED) != _INTERRUPTED:
            raise BitlaneError(f"the training ended with status {self._process.returncode} after Ctrl-C")

    def close(self) -> None:
        """End what is left."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

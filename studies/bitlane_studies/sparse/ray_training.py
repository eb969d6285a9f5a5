"""`bitlane sparse train --engine ray` in a process of its own, seen from outside: windows, processes, its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bitlane_studies.sparse.command_process import CommandProcess

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
        started = ["sparse", "train", *arguments, "--engine", "ray", "--out", str(run)]
        self._command = CommandProcess(started, run.with_suffix(".log"))

    @property
    def has_ended(self) -> bool:
        """Whether the training is over, and well; BitlaneError if it has failed."""
        return self._command.has_ended

    def windows(self) -> list[dict[str, Any]]:
        """Return the windows of progressive validation so far."""
        path = self.run / "run.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["kind"] == "window"]

    def processes(self, kind: str) -> list[int]:
        """Return the process numbers of the ``servers`` or the ``workers``; 0 for one that has not started."""
        try:
            serving = json.loads((self.run / "servers" / "serving.json").read_text())
        except FileNotFoundError:
            return []
        return [int(each["pid"] or 0) for each in serving[kind]]

    def kill_driver(self) -> None:
        """Kill the driver, and resume the training."""
        self._command.kill()
        self._command.start(["sparse", "train", "--resume", str(self.run)])

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for the checkpoint."""
        self._command.interrupt(_INTERRUPTED)

    def close(self) -> None:
        """End what is left."""
        self._command.kill()

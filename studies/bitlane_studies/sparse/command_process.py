"""A command of `bitlane` in a process of its own, seen from outside."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bitlane.errors import BitlaneError

ENDED = 180.0  # seconds that the end may take
_POLL = 0.05


class CommandProcess:
    """A running command; what it prints goes to a file.

    Parameters
    ----------
    arguments : sequence of str
        Of ``bitlane``.
    log_path : Path
    """

    def __init__(self, arguments: Sequence[str], log_path: Path):
        self._name, self._log = " ".join(arguments[:2]), log_path
        self.start(arguments)

    def start(self, arguments: Sequence[str]) -> None:
        """Start the command anew, with these arguments; the one before must have ended."""
        with self._log.open("w") as log:
            self._process = subprocess.Popen([sys.executable, "-m", "bitlane.cli", *arguments], stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the command is over, and well.

        Raises
        ------
        BitlaneError
            It has failed; with the last line that it wrote.
        """
        status = self._process.poll()
        if status not in (None, 0):
            lines = self._log.read_text().strip().splitlines()
            raise BitlaneError(f"{self._name} ended with status {status}: {lines[-1] if lines else ''}")
        return status == 0

    def line_with(self, text: str, seconds: float) -> str:
        """Return the first line of the output with this text; wait for it.

        Raises
        ------
        BitlaneError
            The command ends before, or the time is over.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            lines = [line for line in self._log.read_text().splitlines() if text in line]
            if lines:
                return lines[0]
            if self.has_ended:
                break
            time.sleep(_POLL)
        raise BitlaneError(f"{self._name} has not printed {text!r} within {seconds:g} s; its output is in {self._log}")

    def interrupt(self, status: int) -> None:
        """Press Ctrl-C, and wait for the end, which must have this exit status."""
        self._process.send_signal(signal.SIGINT)
        if self._process.wait(ENDED) != status:
            raise BitlaneError(f"{self._name} ended with status {self._process.returncode} after Ctrl-C")

    def kill(self) -> None:
        """End the process without notice, if it runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

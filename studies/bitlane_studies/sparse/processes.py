"""Measured work in separate processes, on chosen cores of the processor."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from bitlane.errors import BitlaneError

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Timing:
    """One measured training.

    Attributes
    ----------
    seconds : float
        From the call to the model, reading included.
    cpu_seconds : float
        Of all threads, system calls included.
    loop_seconds : float, optional
        Of the training loop without reading, by the program's own log.
    waiting : float, optional
        Share of the time in which training waited for the reader.
    """

    seconds: float
    cpu_seconds: float
    loop_seconds: float | None = None
    waiting: float | None = None


def run_program(command: Sequence[str | Path], cores: Sequence[int], folder: Path) -> Timing:
    """Run a program to its end, in `folder`, on `cores`.

    Raises
    ------
    BitlaneError
        The program fails: the message has the end of its output.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = perf_counter()
    _finish(command, cores, folder)
    seconds = perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Timing(seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def run_child(name: str, settings: dict[str, Any], cores: Sequence[int], folder: Path) -> Timing:
    """Run the function `name` of `child` in a new interpreter; it measures itself, without Python's start."""
    command = [sys.executable, "-m", "bitlane_studies.sparse.child", name, json.dumps(settings, default=str)]
    return timing_of(_finish(command, cores, folder))


def timing_of(output: str) -> Timing:
    """Return the timing that a process printed as its last line, a JSON object."""
    return Timing(**json.loads(output.strip().rpartition("\n")[2]))


def run_python(python: str, script: str, arguments: Sequence[str | Path], cores: Sequence[int], folder: Path) -> Timing:
    """Run a script, given as text, by another Python interpreter; it measures itself."""
    return timing_of(_finish([python, "-c", script, *arguments], cores, folder))


def _finish(command: Sequence[str | Path], cores: Sequence[int], folder: Path) -> str:
    """Run a command on `cores` and return its output."""
    environment = os.environ | {name: "1" for name in _ONE_THREAD}
    result = subprocess.run(
        [str(each) for each in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    if result.returncode:
        lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
        raise BitlaneError(f"{Path(str(command[0])).name} failed: {lines[-1] if lines else result.returncode}")
    return result.stdout

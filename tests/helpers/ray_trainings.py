"""Trainings on Ray: their rows as files, their processes, and the same trainings on one model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.places import ROOT
from tests.helpers.sparse_models import planted_rows

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.source import FileSource, open_source

BLOCK_BYTES = 2000  # some dozen rows


def write_rows(path: Path, seed: int, rows: int) -> Path:
    """Write planted rows as libffm, and return the path."""
    batch = planted_rows(seed, rows)
    lines = []
    for row in range(batch.rows):
        places = range(batch.offsets[row], batch.offsets[row + 1])
        features = [f"{batch.fields[at]}:{batch.keys[at]}:{batch.values[at]}" for at in places]
        lines.append(" ".join([f"{batch.labels[row]:g}", *features]))
    path.write_text("\n".join(lines) + "\n")
    return path


@dataclass(frozen=True)
class Shares:
    """The parts of the rows of a file, for any number of workers."""

    path: str
    workers: int

    def __call__(self, index: int, place: Mapping[str, Any]) -> FileSource:
        return open_source(self.path, ReadOptions(share=(index, self.workers), block_bytes=BLOCK_BYTES))

    def batches(self) -> list[Batch]:
        """All rows of each part."""
        return [Batch.concatenate(list(self(index, {}).batches(0))) for index in range(self.workers)]


class TrainingProcess:
    """`bitlane sparse train` in a process of its own; its children can be found."""

    def __init__(self, *arguments: object):
        command = [sys.executable, "-m", "bitlane.cli", "sparse", "train", *map(str, arguments)]
        self.mark = f"BITLANE_TEST_MARK={os.urandom(8).hex()}"
        name, value = self.mark.split("=")
        environment = {**os.environ, name: value}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait_for(self, what: Callable[[], bool], seconds: float = 300) -> None:
        until = time.monotonic() + seconds
        while not what():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until
            time.sleep(0.05)

    def end(self, number: int, seconds: float = 300) -> tuple[int, str, str]:
        """Send a signal; return the exit status, and what it printed."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def family(self) -> list[str]:
        """The processes that it has started, or their children, as far as they run."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()!r}")
            except OSError:
                continue
        return found

    def close(self) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


def serving(run: Path) -> dict[str, Any]:
    """What RUN/servers/serving.json has; nothing before it is written."""
    try:
        return dict(json.loads((run / "servers" / "serving.json").read_text()))
    except FileNotFoundError:
        return {}


def windows(run: Path) -> int:
    """Windows in the log so far."""
    path = run / "run.jsonl"
    return path.read_text().count('"kind": "window"') if path.exists() else 0

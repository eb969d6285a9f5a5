"""Follow a label: load the version that it names, and let it answer; keep the last good one if that fails."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from bitlane.errors import BitlaneError
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.servers.failures import reason_of
from bitlane.sparse.serving.served_model import ServedModel, ServedVersion, schema_of
from bitlane.support.priority import yield_to_others

POLL_SECONDS = 0.5
FIRST_PAUSE = 1.0  # seconds after a version that cannot be loaded; twice as long each time
NOTE_SECONDS = 60.0  # between notes that this service reads a version
LONGEST_PAUSE = 60.0  # seconds until a version that failed is tried again


class VersionSource(Protocol):
    """What is followed: a `bitlane.sparse.registry.registry.ModelRegistry`."""

    def resolve(self, name: str) -> int:
        """Return the version that a label, a number or ``latest`` names."""

    def manifest(self, version: int) -> Any:
        """Return the manifest of a version."""

    def load(self, version: int, *, cache: Path | None = None, after: FrozenModel | None = None) -> FrozenModel:
        """Return a version; of a change of the model `after`, only the change is read."""

    def note_reader(self, reader: str, version: int) -> None:
        """Note that a reader uses a version."""

    def forget_reader(self, reader: str) -> None:
        """Note that a reader has ended."""

    def versions(self) -> Sequence[Any]:
        """Return the manifests of all versions."""

    def labels(self) -> dict[str, int]:
        """Return the versions of all labels."""

    def history(self, name: str) -> Sequence[Any]:
        """Return the moves of a label."""


@dataclass(frozen=True)
class FollowState:
    """What a follower does.

    Attributes
    ----------
    label : str
    target : int or None
        The version that the label named last.
    loading : int or None
        The version that is being loaded.
    problem : str or None
        Why the version of the label does not answer, or why it is not known.
    problem_kind : {"label", "version", "note"} or None
        What the problem is of: the label cannot be read, its version cannot be loaded, or the registry cannot note
        this service.
    """

    label: str
    target: int | None = None
    loading: int | None = None
    problem: str | None = None
    problem_kind: str | None = None


class Follower:
    """Lets a served model answer from the version that a label names. A context manager; a thread looks at the label.

    The version that answered before stays in memory, so that a roll-back is a swap.

    Parameters
    ----------
    source : VersionSource
    label : str
        A label, a version's number, or ``latest``.
    served : ServedModel
    poll : float, default=0.5
        Seconds between looks.
    cache : Path, optional
        A local folder for copies of remote files.

    Attributes
    ----------
    state : FollowState
    reader : str
        The name under which the registry knows this service.
    """

    def __init__(
        self,
        source: VersionSource,
        label: str,
        served: ServedModel,
        *,
        poll: float = POLL_SECONDS,
        cache: Path | None = None,
    ):
        self._source = source
        self._served = served
        self._poll = poll
        self._cache = cache
        host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64]
        self.reader = f"{host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.state = FollowState(label)
        self._loaded: dict[int, ServedVersion] = {}  # that answers, and the one before
        self._pause, self._next_try = FIRST_PAUSE, 0.0
        self._noted = -NOTE_SECONDS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="bitlane-follower", daemon=True)

    def start(self) -> None:
        """Load the first version, and follow the label from then on.

        Raises
        ------
        BitlaneError
            There is no such version, or it cannot be loaded.
        """
        self._turn_to(self._source.resolve(self.state.label))
        self._note()
        self._thread.start()

    def look(self) -> None:
        """Look at the label once; what fails is in `state`."""
        try:
            target = self._source.resolve(self.state.label)
        except Exception as error:
            problem = f"label {self.state.label!r} cannot be read: {_line(error)}"
            self.state = replace(self.state, problem=problem, problem_kind="label")
            return
        if target != self.state.target:
            self._pause, self._next_try = FIRST_PAUSE, 0.0
        self.state = replace(self.state, target=target)
        if target != self._served.version.number:
            if time.monotonic() >= self._next_try:
                self._try(target)
        else:
            self.state = replace(self.state, problem=None, problem_kind=None)
        if time.monotonic() - self._noted >= NOTE_SECONDS:
            self._note()

    def close(self) -> None:
        """Stop to follow. A version that is being loaded is not waited for."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._poll + 1)
        with contextlib.suppress(Exception):  # its note ends with the process
            self._source.forget_reader(self.reader)

    def __enter__(self) -> Follower:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self) -> None:
        yield_to_others()  # requests do not wait for a version that is being loaded
        while not self._stop.wait(self._poll):
            self.look()

    def _try(self, target: int) -> None:
        try:
            self._turn_to(target)
            self._note()
        except Exception as error:
            self._next_try, self._pause = time.monotonic() + self._pause, min(2 * self._pause, LONGEST_PAUSE)
            problem = f"version {target} cannot be loaded: {_line(error)}"
            self.state = replace(self.state, problem=problem, problem_kind="version")
        finally:
            self.state = replace(self.state, loading=None)

    def _turn_to(self, target: int) -> None:
        version = self._loaded.get(target)
        if version is None:
            self.state = replace(self.state, loading=target)
            manifest = self._source.manifest(target)
            self._source.note_reader(self.reader, target)  # so that its files stay until they are read
            after = self._served.version.model if self._served.is_ready else None
            model = self._source.load(target, cache=self._cache, after=after)
            version = ServedVersion(model, schema_of(manifest.description.data), _seconds(manifest.created))
            version.warm_up()
        else:
            version = replace(version, since=time.time())
        before = [self._served.version] if self._served.is_ready else []
        if self._stop.is_set():
            return
        self._served.swap(version)
        self._loaded = {each.number: each for each in (*before, version)}
        self.state = replace(self.state, target=target, loading=None, problem=None, problem_kind=None)

    def _note(self) -> None:
        """Tell the registry which version answers."""
        try:
            self._source.note_reader(self.reader, self._served.version.number)
            self._noted = time.monotonic()
        except Exception as error:
            if self.state.problem is None:
                problem = f"the registry cannot note this service: {_line(error)}"
                self.state = replace(self.state, problem=problem, problem_kind="note")


def _seconds(created: str) -> float:
    return datetime.fromisoformat(created).timestamp()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) if isinstance(error, BitlaneError) else reason_of(error)

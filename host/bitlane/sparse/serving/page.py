"""The page of a service, and the numbers that it shows."""

from __future__ import annotations

import threading
import time
from importlib.resources import files
from typing import Any

from bitlane.reporting.records import plain
from bitlane.sparse.serving.following import Follower, VersionSource
from bitlane.sparse.serving.served_model import ServedModel

_REGISTRY_SECONDS = 5.0  # between looks at the versions
_VERSIONS, _MOVES = 50, 50  # that are shown, the newest


def page_html() -> bytes:
    """Return the page: one file, which asks for nothing but `status`."""
    return files("bitlane.sparse.serving").joinpath("page.html").read_bytes()


class ServiceStatus:
    """What the page shows, as JSON.

    Parameters
    ----------
    served : ServedModel
    follower : Follower
    source : VersionSource
    """

    def __init__(self, served: ServedModel, follower: Follower, source: VersionSource):
        self._served = served
        self._follower = follower
        self._source = source
        self._lock = threading.Lock()
        self._read_at = -_REGISTRY_SECONDS
        self._registry: dict[str, Any] = {}

    def health(self) -> dict[str, Any]:
        """Return whether requests are answered, by which version, and what is wrong."""
        state, served = self._follower.state, self._served
        return {
            "live": True,
            "ready": served.is_ready,
            "model": served.name,
            "version": served.version.number if served.is_ready else None,
            "label": state.label,
            "label_version": state.target,
            "loading": state.loading,
            "problem": state.problem,
        }

    def status(self) -> dict[str, Any]:
        """Return health, counts, versions, labels and their moves; the registry is read every 5 seconds at most."""
        state = {"health": self.health(), "time": time.time(), **self._served.counts.state()}
        state["waiting"] = self._served.limit.count
        if self._served.is_ready:
            state["served_since"] = self._served.version.since
        if self._served.recorder is not None:
            recorder = self._served.recorder
            state["record"] = {
                "requests": recorder.recorded,
                "left_out": recorder.left_out,
                "problem": recorder.problem,
            }
        record: dict[str, Any] = plain({**state, **self._read_registry()})
        return record

    def _read_registry(self) -> dict[str, Any]:
        with self._lock:
            if time.monotonic() - self._read_at >= _REGISTRY_SECONDS:
                try:
                    self._registry = self._summary()
                except Exception as error:
                    self._registry["registry_problem"] = " ".join(str(error).split())
                self._read_at = time.monotonic()
            return dict(self._registry)

    def _summary(self) -> dict[str, Any]:
        versions = [
            {
                **{name: getattr(each, name) for name in ("version", "kind", "parent", "created", "rows")},
                "bytes": each.nbytes,
                "metrics": dict(each.description.metrics),
            }
            for each in list(self._source.versions())[-_VERSIONS:]
        ]
        labels = self._source.labels()
        moves = [
            {"label": label, **{name: getattr(move, name) for name in ("version", "time", "reason")}}
            for label in labels
            for move in self._source.history(label)
        ]
        moves.sort(key=lambda move: str(move["time"]), reverse=True)
        return {"versions": versions[::-1], "labels": labels, "moves": moves[:_MOVES]}

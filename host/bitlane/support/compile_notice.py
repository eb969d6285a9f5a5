"""One log line when numba compiles loops for the first time on a machine, which takes seconds.

Without it the first step of a training looks as if it hangs.
"""

# numba has no types: its events and listeners are Any.
from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

EVENT = "numba:compile"  # numba compiles; loops that come from its cache are none


class CompileNotice:
    """Logs a message, at most once in a process, when numba begins to compile.

    Parameters
    ----------
    logger : Logger
    message : str
    """

    def __init__(self, logger: logging.Logger, message: str):
        self._log, self._message = logger, message
        self._lock = threading.Lock()
        self._silent = False

    def silence(self) -> None:
        """Log nothing in this process."""
        self._silent = True

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watch all threads in this context. Without numba it does nothing."""
        events = None if self._silent else _events()
        if events is None:
            yield
            return
        with events.install_listener(EVENT, _listener(events, self)):
            yield

    def notify(self) -> None:
        """Log the message, if that has not been done yet."""
        with self._lock:
            if not self._silent:
                self._log.warning(self._message)
                self.silence()


def _events() -> Any:
    try:
        return import_module("numba.core.event")
    except ImportError:
        return None


def _listener(events: Any, notice: CompileNotice) -> Any:
    def on_start(_listener: Any, _event: Any) -> None:
        notice.notify()

    def on_end(_listener: Any, _event: Any) -> None:
        return None

    return type("CompileListener", (events.Listener,), {"on_start": on_start, "on_end": on_end})()

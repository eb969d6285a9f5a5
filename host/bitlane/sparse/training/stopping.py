"""Ctrl-C and SIGTERM end a training after the current batch, so that it can write a checkpoint."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """A context in which signals ask for an end, instead of raising an exception at any point of the program.

    A second signal raises KeyboardInterrupt at once. Outside of the main thread signals stay as they are.

    Attributes
    ----------
    asked : bool
        Whether a signal came.
    """

    def __init__(self) -> None:
        self.asked = False
        self._may_interrupt = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a signal end what waits in this context, such as for a stream, by KeyboardInterrupt."""
        self._may_interrupt = True
        try:
            if self.asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._may_interrupt = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked or self._may_interrupt:
            self.asked = True
            raise KeyboardInterrupt
        self.asked = True

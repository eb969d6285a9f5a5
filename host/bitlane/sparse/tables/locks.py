"""A readers-writer lock whose holder may enter again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from bitlane.errors import BitlaneError


class Section:
    """A context manager without state of its own: one object serves all threads, without an allocation per use."""

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]):
        self._enter, self._leave = enter, leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()


class ReadersWriterLock:
    """Many threads share it, or one has it alone. Who waits to have it alone goes before those who come to share.

    A thread that has it alone may also share it, and enter both again. A thread that shares it cannot have it alone
    before it leaves: two that tried would wait for each other.

    Attributes
    ----------
    shared, exclusive : context manager
    """

    def __init__(self) -> None:
        self.shared = Section(self._enter_shared, self._leave_shared)
        self.exclusive = Section(self._enter_exclusive, self._leave_exclusive)
        self._condition = threading.Condition(threading.Lock())
        self._readers = 0  # threads
        self._waiting = 0  # threads that want it alone
        self._owner = 0  # the thread that has it alone
        self._depth = 0  # how often it entered
        self._held = threading.local()

    def _enter_shared(self) -> None:
        held = self._held
        depth = getattr(held, "depth", 0)
        if self._owner == threading.get_ident():
            self._depth += 1
            return
        if depth == 0:
            with self._condition:
                while self._owner or self._waiting:
                    self._condition.wait()
                self._readers += 1
        held.depth = depth + 1

    def _leave_shared(self) -> None:
        if self._owner == threading.get_ident():
            self._leave_exclusive()
            return
        self._held.depth -= 1
        if self._held.depth == 0:
            with self._condition:
                self._readers -= 1
                if self._readers == 0 and self._waiting:
                    self._condition.notify_all()

    def _enter_exclusive(self) -> None:
        me = threading.get_ident()
        if self._owner != me:
            if getattr(self._held, "depth", 0):
                raise BitlaneError(
                    "rows cannot be inserted or removed inside `updating` or `pinned`: do it before or after"
                )
            with self._condition:
                self._waiting += 1
                try:
                    while self._owner or self._readers:
                        self._condition.wait()
                    self._owner = me
                finally:
                    self._waiting -= 1
        self._depth += 1

    def _leave_exclusive(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            with self._condition:
                self._owner = 0
                self._condition.notify_all()

"""One log line when numba compiles the codecs' loops for the first time on a machine, which takes about ten seconds.

Without it the first step of a training looks as if it hangs. Ranks other than 0 call `silence`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

DELAY = 1.0  # seconds; loading loops from numba's cache takes less
MESSAGE = "compiling the gradient codecs with numba: about 10 seconds, once for each machine; later runs use the cache"

_log = logging.getLogger("bitlane.compress")
_lock = threading.Lock()
_compiled: set[int] = set()
_silent = False


def silence() -> None:
    """Log no notice in this process, because another rank does."""
    global _silent
    _silent = True


@contextmanager
def compile_notice(loop: Any) -> Iterator[None]:
    """Log `MESSAGE`, at most once in a process, if the first call of a compiled `loop` takes longer than `DELAY`."""
    if id(loop) in _compiled or _silent:
        yield
        return
    timer = threading.Timer(DELAY, _notify, (loop,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _compiled.add(id(loop))


def _notify(loop: Any) -> None:
    """A loop with signatures is compiled already: then a call is slow because its arrays are large."""
    with _lock:
        if not _silent and not loop.signatures:
            _log.warning(MESSAGE)
            silence()

"""One log line when numba compiles the codecs' loops for the first time on a machine, which takes about ten seconds.

Ranks other than 0 call `silence`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from bitlane.support.compile_notice import CompileNotice
from bitlane.support.jit import Loop

MESSAGE = "compiling the gradient codecs with numba: about 10 seconds, once for each machine; later runs use the cache"

_NOTICE = CompileNotice(logging.getLogger("bitlane.compress"), MESSAGE)
_called: set[int] = set()
silence = _NOTICE.silence


@contextmanager
def compile_notice(loop: Loop) -> Iterator[None]:
    """Log `MESSAGE`, at most once in a process, if the first call of a compiled `loop` compiles it."""
    if id(loop) in _called:
        yield
        return
    with _NOTICE.watch():
        yield
    _called.add(id(loop))

"""Warnings that point to a line of the user's program."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PACKAGE = __name__.partition(".")[0]

_shown: ContextVar[set[str] | None] = ContextVar("shown", default=None)


@contextmanager
def warning_once(shown: set[str]) -> Iterator[None]:
    """Warn of each thing once, whatever its numbers: `shown`, which grows, has what was warned of before."""
    token = _shown.set(shown)
    try:
        yield
    finally:
        _shown.reset(token)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this package that led to the call.

    Python shows a warning once for each such line.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type of Warning, default=UserWarning
    """
    if (shown := _shown.get()) is not None:
        kind = re.sub(r"\d+", "0", message)
        if kind in shown:
            return
        shown.add(kind)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(PACKAGE + ".")

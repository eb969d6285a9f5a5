"""Warnings that point to a line of the user's program."""

from __future__ import annotations

import sys
import warnings

PACKAGE = __name__.partition(".")[0]


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this package that led to the call.

    Python shows a warning once for each such line.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type of Warning, default=UserWarning
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(PACKAGE + ".")

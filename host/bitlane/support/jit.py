"""Loops that numba compiles if it is installed, and that Python runs otherwise: one source, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from typing import Any

import numpy as np

Loop = Callable[..., Any]


@cache
def numba() -> Any:
    """Return the numba module, or None if it is not installed."""
    try:
        return import_module("numba")
    except ImportError:
        return None


def machine_code(loop: Loop, **options: bool | str | set[str]) -> Loop:
    """Return `loop`, which numba compiles in the first call and keeps on disk.

    Parameters
    ----------
    loop : callable
    **options
        Those of `numba.njit`.
    """
    function: Loop
    try:
        function = numba().njit(cache=True, **options)(loop)
    except RuntimeError:  # no folder to keep it in
        function = numba().njit(**options)(loop)
    return function


def compiled(loop: Loop) -> Loop:
    """Return `loop`, compiled in the first call and stored on disk; without numba, run on lists, which Python indexes
    fastest.

    The loop takes arrays and numbers, writes its results into the arrays, and returns numbers or nothing. It uses no
    operation that machine code and Python round differently: both give the same bits.
    """

    @cache
    def function() -> Loop:
        return machine_code(loop)

    @wraps(loop)
    def call(*arguments: Any) -> Any:
        if numba() is not None:
            return function()(*arguments)
        lists = [each.tolist() if isinstance(each, np.ndarray) else each for each in arguments]
        result = loop(*lists)
        for array, values in zip(arguments, lists, strict=True):
            if isinstance(array, np.ndarray) and array.flags.writeable:
                array[...] = values
        return result

    return call

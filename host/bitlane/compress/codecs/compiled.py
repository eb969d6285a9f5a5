"""Whether the codecs' compiled loops can be had."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ... import jit


def kernels() -> Any:
    """The module `kernels`, or None where numba is not installed; they write words of a little-endian machine."""
    if jit.numba() is None or sys.byteorder != "little":
        return None
    return import_module(".kernels", __package__)

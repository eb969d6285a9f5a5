"""How the kernels of sparse models are compiled."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

from bitlane.support.jit import Loop, machine_code

inner: Callable[[Loop], Loop] = numba.njit(forceinline=True)  # what kernels call


def kernel(*uses: ModuleType) -> Callable[[Loop], Loop]:
    """Decorate a kernel: machine code that is kept on disk and runs without the interpreter's lock.

    Parameters
    ----------
    *uses : modules
        Whose inner functions the kernel calls. Numba compiles anew only if the kernel's own file has changed, so the
        kernel's name on the disk depends on the source of these.
    """

    def compiled(loop: Loop) -> Any:
        source = b"".join(Path(module.__file__ or "").read_bytes() for module in uses)
        loop.__qualname__ += f"_{zlib.crc32(source):08x}"
        return machine_code(loop, nogil=True)

    return compiled

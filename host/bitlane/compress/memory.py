"""The memory of a compressor: what it keeps between steps, and the peak of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
from torch import Tensor

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # to RESET, since Linux 4.0
M_MMAP_THRESHOLD, SMALL = -3, 1 << 16  # of malloc.h: blocks of this size or more are not kept


def state_bytes(owner: object) -> int:
    """Return the bytes of all tensors and arrays that an object holds, also in its attributes; each memory once."""
    sizes: dict[int, int] = {}  # by address
    seen: set[int] = set()
    waiting: list[object] = [owner]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Tensor):
            storage = each.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes()
        elif isinstance(each, np.ndarray):
            sizes[each.ctypes.data] = max(each.nbytes, sizes.get(each.ctypes.data, 0))
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list | tuple):
            waiting.extend(each)
        elif type(each).__module__.startswith("bitlane.compress"):
            waiting.extend(vars(each).values())
    return sum(sizes.values())


def resident_bytes(name: str) -> int:
    """Return a number of bytes of this process from Linux's status file: VmRSS is in memory now, VmHWM at most."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def return_freed_memory() -> None:
    """Let this process give memory back to the system when it frees it, so that peaks are exact; it becomes slower."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, SMALL)


class PeakMemory:
    """Measure the peak of this process's resident memory over that at the begin.

    Call `return_freed_memory` at the begin of the process: memory that it keeps for itself is not counted.

    Examples
    --------
    >>> from bitlane.compress.memory import PeakMemory
    >>> peak = PeakMemory()
    >>> block = bytearray(100_000_000)
    >>> peak.bytes is None or 90_000_000 < peak.bytes < 150_000_000
    True
    """

    def __init__(self) -> None:
        self._before: int | None = None
        with suppress(OSError, StopIteration, AttributeError):  # a system that is not Linux with glibc, or forbids it
            ctypes.CDLL(None).malloc_trim(0)
            RESET.write_text(RESET_PEAK)
            self._before = resident_bytes("VmRSS")

    @property
    def bytes(self) -> int | None:
        """Bytes until now; None if the system does not report them."""
        return None if self._before is None else max(0, resident_bytes("VmHWM") - self._before)

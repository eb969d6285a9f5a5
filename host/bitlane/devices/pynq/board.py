"""Accelerators on PYNQ boards: on the board itself, or from another machine over the network."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.registers import CONTROL_ABORT, CONTROL_START, REGISTERS, STATUS_BUSY, VLNV
from bitlane.errors import DeviceError
from bitlane.overlays import overlay_for

from ..protocol import Buffer
from .errors import telling

INSTALL = "pip install 'bitlane[pynq-z7]' (PYNQ-Z1, PYNQ-Z2) or 'bitlane[pynq-zu]' (Zynq UltraScale+)"
CONTROL, STATUS = (REGISTERS[name].offset for name in ("control", "status"))
ABORT_SECONDS = 1.0  # that an accelerator may take to end its bursts
SPARE_BYTES = 8 << 20  # of the memory for buffers that is left to others
DEFAULT_CAPACITY = 96 << 20  # where nothing says how much of it is free: PYNQ reserves 128 MiB


class BoardBuffer:
    """A buffer of physically contiguous memory. The array must not be used after `free`.

    Members
    -------
    array: (words,) uint64, the processor's side.
    device_address: of its first word, in bytes.
    """

    def __init__(self, owner: BoardDevice, memory: Any):
        self._owner = owner
        self.memory = memory
        self.array: NDArray[np.uint64] = np.asarray(memory)
        self.device_address = int(memory.device_address)

    def free(self) -> None:
        """Gives the memory back; a second time does nothing. Where the board does not answer, once it does again."""
        if self.memory is not None:
            memory, self.memory = self.memory, None
            self._owner.give_back(memory)


class BoardDevice:
    """An accelerator in an overlay that pynq has loaded.

    Parameters
    ----------
    ip: pynq's driver of it, such as `pynq.Overlay("bitlane.bit").bitlane_0`.
    capacity_bytes: that buffers may take; None for what the board says is free.

    Every method raises DeviceError, which says what failed, where pynq or the network raises anything.
    """

    def __init__(self, ip: Any, capacity_bytes: int | None = None):
        self._ip = ip
        self._board = ip.device
        self._owed: list[Callable[[], None]] = []  # what a board that did not answer has not been told yet
        facts = ip.parameters
        self.name = f"pynq ({facts['BOARD']})"
        self._hertz = float(facts["CLOCK_MHZ"]) * 1e6
        self._irq = None if self._board.has_capability("REMOTE") else getattr(ip, "irq", None)
        self._started = 0.0
        self._loop = asyncio.new_event_loop()  # for good: pynq's events belong to the loop that first waits for them
        self.capacity_bytes = capacity_bytes or _free_bytes(self._board)

    # --- registers
    def read(self, offset: int) -> int:
        """The 32-bit register at a byte offset."""
        self._settle()
        with self._telling(f"reading the register at {offset:#05x}"):
            return int(self._ip.mmio.read(offset)) & 0xFFFF_FFFF  # pynq.remote gives signed numbers

    def write(self, offset: int, value: int) -> None:
        """Writes the 32-bit register at a byte offset. An abort that is not heard is said again, before all else."""
        if offset == CONTROL and value & CONTROL_ABORT:
            self._owed.append(self._abort)
        self._settle()
        with self._telling(f"writing the register at {offset:#05x}"):
            self._ip.mmio.write(offset, int(value))
        if offset == CONTROL and value & CONTROL_START:
            self._started = time.monotonic()

    # --- memory
    def allocate(self, nbytes: int) -> BoardBuffer:
        """A buffer of at least `nbytes` bytes, whole words; DeviceError where there is no room."""
        self._settle()
        with self._telling(f"taking {nbytes} bytes of contiguous memory (CMA)"):
            return BoardBuffer(self, self._board.allocate((max(1, -(-nbytes // WORD_BYTES)),), np.dtype(np.uint64)))

    def give_back(self, memory: Any) -> None:
        """What `BoardBuffer.free` does."""

        def free() -> None:
            memory.freed = False  # pynq takes it for freed even where that failed
            memory.freebuffer()

        answers = not self._owed
        self._owed.append(free)
        if answers:
            with suppress(DeviceError):
                self._settle()

    def flush(self, buffer: Buffer) -> None:
        """Makes what the host wrote visible to the accelerator; always the whole buffer."""
        with self._telling("flushing a buffer"):
            self._memory(buffer).flush()

    def invalidate(self, buffer: Buffer) -> None:
        """Makes what the accelerator wrote visible to the host; always the whole buffer."""
        with self._telling("invalidating a buffer"):
            self._memory(buffer).invalidate()

    # --- time
    def wait(self, cycles: int) -> None:
        """Sleeps until so many clock cycles after the start, or until the interrupt where the overlay has one."""
        seconds = max(0.0, self._started + cycles / self._hertz - time.monotonic())
        if self._irq is None:
            time.sleep(seconds)
            return
        # A notebook has an event loop of its own running, in which no other can: hence the thread.
        with ThreadPoolExecutor(1) as pool, suppress(asyncio.TimeoutError):
            pool.submit(self._loop.run_until_complete, asyncio.wait_for(self._irq.wait(), seconds)).result()

    def close(self) -> None:
        """Ends the waiting for interrupts; the overlay stays loaded, and buffers are the driver's to free."""
        self._loop.close()

    def _settle(self) -> None:
        """Does what is owed, in order; what fails, and all that is behind it, stays owed."""
        while self._owed:
            with self._telling("cleaning up"):
                self._owed[0]()
            del self._owed[0]

    def _abort(self) -> None:
        """Ends a run, if one goes on, and waits until it has ended."""
        mmio, end = self._ip.mmio, time.monotonic() + ABORT_SECONDS
        mmio.write(CONTROL, CONTROL_ABORT)
        while int(mmio.read(STATUS)) & STATUS_BUSY and time.monotonic() < end:
            pass

    def _memory(self, buffer: Buffer) -> Any:
        if not isinstance(buffer, BoardBuffer) or buffer.memory is None:
            raise DeviceError(f"the buffer at {buffer.device_address:#x} has been freed, or is another device's")
        return buffer.memory

    @contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        with telling(self.name, doing):
            yield


def _free_bytes(board: Any) -> int:
    """What buffers may take: the kernel's free contiguous memory, less some for others."""
    with telling("pynq", "asking for the free memory"):
        if board.has_capability("REMOTE"):
            known = board.exists_file("/proc/meminfo").exists
            text = board.read_file("/proc/meminfo").decode() if known else ""
        else:
            text = Path("/proc/meminfo").read_text()
    found = re.search(r"^CmaFree:\s*(\d+) kB", text, re.MULTILINE)
    free = int(found[1]) * 1024 - SPARE_BYTES if found else 0
    return free if free > 0 else DEFAULT_CAPACITY


def open_board(address: str = "", bitfile: str | Path | None = None, capacity_bytes: int | None = None) -> BoardDevice:
    """Loads the overlay and returns its accelerator.

    Parameters
    ----------
    address: host or host:port of a board that runs PYNQ.remote; empty on the board itself.
    bitfile: a .bit with its .hwh beside it; None for the one that this package has for the board.
    capacity_bytes: as for `BoardDevice`.

    Raises
    ------
    DeviceError: pynq is not installed, no board is found, it does not answer, there is no overlay for it, or the
        overlay is for another board, another version or another build than its .hwh says.
    """
    try:
        import pynq
    except ImportError as error:
        raise DeviceError(f"boards need pynq: {INSTALL} ({error})") from error
    if address:
        from .remote import connect

        board = connect(address)
    else:
        board = _active(pynq)
    path = Path(bitfile) if bitfile is not None else overlay_for(board.name)
    for file in (path, path.with_suffix(".hwh")):
        if not file.is_file():
            raise DeviceError(f"{file} is missing: a bitstream is a .bit with its .hwh beside it, of the same name")
    with telling(f"pynq ({board.name})", f"loading {path.name}"):
        overlay = pynq.Overlay(str(path.resolve()), device=board, download=False)
        name = _accelerator(overlay.ip_dict, path, board)
        overlay.download()
        return BoardDevice(getattr(overlay, name), capacity_bytes)


def _active(pynq: Any) -> Any:
    with telling("pynq", "looking for a board"):
        if not pynq.Device.devices and not hasattr(pynq.Device, "_active_device"):
            raise DeviceError("there is no PYNQ board here; one on the network is device='pynq://HOST'")
        return pynq.Device.active_device


def _accelerator(found: dict[str, Any], path: Path, board: Any) -> str:
    """The name of the accelerator among an overlay's IP; DeviceError for an overlay that this board must not load."""
    from .ip import check_board

    library = VLNV.rpartition(":")[0]
    types = {name: str(each["type"]) for name, each in found.items()}
    names = [name for name, kind in types.items() if kind.startswith(library + ":")]
    if not names:
        raise DeviceError(f"{path.name} is no bitlane overlay: it holds {', '.join(types) or 'nothing'}")
    if types[names[0]] != VLNV:
        raise DeviceError(
            f"{path.name} holds {types[names[0]]}, but this driver needs {VLNV}: take both from one release"
        )
    check_board(found[names[0]]["parameters"], board)
    return names[0]

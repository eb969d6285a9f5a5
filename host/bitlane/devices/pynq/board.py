"""Accelerators on PYNQ boards, from the board itself or over the network."""

# pynq has no types: its objects and messages are Any.
from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.registers import CONTROL_ABORT, CONTROL_START, REGISTERS, VLNV
from bitlane.devices.single import SingleDevice
from bitlane.errors import DeviceError
from bitlane.overlays import no_overlay, overlay_for, overlays, this_board
from bitlane.support.optional import is_installed

from ..protocol import Buffer
from .diagnosis import XRT, check_root, no_device, no_pynq, not_a_board
from .errors import wrap_errors

SAME_BUILD = "use a .bit and its .hwh from the same build"
MORE_CMA = (
    "end other programs and notebooks that use the board, or reserve more memory for buffers with the kernel's boot "
    "argument cma=, such as cma=256M"
)
CONTROL = REGISTERS["control"].offset
SPARE_BYTES = 8 << 20  # of the memory for buffers that is left to other programs
DEFAULT_CAPACITY = 96 << 20  # if the free memory is unknown: PYNQ reserves 128 MiB


class BoardBuffer:
    """A buffer of physically contiguous memory. The array must not be used after `free`.

    Attributes
    ----------
    array : ndarray of uint64, shape (words,)
        The copy of the processor.
    device_address : int
        Address of the first word, in bytes.
    """

    def __init__(self, owner: BoardDevice, memory: Any):
        self._owner = owner
        self.memory = memory
        self.array: NDArray[np.uint64] = np.asarray(memory)
        self.device_address = int(memory.device_address)

    def free(self) -> None:
        """Free the memory; if the board does not answer, as soon as it answers again. A second call does nothing."""
        if self.memory is not None:
            memory, self.memory = self.memory, None
            self._owner.give_back(memory)


class BoardDevice(SingleDevice):
    """An accelerator in an overlay that pynq has loaded.

    Every method raises DeviceError, which names the action, if pynq or the network raises any exception.

    Parameters
    ----------
    ip : pynq.DefaultIP
        Its driver in pynq, such as ``pynq.Overlay("bitlane.bit").bitlane_0``.
    capacity_bytes : int, optional
        Bytes that buffers may take; None for the free memory of the board.
    """

    def __init__(self, ip: Any, capacity_bytes: int | None = None):
        self._ip = ip
        self._board = ip.device
        self._deferred: list[Callable[[], None]] = []  # clean-up actions that a board did not answer
        facts = ip.parameters
        self.name = f"pynq ({facts['BOARD']})"
        self._hertz = float(facts["CLOCK_MHZ"]) * 1e6
        self._irq = None if self._board.has_capability("REMOTE") else getattr(ip, "irq", None)
        self._started = 0.0
        self._loop = asyncio.new_event_loop()  # stored: an event of pynq belongs to the loop that first waits for it
        self.capacity_bytes = capacity_bytes or _free_bytes(self._board)

    # --- registers
    def read(self, offset: int) -> int:
        """Return the 32-bit register at a byte offset."""
        self._flush_deferred()
        with self._wrap_errors(f"reading the register at {offset:#05x}"):
            return int(self._ip.mmio.read(offset)) & 0xFFFF_FFFF  # pynq.remote returns signed numbers

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset. An abort without an answer is repeated before the next access."""
        if offset == CONTROL and value & CONTROL_ABORT:
            self._deferred.append(self._abort)
        self._flush_deferred()
        with self._wrap_errors(f"writing the register at {offset:#05x}"):
            self._ip.mmio.write(offset, int(value))
        if offset == CONTROL and value & CONTROL_START:
            self._started = time.monotonic()

    # --- memory
    def allocate(self, nbytes: int, port: int = 0) -> BoardBuffer:
        """Return a buffer of at least `nbytes` bytes, in complete words. Raise DeviceError if there is no room.

        All ports reach one memory.
        """
        self._flush_deferred()
        with self._wrap_errors(f"taking {nbytes} bytes of contiguous memory (CMA)", MORE_CMA):
            return BoardBuffer(self, self._board.allocate((max(1, -(-nbytes // WORD_BYTES)),), np.dtype(np.uint64)))

    def give_back(self, memory: Any) -> None:
        """Free the memory of a buffer; see `BoardBuffer.free`."""

        def free() -> None:
            memory.freed = False  # pynq marks it as freed even if that failed
            memory.freebuffer()

        answers = not self._deferred
        self._deferred.append(free)
        if answers:
            with suppress(DeviceError):
                self._flush_deferred()

    def flush(self, buffer: Buffer) -> None:
        """Copy the words of the processor to memory; always the complete buffer."""
        with self._wrap_errors("flushing a buffer"):
            self._memory(buffer).flush()

    def invalidate(self, buffer: Buffer) -> None:
        """Drop the cached words of a buffer, so that the processor reads those of the accelerator."""
        with self._wrap_errors("invalidating a buffer"):
            self._memory(buffer).invalidate()

    # --- time
    def wait(self, cycles: int) -> None:
        """Sleep until this many clock cycles after the start, or until the interrupt if the overlay has one."""
        seconds = max(0.0, self._started + cycles / self._hertz - time.monotonic())
        if self._irq is None:
            time.sleep(seconds)
            return
        # A notebook runs an event loop, inside which no other loop can run: hence the thread.
        with ThreadPoolExecutor(1) as pool, suppress(asyncio.TimeoutError):
            pool.submit(self._loop.run_until_complete, asyncio.wait_for(self._irq.wait(), seconds)).result()

    def close(self) -> None:
        """Close the event loop. The overlay stays loaded, and the driver frees its buffers."""
        self._loop.close()

    def _flush_deferred(self) -> None:
        """Run the deferred clean-up actions in order. Stop at the first failure; keep it and the rest queued."""
        while self._deferred:
            with self._wrap_errors("cleaning up"):
                self._deferred[0]()
            del self._deferred[0]

    def _abort(self) -> None:
        """Abort a run in progress, and wait until it has ended."""
        from .earlier_run import abort

        abort(self._ip.mmio)

    def _memory(self, buffer: Buffer) -> Any:
        if not isinstance(buffer, BoardBuffer) or buffer.memory is None:
            raise DeviceError(f"the buffer at {buffer.device_address:#x} has been freed, or is another device's")
        return buffer.memory

    @contextmanager
    def _wrap_errors(self, doing: str, remedy: str = "") -> Iterator[None]:
        with wrap_errors(self.name, doing, remedy):
            yield


def _free_bytes(board: Any) -> int:
    """Return the free contiguous memory of the kernel, less a reserve for other programs."""
    with wrap_errors("pynq", "reading the free memory"):
        if board.has_capability("REMOTE"):
            known = board.exists_file("/proc/meminfo").exists
            text = board.read_file("/proc/meminfo").decode() if known else ""
        else:
            text = Path("/proc/meminfo").read_text()
    match = re.search(r"^CmaFree:\s*(\d+) kB", text, re.MULTILINE)
    free = int(match[1]) * 1024 - SPARE_BYTES if match else 0
    return free if free > 0 else DEFAULT_CAPACITY


def open_board(address: str = "", bitfile: str | Path | None = None, capacity_bytes: int | None = None) -> BoardDevice:
    """Load the overlay and return its accelerator.

    Parameters
    ----------
    address : str, default=""
        ``"HOST"`` or ``"HOST:PORT"`` of a board that runs PYNQ.remote; empty on the board itself.
    bitfile : str or Path, optional
        A .bit with its .hwh next to it; None for the one in this package.
    capacity_bytes : int, optional
        As for `BoardDevice`.

    Raises
    ------
    DeviceError
        pynq is not installed, no board is found, the board does not answer, there is no overlay for it, or the overlay
        belongs to another board, another version or another build than its .hwh.
    """
    pynq = _imported(address)
    board = _on_the_network(address) if address else _active(pynq)
    from .earlier_run import end_earlier_run
    from .memory_ports import set_width

    path = Path(bitfile) if bitfile is not None else overlay_for(board.name)
    _check_files(path)
    name = f"pynq ({board.name})"
    with wrap_errors(name, f"reading {path.stem}.hwh", SAME_BUILD):
        overlay = pynq.Overlay(str(path.resolve()), device=board, download=False)
        ip_name = _accelerator(overlay.ip_dict, path, board)
    with wrap_errors(name, f"loading {path.name}"):
        end_earlier_run(board)
        overlay.download()
        set_width(overlay.ip_dict[overlay.parser.ps_name]["parameters"], board)
        return BoardDevice(getattr(overlay, ip_name), capacity_bytes)


def _imported(address: str) -> Any:
    """Return pynq. An image has its own version, 3.0 or later, and none of the extras."""
    with wrap_errors("pynq", "its import"):
        try:
            import pynq
        except ImportError as error:
            raise no_pynq(address, error) from error
        return pynq


def missing() -> str:
    """Return why `open_board` cannot load an overlay on this machine, or "", without importing pynq.

    Raises
    ------
    DeviceError
        The reason is that this program does not run as root.
    """
    if (here := this_board()) is None:
        return str(not_a_board())
    if not is_installed("pynq"):
        return str(no_pynq("", ImportError("it is not installed")))
    check_root()
    if not os.environ.get(XRT):
        return str(no_device())
    return "" if here in overlays() else no_overlay(here)


def _active(pynq: Any) -> Any:
    with wrap_errors("pynq", "looking for a board"):
        if not pynq.Device.devices and not hasattr(pynq.Device, "_active_device"):
            raise no_device()
        check_root()
        return pynq.Device.active_device


def _on_the_network(address: str) -> Any:
    with wrap_errors("pynq", "importing its client of boards on the network", "it needs pynq 3.1 or later"):
        from .remote import connect
    return connect(address)


def _check_files(bit: Path) -> None:
    """Raise DeviceError if a bitstream or its handoff is missing or damaged."""
    handoff = bit.with_suffix(".hwh")
    for file in (bit, handoff):
        if not file.is_file():
            raise DeviceError(f"{file} is missing: a bitstream is a .bit and a .hwh of the same name")
    try:
        ElementTree.parse(handoff)
    except ElementTree.ParseError as error:
        raise DeviceError(f"{handoff} is damaged ({error}): copy the .bit and its .hwh again") from error


def _accelerator(blocks: dict[str, Any], path: Path, board: Any) -> str:
    """Return the name of the accelerator in an overlay. Raise DeviceError if this board must not load the overlay."""
    from .ip import check_board

    library = VLNV.rpartition(":")[0]
    types = {name: str(each["type"]) for name, each in blocks.items()}
    names = [name for name, kind in types.items() if kind.startswith(library + ":")]
    if not names:
        raise DeviceError(f"{path.name} is not a bitlane overlay: it contains {', '.join(types) or 'nothing'}")
    if types[names[0]] != VLNV:
        raise DeviceError(
            f"{path.name} contains {types[names[0]]}, but this driver needs {VLNV}: use both from the same release"
        )
    check_board(blocks[names[0]]["parameters"], board)
    return names[0]

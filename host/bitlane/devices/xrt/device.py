"""A card behind XRT as a device: registers through `xrt::ip`, and buffers of each port in the memory of that port."""

from __future__ import annotations

import ctypes
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ENCODE,
    CONTROL_START,
    IDENTITY,
    PORT_ADDRESSES,
    REGISTERS,
    STATUS_BUSY,
    VERSION,
    of_port,
)
from bitlane.devices.single import SingleDevice
from bitlane.errors import DataError, DeviceError
from bitlane.support.memory import machine_memory

from ..protocol import Buffer
from .library import Library, load

PAGE = 4096
ABORT_SECONDS = 1.0  # that an accelerator may take to end its bursts
SPEC = re.compile(r"(?P<file>.+\.xclbin)(?:@(?P<card>[0-9a-fA-F:.]+))?")
COMPARED = ("build", "port_bits", "outputs", "shards", "ports")
WITHOUT_OPTION = ("shards", "ports")  # they read as 0 for 1


class CardBuffer:
    """A buffer with a copy on the host and one on the card. The array must not be used after `free`.

    Attributes
    ----------
    array : ndarray of uint64, shape (words,)
        The copy of the host.
    device_address : int
        Address of the first word on the card, in bytes.
    """

    def __init__(self, library: Library, handle: int, array: NDArray[np.uint64], address: int):
        self._library = library
        self.handle: int | None = handle
        self.array = array
        self.device_address = address

    def free(self) -> None:
        """Free the memory. A second call does nothing."""
        if self.handle is not None:
            handle, self.handle = self.handle, None
            self._library.release("free", handle)


class CardDevice(SingleDevice):
    """An accelerator on a card. Open it with `open_card`.

    Every method raises DeviceError, which names the action, if XRT raises an exception.

    Parameters
    ----------
    library : Library
        XRT.
    handle : int
        The open card.
    facts : dict
        The facts of the build, from the file beside the .xclbin.
    """

    def __init__(self, library: Library, handle: int, facts: dict[str, Any]):
        self._library = library
        self._handle: int | None = handle
        self._hertz = float(facts["clock_mhz"]) * 1e6
        self._started = 0.0
        self.name = f"xrt ({facts['card']})"
        self._banks: list[int] = []
        sizes: list[int] = []
        for port in range(int(facts["ports"])):
            index, size = self._bank(of_port(PORT_ADDRESSES[0], port))
            self._banks.append(index)
            sizes.append(size)
        parts = [size // self._banks.count(bank) for bank, size in zip(self._banks, sizes, strict=True)]
        self.capacity_bytes = min(len(parts) * min(parts), machine_memory() // 2)

    # --- registers
    def read(self, offset: int) -> int:
        """Return the 32-bit register at a byte offset."""
        value = ctypes.c_uint32()
        with self._action(f"the register at {offset:#05x}"):
            self._library.call("read", self._open(), offset, ctypes.byref(value))
        return value.value

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset."""
        with self._action(f"the register at {offset:#05x}"):
            self._library.call("write", self._open(), offset, int(value))
        if offset == REGISTERS["control"].offset and value & (CONTROL_START | CONTROL_ENCODE):
            self._started = time.monotonic()

    # --- memory
    def allocate(self, nbytes: int, port: int = 0) -> CardBuffer:
        """Return a buffer of at least `nbytes` bytes in the memory of a port. Raise DeviceError if there is no room."""
        size = max(1, -(-nbytes // PAGE)) * PAGE
        address, host = ctypes.c_uint64(), ctypes.c_void_p()
        with self._action(f"{nbytes} bytes of memory {self._banks[port]}, of port {port}"):
            handle = self._library.call(
                "allocate", self._open(), size, self._banks[port], ctypes.byref(address), ctypes.byref(host)
            )
        words = max(1, -(-nbytes // np.dtype(np.uint64).itemsize))
        array = np.ctypeslib.as_array((ctypes.c_uint64 * words).from_address(host.value or 0))
        return CardBuffer(self._library, handle, array, address.value)

    def flush(self, buffer: Buffer) -> None:
        """Copy the words of the host to the card; always the complete buffer."""
        self._sync(buffer, True)

    def invalidate(self, buffer: Buffer) -> None:
        """Copy the words of the card to the host; always the complete buffer."""
        self._sync(buffer, False)

    # --- time
    def wait(self, cycles: int) -> None:
        """Sleep until this many clock cycles after the start, at the clock that the build asked for."""
        time.sleep(max(0.0, self._started + cycles / self._hertz - time.monotonic()))

    def close(self) -> None:
        """Close the card. The .xclbin stays loaded, and the driver frees its buffers."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._library.release("close", handle)

    def end_earlier_run(self) -> None:
        """Abort the run of a process that was killed: XRT gives a kernel to one process only.

        Raises
        ------
        DeviceError
            The run does not end.
        """
        status = REGISTERS["status"].offset
        if not self.read(status) & STATUS_BUSY:
            return
        self.write(REGISTERS["control"].offset, CONTROL_ABORT)
        end = time.monotonic() + ABORT_SECONDS
        while self.read(status) & STATUS_BUSY:
            if time.monotonic() > end:
                raise DeviceError(
                    f"{self.name}: the run of another process does not end: reset the card (xbutil reset)"
                )

    def _open(self) -> int:
        if self._handle is None:
            raise DeviceError("the card has been closed")
        return self._handle

    def _bank(self, argument: str) -> tuple[int, int]:
        """The index and the bytes of the memory that an argument of the kernel is linked to."""
        index, size = ctypes.c_int32(), ctypes.c_uint64()
        with self._action("the memories"):
            self._library.call("bank", self._open(), argument.encode(), ctypes.byref(index), ctypes.byref(size))
            if not size.value:
                raise DeviceError(f"the kernel has no memory for {argument}: link it with the link.cfg of its export")
        return index.value, size.value

    def _sync(self, buffer: Buffer, to_card: bool) -> None:
        if not isinstance(buffer, CardBuffer) or buffer.handle is None:
            raise DeviceError(f"the buffer at {buffer.device_address:#x} has been freed, or is another device's")
        with self._action("a buffer"):
            self._library.call("sync", buffer.handle, to_card)

    @contextmanager
    def _action(self, what: str) -> Iterator[None]:
        """Name the device and the object in a DeviceError of the body."""
        try:
            yield
        except DeviceError as error:
            raise DeviceError(f"{self.name}, {what}: {error}") from None


def open_card(address: str) -> CardDevice:
    """Load an .xclbin into a card and return its accelerator.

    Parameters
    ----------
    address : str
        ``"FILE.xclbin"`` for the first card, ``"FILE.xclbin@CARD"`` for another: its number, or its address on the PCI
        bus. The facts of the build lie beside the file, in ``FILE.json``.

    Raises
    ------
    DataError
        The address has another form.
    DeviceError
        XRT or a file is missing, the card cannot be opened or loaded, or the .xclbin is of another build.
    """
    match = SPEC.fullmatch(address)
    if match is None:
        raise DataError(f"device='xrt://{address}': name a file FILE.xclbin, or FILE.xclbin@CARD for another card")
    path, card = Path(match["file"]), match["card"] or "0"
    facts = _facts(path)
    library = load()
    try:
        handle = library.call("open", str(path).encode(), card.encode(), str(facts["kernel"]).encode())
    except DeviceError as error:
        raise DeviceError(f"xrt card {card}, {path.name}: {error}") from None
    device: CardDevice | None = None
    try:
        device = CardDevice(library, handle, facts)
        _check_build(device, facts, path)
        device.end_earlier_run()
    except BaseException:
        library.release("close", handle)
        raise
    return device


def _facts(path: Path) -> dict[str, Any]:
    """Return the facts of a build. Raise DeviceError if a file is missing or damaged, or of another release."""
    beside = path.with_suffix(".json")
    for file in (path, beside):
        if not file.is_file():
            raise DeviceError(f"{file} is missing: a build for a card is a .xclbin and a .json of the same name")
    try:
        facts: dict[str, Any] = json.loads(beside.read_text())
        lacking = [name for name in ("kernel", "card", "clock_mhz", "version", *COMPARED) if name not in facts]
    except (ValueError, TypeError) as error:
        raise DeviceError(f"{beside} is damaged ({error}): copy the .xclbin and its .json again") from error
    if lacking:
        raise DeviceError(f"{beside} lacks {', '.join(lacking)}: use the one that the export wrote")
    if facts["version"] != VERSION:
        raise DeviceError(
            f"{beside} is of register map {facts['version']:#x}, but this driver needs {VERSION:#x}: "
            "use both from the same release"
        )
    return facts


def _check_build(device: CardDevice, facts: dict[str, Any], path: Path) -> None:
    """Raise DeviceError if the registers contradict the facts of the build."""
    identity = device.read(REGISTERS["identity"].offset)
    if identity != IDENTITY:
        raise DeviceError(
            f"{device.name}: the register identity holds {identity:#x} instead of {IDENTITY:#x}: "
            "it is not a bitlane accelerator, or its clock does not run"
        )
    for name in COMPARED:
        actual = device.read(REGISTERS[name].offset)
        actual = actual or 1 if name in WITHOUT_OPTION else actual
        if actual != facts[name]:
            raise DeviceError(
                f"{device.name}: the register {name} holds {actual:#x} instead of {facts[name]:#x}: "
                f"{path.name} and its .json are of different builds"
            )

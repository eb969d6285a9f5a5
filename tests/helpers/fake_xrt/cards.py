"""Cards behind a fake XRT: as strict as XRT, with the emulator as the accelerator.

The host and the card have separate copies of a buffer, both full of noise at first. The accelerator sees the copies of
the card alone, and each of its ports only the memory that this port is linked to. Addresses begin above 4 GiB.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.modes import ErrorCode
from bitlane.contract.registers import PORT_ADDRESSES, VERSION, of_port
from bitlane.devices.configuration import Fault
from bitlane.devices.emulator import EmulatorDevice

HERE = Path(__file__).parent
HOOK = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_void_p
)
HEADERS = ("xrt/xrt_device.h", "xrt/xrt_bo.h", "xrt/experimental/xrt_ip.h", "xrt/experimental/xrt_xclbin.h")
FIRST_ADDRESS = 0x40_0000_0000
BANK_SPACE = 1 << 32  # addresses from the start of one memory to that of the next
REGISTER_BYTES = 0x1000
PAGE = 4096
KERNEL = "sgd_kernel"
TEXT_BYTES = 4096


class Hooks(ctypes.Structure):
    _fields_ = [("call", HOOK)]


def build(folder: Path) -> Path:
    """Compile the library into a folder that has the form of an installed XRT; return the folder."""
    for name in HEADERS:
        header = folder / "include" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{HERE}/fake.h"\n')
    library = folder / "lib" / "libxrt_coreutil.so"
    library.parent.mkdir()
    subprocess.run(
        ["c++", "-std=gnu++17", "-fPIC", "-shared", "-o", library, HERE / "fake.cpp"], check=True, capture_output=True
    )
    return folder


@dataclass
class Bo:
    """A buffer: its memory, its address, and the copies of the host and of the card."""

    bank: int
    address: int
    host: Any
    card: Any


@dataclass
class Fake:
    """The state of the fake XRT.

    Parameters
    ----------
    config : AcceleratorConfig
        The build in the .xclbin.
    banks : tuple of int
        The memory of each port.
    bank_bytes : int
        Size of each memory.
    """

    config: AcceleratorConfig
    banks: tuple[int, ...]
    rng: np.random.Generator
    bank_bytes: int = 8 << 20
    build: int = 0x1234_5678
    fail_at: int = -1  # number of the call that fails
    calls: list[str] = field(default_factory=list)
    bos: dict[int, Bo] = field(default_factory=dict)
    open: dict[int, str] = field(default_factory=dict)  # devices and kernels
    number: int = 0

    def __post_init__(self) -> None:
        self.core = Core(self)
        self.hook = HOOK(self._called)

    def connect(self, library: ctypes.CDLL) -> None:
        library.fake_xrt_connect(Hooks(self.hook))

    def write_files(self, folder: Path) -> Path:
        """Write an .xclbin and the facts beside it."""
        path = folder / "sgd.xclbin"
        path.write_bytes(b"xclbin2")
        config = self.config
        facts = {"kernel": KERNEL, "card": "u50", "clock_mhz": 300, "version": VERSION, "build": self.build}
        facts |= {"port_bits": config.width, "outputs": config.outputs, "shards": config.shards, "ports": config.ports}
        path.with_suffix(".json").write_text(json.dumps(facts))
        return path

    def base(self, bank: int) -> int:
        return FIRST_ADDRESS + bank * BANK_SPACE

    def holder(self, address: int, count: int) -> np.ndarray:
        """The words of the card at an address; they must lie in one live buffer."""
        for bo in self.bos.values():
            first = (address - bo.address) // 8
            if first >= 0 and first + count <= len(bo.card):
                return bo.card[first : first + count]
        raise IndexError(address)

    # --- calls of XRT
    def _called(self, what: bytes, first: int, second: int, third: int, name: bytes, text: int) -> int:
        try:
            kind = what.decode()
            if kind in ("close device", "close ip", "free bo"):
                del (self.bos if kind == "free bo" else self.open)[first]
                return 0
            self.calls.append(kind)
            if len(self.calls) - 1 == self.fail_at:
                raise OSError(f"injected at {kind}")
            handler: Callable[..., int | str] = getattr(self, f"_{kind}")
            result = handler(first, second, third, name.decode())
            if isinstance(result, str):
                ctypes.memmove(text, result.encode() + b"\0", len(result) + 1)
                return 0
            return result
        except Exception as error:  # it becomes an exception of C++
            message = str(error).encode()[: TEXT_BYTES - 1] + b"\0"
            ctypes.memmove(text, message, len(message))
            return -1

    def _new(self, table: dict[int, Any], value: Any) -> int:
        self.number += 1
        table[self.number] = value
        return self.number

    def _xclbin(self, _first: int, _second: int, _third: int, name: str) -> int:
        if not Path(name).read_bytes().startswith(b"xclbin2"):
            raise ValueError("Invalid xclbin")
        return 7

    def _kernel(self, _xclbin: int, _second: int, _third: int, name: str) -> str:
        if name != KERNEL:
            raise ValueError(f"No such kernel '{name}'")
        ports = enumerate(self.banks)
        return "".join(f"{of_port(each, k)} {b} {self.bank_bytes >> 10}\n" for k, b in ports for each in PORT_ADDRESSES)

    def _device(self, _first: int, _second: int, _third: int, name: str) -> int:
        if name not in ("0", "0000:65:00.1"):
            raise ValueError(f"No such device with index '{name}'")
        return self._new(self.open, "device")

    def _load(self, device: int, xclbin: int, _third: int, _name: str) -> int:
        assert self.open[device] == "device" and xclbin == 7
        return 0

    def _ip(self, device: int, xclbin: int, _third: int, name: str) -> int:
        assert self.open[device] == "device" and xclbin == 7
        if name != KERNEL:
            raise ValueError(f"No IP matching '{name}'")
        if "ip" in self.open.values():
            raise ValueError("failed to open ip context: Device or resource busy")
        return self._new(self.open, "ip")

    def _checked(self, ip: int, offset: int) -> int:
        assert self.open[ip] == "ip"
        if offset + 4 > REGISTER_BYTES or offset % 4:
            raise ValueError("Cannot read or write outside ip register space")
        return offset

    def _read(self, ip: int, offset: int, _third: int, _name: str) -> int:
        return self.core.read(self._checked(ip, offset))

    def _write(self, ip: int, offset: int, value: int, _name: str) -> int:
        assert value >> 32 == 0
        self.core.write(self._checked(ip, offset), value)
        return 0

    def _bo(self, device: int, size: int, bank: int, _name: str) -> int:
        assert self.open[device] == "device"
        if bank not in self.banks:
            raise ValueError(f"Invalid memory bank index {bank}")
        if size == 0 or size % PAGE:
            raise ValueError("Invalid argument: the size of a buffer")
        taken = sorted((bo.address, bo.address + bo.host.nbytes) for bo in self.bos.values() if bo.bank == bank)
        address = self.base(bank)
        for start, stop in taken:
            if start - address >= size:
                break
            address = stop
        if address + size > self.base(bank) + self.bank_bytes:
            raise MemoryError("Failed to allocate memory buffer: Cannot allocate memory")
        noise = [self.rng.integers(0, 1 << 64, size // 8, dtype=np.uint64) for _ in range(2)]
        return self._new(self.bos, Bo(bank, address, *noise))

    def _map(self, bo: int, _second: int, _third: int, _name: str) -> int:
        return int(self.bos[bo].host.ctypes.data)

    def _address(self, bo: int, _second: int, _third: int, _name: str) -> int:
        return self.bos[bo].address

    def _sync(self, bo: int, direction: int, _third: int, _name: str) -> int:
        buffer = self.bos[bo]
        source, target = (buffer.host, buffer.card) if direction == 0 else (buffer.card, buffer.host)
        target[:] = source
        return 0


class Core(EmulatorDevice):
    """The accelerator on the card: the reference, with the memories of the card."""

    def __init__(self, fake: Fake):
        super().__init__(fake.config, capacity_bytes=PAGE)
        self._fake = fake
        self._values["build"] = fake.build

    def _reach(self, port: int) -> range:
        start = self._fake.base(self._fake.banks[port])
        return range(start, start + self._fake.bank_bytes)

    def _words(self, address: int, count: int, code: ErrorCode) -> np.ndarray:
        try:
            return self._fake.holder(address, count)
        except IndexError:
            raise Fault(code) from None

"""The simulator's shared library as a Python object; `cpp/memory.h` describes its memory."""

from __future__ import annotations

import ctypes
import weakref
from ctypes import c_char_p, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bitlane.contract.layout import BURST_BEATS
from bitlane.errors import DeviceError

from .disturbance import CHANNELS, FULL_RATE, RESPONSES, WRITE_ORDERS, Disturbance
from .dram import DramTicks

if TYPE_CHECKING:
    from bitlane.contract.cycles import MemoryTiming

_NEVER = (1 << 64) - 1
_EVERY_PORT = (1 << 32) - 1


class ProtocolError(DeviceError):
    """The RTL broke a rule of its buses, or one of its own assertions.

    Attributes
    ----------
    rule : str
        The name of the rule.
    """

    def __init__(self, message: str):
        super().__init__(message)
        self.rule = message.split(" ", 1)[0]


class _DramSettings(ctypes.Structure):
    _fields_ = [(field.name, c_uint32) for field in fields(DramTicks)]


class _Settings(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("base", "size", "seed")),
        *((name, c_uint64) for name in ("read_error_burst", "read_error_beat", "write_error_burst")),
        *((name, c_uint32) for name in ("error_response", "read_latency", "write_latency")),
        *((name, c_uint32) for name in ("read_rate", "outstanding", "skew")),
        *((name, c_uint32) for name in ("write_order", "interleave", "outlives", "alone")),
        ("stall", c_uint32 * len(CHANNELS)),
        ("stall_goes_on", c_uint32),
        ("dram", _DramSettings),
    ]


@dataclass(frozen=True)
class PortCounters:
    """Counts of all memory ports together since the simulator was made. A beat has the width of a port.

    Attributes
    ----------
    read_slots : int
        Cycles in which neither a stall nor the read rate delayed a read beat that was due: the beats that the port
        could carry.
    """

    cycles: int
    read_bursts: int
    read_beats: int
    read_slots: int
    write_bursts: int
    write_beats: int
    error_responses: int


class _PortCounters(ctypes.Structure):
    _fields_ = [(field.name, c_uint64) for field in fields(PortCounters)]


@dataclass(frozen=True)
class Moment:
    """The progress of the bus at some event.

    Attributes
    ----------
    sending : int or None
        Address of the write burst that was offered or incomplete.
    base_beats, write_bursts : int
        Read beats with ID 0, and write addresses, accepted since the simulator was made.
    """

    sending: int | None
    base_beats: int
    write_bursts: int


@dataclass(frozen=True)
class Monitor:
    """Events on the buses since the simulator was made.

    Attributes
    ----------
    read_lengths, write_lengths : tuple of int
        Accepted bursts of 0 to 16 beats.
    read_page_ends, write_page_ends : int
        Those of them that ended at a multiple of 4096.
    stalls : dict of str to int
        Cycles, for each of `CHANNELS`, in which the memory (for "lite" the host) stalled a transfer that was due.
    error_moment : Moment
        The first error response accepted since the last `Harness.disturb`.
    written : Moment
        The last register write accepted.
    reset : Moment
        The start of the last reset.
    """

    read_lengths: tuple[int, ...]
    write_lengths: tuple[int, ...]
    read_page_ends: int
    write_page_ends: int
    stalls: dict[str, int]
    error_moment: Moment
    written: Moment
    reset: Moment


class _Moment(ctypes.Structure):
    _fields_ = [(field.name, c_uint64) for field in fields(Moment)]

    def moment(self) -> Moment:
        return Moment(
            None if self.sending == _NEVER else int(self.sending), int(self.base_beats), int(self.write_bursts)
        )


class _Monitor(ctypes.Structure):
    _fields_ = [
        ("read_lengths", c_uint64 * (BURST_BEATS + 1)),
        ("write_lengths", c_uint64 * (BURST_BEATS + 1)),
        ("read_page_ends", c_uint64),
        ("write_page_ends", c_uint64),
        ("stalls", c_uint64 * len(CHANNELS)),
        *((name, _Moment) for name in ("error", "written", "reset")),
    ]


_SIGNATURES = {
    "new": (c_void_p, c_void_p, ctypes.POINTER(_Settings), c_char_p),
    "delete": (None, c_void_p),
    "configure": (None, c_void_p, ctypes.POINTER(_Settings)),
    "reset": (None, c_void_p, c_uint32),
    "run": (c_uint64, c_void_p, c_uint64),
    "idle": (c_uint64, c_void_p, c_uint64),
    "read": (c_int, c_void_p, c_uint32, ctypes.POINTER(c_uint32)),
    "write": (c_int, c_void_p, c_uint32, c_uint32),
    "irq": (c_int, c_void_p),
    "message": (c_char_p, c_void_p),
    "counters": (None, c_void_p, ctypes.POINTER(_PortCounters)),
    "monitor": (None, c_void_p, ctypes.POINTER(_Monitor)),
    "coverage": (c_int, c_void_p, c_char_p),
}


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, f"bitlane_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Harness:
    """One Verilated accelerator, or its fabric on a Zynq-7000, with a memory on its ports.

    After a broken rule every method raises ProtocolError until `reset`. Only one thread at a time may use it.

    Parameters
    ----------
    library : Path
        The library that `bitlane_sim.rtl.build.build` returned.
    memory : ndarray of uint64, shape (words,)
        Contiguous. The accelerator reads and writes it in place, in complete beats.
    base : int
        Address of the memory on the port of the accelerator.
    timing : MemoryTiming
        Latencies of the memory, at least 1 cycle.
    disturbance : Disturbance, optional
        Stalls, limits and errors of the buses; the default has none.
    waves : Path, optional
        File that gets the changes of all signals, if the library was built for its format.
    """

    def __init__(
        self,
        library: Path,
        memory: npt.NDArray[np.uint64],
        base: int,
        timing: MemoryTiming,
        disturbance: Disturbance | None = None,
        waves: Path | None = None,
    ):
        if memory.dtype != np.uint64 or not memory.flags.c_contiguous:
            raise ValueError("memory must be a contiguous array of uint64")
        self._library = _load(library)
        self._memory = memory  # the simulator has its address only
        self._base = base
        self._timing = timing
        settings = self._settings(disturbance or Disturbance())
        self._simulator = self._library.bitlane_new(memory.ctypes.data, settings, waves and str(waves).encode())
        self._finalizer = weakref.finalize(self, self._library.bitlane_delete, self._simulator)
        self._check()

    def close(self) -> None:
        """Free the simulator; afterwards every method raises DeviceError."""
        self._finalizer()
        self._simulator = None

    def read(self, offset: int) -> int:
        """Read a register over AXI4-Lite (or AXI3), in the cycles of the bus."""
        value = c_uint32()
        self._library.bitlane_read(self._live(), offset, value)
        self._check()
        return value.value

    def write(self, offset: int, value: int) -> None:
        """Write a register over AXI4-Lite (or AXI3). Raises ValueError for a value of more than 32 bits."""
        if not 0 <= value < 1 << 32:
            raise ValueError(f"register 0x{offset:03x} has 32 bits; got value={value:#x}")
        self._library.bitlane_write(self._live(), offset, value)
        self._check()

    def run(self, cycles: int) -> int:
        """Run until irq is high, at most `cycles`. Return the cycles run: 0 if irq is high already."""
        result = int(self._library.bitlane_run(self._live(), cycles))
        self._check()
        return result

    def idle(self, cycles: int) -> None:
        """Run this many cycles, regardless of irq."""
        self._library.bitlane_idle(self._live(), cycles)
        self._check()

    def reset(self, cycles: int = 4) -> None:
        """Hold reset for some cycles. The memory keeps its contents, and if it outlives the reset its requests."""
        self._library.bitlane_reset(self._live(), cycles)
        self._check()

    def disturb(self, disturbance: Disturbance) -> None:
        """Change the disturbance. The numbers of bursts and beats start again at 0."""
        self._library.bitlane_configure(self._live(), self._settings(disturbance))

    @property
    def irq(self) -> bool:
        return bool(self._library.bitlane_irq(self._live()))

    @property
    def counters(self) -> PortCounters:
        raw = _PortCounters()
        self._library.bitlane_counters(self._live(), raw)
        return PortCounters(**{field.name: int(getattr(raw, field.name)) for field in fields(PortCounters)})

    @property
    def monitor(self) -> Monitor:
        raw = _Monitor()
        self._library.bitlane_monitor(self._live(), raw)
        return Monitor(
            read_lengths=tuple(raw.read_lengths),
            write_lengths=tuple(raw.write_lengths),
            read_page_ends=raw.read_page_ends,
            write_page_ends=raw.write_page_ends,
            stalls=dict(zip(CHANNELS, raw.stalls, strict=True)),
            error_moment=raw.error.moment(),
            written=raw.written.moment(),
            reset=raw.reset.moment(),
        )

    def write_coverage(self, path: Path) -> None:
        """Write Verilator's coverage counts. Raises DeviceError if the library was built without coverage."""
        if not self._library.bitlane_coverage(self._live(), str(path).encode()):
            raise DeviceError("this simulator was built without coverage: build it with coverage=True")

    def _live(self) -> int:
        if self._simulator is None:
            raise DeviceError("the device is closed")
        return int(self._simulator)

    def _check(self) -> None:
        message = self._library.bitlane_message(self._live())
        if message is not None:
            raise ProtocolError(message.decode())

    def _settings(self, disturbance: Disturbance) -> _Settings:
        timing = self._timing
        if timing.read_latency < 1 or timing.write_latency < 1:
            raise ValueError(f"{timing}: latencies must be at least 1 cycle")
        stalls = {name: disturbance.stall(name) for name in CHANNELS}
        stalls["r"], goes_on = disturbance.read_stalls
        return _Settings(
            base=self._base,
            size=self._memory.nbytes,
            seed=disturbance.seed & _NEVER,
            read_error_burst=_number(disturbance.read_error_burst),
            read_error_beat=_number(disturbance.read_error_beat),
            write_error_burst=_number(disturbance.write_error_burst),
            error_response=RESPONSES[disturbance.error],
            read_latency=timing.read_latency,
            write_latency=timing.write_latency,
            read_rate=round(disturbance.read_rate * FULL_RATE),
            outstanding=disturbance.outstanding,
            skew=disturbance.skew,
            write_order=WRITE_ORDERS.index(disturbance.write_order),
            interleave=disturbance.interleave,
            outlives=disturbance.outlives_reset,
            alone=_EVERY_PORT if disturbance.alone is None else disturbance.alone,
            stall=(c_uint32 * len(CHANNELS))(*map(_probability, stalls.values())),
            stall_goes_on=_probability(goes_on),
            dram=_DramSettings() if disturbance.dram is None else _DramSettings(*astuple(disturbance.dram)),
        )


def _probability(value: float) -> int:
    return int(value * (1 << 32))


def _number(wanted: int | None) -> int:
    return _NEVER if wanted is None else wanted

"""The simulator's shared library as a Python object; `cpp/memory.h` describes its memory."""

from __future__ import annotations

import ctypes
import random
import weakref
from ctypes import c_char_p, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from bitlane.contract.layout import BURST_BEATS
from bitlane.errors import DeviceError

if TYPE_CHECKING:
    from bitlane.contract.cycles import MemoryTiming

CHANNELS = ("ar", "r", "aw", "w", "b", "lite")
_NEVER = (1 << 64) - 1
_FULL_RATE = 1 << 16
_RESPONSES = {"slave": 2, "decode": 3}


class ProtocolError(DeviceError):
    """The RTL broke a rule of its buses, or one of its own assertions; `rule` is the rule's name."""

    def __init__(self, message: str):
        super().__init__(message)
        self.rule = message.split(" ", 1)[0]


@dataclass(frozen=True)
class Disturbance:
    """How uncomfortable the buses are; the default is not at all.

    Parameters
    ----------
    seed: of every random choice; each channel draws from a stream of its own.
    stall_ar, stall_r, stall_aw, stall_w, stall_b: probability, in each cycle, that the memory's side of this
        channel holds back.
    stall_lite: the same for each signal by which the host drives the register port.
    read_rate: read beats a cycle in the long run, above 0, at most 1.
    outstanding: bursts each way that the memory accepts before it has answered.
    read_error_burst, read_error_beat, write_error_burst: number, from 0, of what answers with an error, at each port.
    error: the answer, SLVERR ("slave") or DECERR ("decode").
    skew: cycles by which a second port answers reads later than the first.

    Raises ValueError for a value out of range.
    """

    seed: int = 0
    stall_ar: float = 0.0
    stall_r: float = 0.0
    stall_aw: float = 0.0
    stall_w: float = 0.0
    stall_b: float = 0.0
    stall_lite: float = 0.0
    read_rate: float = 1.0
    outstanding: int = 64
    read_error_burst: int | None = None
    read_error_beat: int | None = None
    write_error_burst: int | None = None
    error: Literal["slave", "decode"] = "slave"
    skew: int = 0

    def __post_init__(self) -> None:
        for channel in CHANNELS:
            if not 0 <= self.stall(channel) < 1:
                raise ValueError(f"stall_{channel}={self.stall(channel)} must be from 0 to below 1")
        if not 1 / _FULL_RATE <= self.read_rate <= 1:
            raise ValueError(f"read_rate={self.read_rate} must be from 2**-16 to 1")
        if self.outstanding < 1:
            raise ValueError(f"outstanding={self.outstanding} must be 1 at least")
        if self.skew < 0:
            raise ValueError(f"skew={self.skew} must not be negative")
        if self.error not in _RESPONSES:
            raise ValueError(f'error={self.error!r} must be "slave" or "decode"')

    def stall(self, channel: str) -> float:
        """The probability for one of CHANNELS."""
        return float(getattr(self, f"stall_{channel}"))

    @classmethod
    def arbitrary(cls, seed: int) -> Disturbance:
        """Any disturbance but errors, chosen by the seed: some channels free, some nearly blocked."""
        chosen = random.Random(seed)
        ar, r, aw, w, b, lite = (chosen.choice((0.0, 0.1, 0.5, 0.9)) for _ in CHANNELS)
        rate, outstanding = chosen.choice((1.0, 0.6, 0.15)), chosen.choice((1, 2, 5, 64))
        skew = chosen.choice((0, 1, 40))
        return cls(seed, ar, r, aw, w, b, lite, rate, outstanding, skew=skew)


class _Settings(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("base", "size", "seed")),
        *((name, c_uint64) for name in ("read_error_burst", "read_error_beat", "write_error_burst")),
        *((name, c_uint32) for name in ("error_response", "read_latency", "write_latency")),
        *((name, c_uint32) for name in ("read_rate", "outstanding", "skew")),
        ("stall", c_uint32 * len(CHANNELS)),
    ]


@dataclass(frozen=True)
class Counters:
    """What the simulator has counted since it was made, on all memory ports together; beats are as wide as a port.

    read_slots: cycles in which no read beat that was due was held back by a stall or the read rate: as many beats as
    the port could have carried. The others are what their names say.
    """

    cycles: int
    read_bursts: int
    read_beats: int
    read_slots: int
    write_bursts: int
    write_beats: int
    error_responses: int


class _Counters(ctypes.Structure):
    _fields_ = [(field.name, c_uint64) for field in fields(Counters)]


@dataclass(frozen=True)
class Moment:
    """How far the bus had come.

    sending: address of the write burst that was offered or not complete yet, None for none.
    base_beats, write_bursts: read beats with ID 0, and write addresses, accepted since the simulator was made.
    """

    sending: int | None
    base_beats: int
    write_bursts: int


@dataclass(frozen=True)
class Monitor:
    """What has been seen on the buses since the simulator was made.

    read_lengths, write_lengths: accepted bursts of 0 to 16 beats.
    read_page_ends, write_page_ends: of them, those that ended at a multiple of 4096.
    stalls: cycles, for each of CHANNELS, in which the memory (lite: the host) held back what it could have given.
    error: when the first error response since the last `disturb` was accepted.
    written: when the last register write was accepted. reset: when the last reset began.
    """

    read_lengths: tuple[int, ...]
    write_lengths: tuple[int, ...]
    read_page_ends: int
    write_page_ends: int
    stalls: dict[str, int]
    error: Moment
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
    "new": (c_void_p, c_void_p, ctypes.POINTER(_Settings)),
    "delete": (None, c_void_p),
    "configure": (None, c_void_p, ctypes.POINTER(_Settings)),
    "reset": (None, c_void_p, c_uint32),
    "run": (c_uint64, c_void_p, c_uint64),
    "idle": (c_uint64, c_void_p, c_uint64),
    "read": (c_int, c_void_p, c_uint32, ctypes.POINTER(c_uint32)),
    "write": (c_int, c_void_p, c_uint32, c_uint32),
    "irq": (c_int, c_void_p),
    "message": (c_char_p, c_void_p),
    "counters": (None, c_void_p, ctypes.POINTER(_Counters)),
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
    """One Verilated accelerator, or its fabric on a Zynq-7000, with a memory on its ports, whatever their width.

    Parameters
    ----------
    library: what `build` returned.
    memory: (words,) uint64, contiguous; the accelerator reads and writes it in place, whole beats.
    base: the memory's address on the accelerator's port.
    timing: latencies of the memory, in cycles, at least 1.
    disturbance: see there.

    Every method raises ProtocolError once a rule has been broken, until `reset`. For one thread at a time.
    """

    def __init__(
        self,
        library: Path,
        memory: npt.NDArray[np.uint64],
        base: int,
        timing: MemoryTiming,
        disturbance: Disturbance | None = None,
    ):
        if memory.dtype != np.uint64 or not memory.flags.c_contiguous:
            raise ValueError("memory must be a contiguous array of uint64")
        self._library = _load(library)
        self._memory = memory  # keeps it alive
        self._base = base
        self._timing = timing
        settings = self._settings(disturbance or Disturbance())
        self._simulator = self._library.bitlane_new(memory.ctypes.data, settings)
        self._finalizer = weakref.finalize(self, self._library.bitlane_delete, self._simulator)
        self._check()

    def close(self) -> None:
        """Give the simulator's memory back; the object is of no use afterwards."""
        self._finalizer()
        self._simulator = None

    def read(self, offset: int) -> int:
        """A register, over AXI4-Lite (or AXI3); takes as many cycles as the bus does."""
        value = c_uint32()
        self._library.bitlane_read(self._live(), offset, value)
        self._check()
        return value.value

    def write(self, offset: int, value: int) -> None:
        """Write a register, over AXI4-Lite (or AXI3). Raises ValueError for what does not fit 32 bits."""
        if not 0 <= value < 1 << 32:
            raise ValueError(f"register 0x{offset:03x} takes 32 bits, not {value:#x}")
        self._library.bitlane_write(self._live(), offset, value)
        self._check()

    def run(self, cycles: int) -> int:
        """Run until irq is high, at most `cycles`; returns the cycles run, 0 when irq was high already."""
        result = int(self._library.bitlane_run(self._live(), cycles))
        self._check()
        return result

    def idle(self, cycles: int) -> None:
        """Run this many cycles, whatever irq does."""
        self._library.bitlane_idle(self._live(), cycles)
        self._check()

    def reset(self, cycles: int = 4) -> None:
        """Hold reset: the accelerator starts anew, requests under way are forgotten, the memory stays."""
        self._library.bitlane_reset(self._live(), cycles)
        self._check()

    def disturb(self, disturbance: Disturbance) -> None:
        """Change the disturbance from here on; the numbers of bursts and beats start again at 0."""
        self._library.bitlane_configure(self._live(), self._settings(disturbance))

    @property
    def irq(self) -> bool:
        return bool(self._library.bitlane_irq(self._live()))

    @property
    def counters(self) -> Counters:
        raw = _Counters()
        self._library.bitlane_counters(self._live(), raw)
        return Counters(**{field.name: int(getattr(raw, field.name)) for field in fields(Counters)})

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
            error=raw.error.moment(),
            written=raw.written.moment(),
            reset=raw.reset.moment(),
        )

    def write_coverage(self, path: Path) -> None:
        """Write what Verilator's coverage has counted. DeviceError where the library was built without it."""
        if not self._library.bitlane_coverage(self._live(), str(path).encode()):
            raise DeviceError("this simulator was built without coverage")

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
            raise ValueError(f"{timing}: latencies must be 1 cycle at least")
        return _Settings(
            base=self._base,
            size=self._memory.nbytes,
            seed=disturbance.seed & _NEVER,
            read_error_burst=_number(disturbance.read_error_burst),
            read_error_beat=_number(disturbance.read_error_beat),
            write_error_burst=_number(disturbance.write_error_burst),
            error_response=_RESPONSES[disturbance.error],
            read_latency=timing.read_latency,
            write_latency=timing.write_latency,
            read_rate=round(disturbance.read_rate * _FULL_RATE),
            outstanding=disturbance.outstanding,
            skew=disturbance.skew,
            stall=(c_uint32 * len(CHANNELS))(*(_threshold(disturbance.stall(name)) for name in CHANNELS)),
        )


def _number(wanted: int | None) -> int:
    return _NEVER if wanted is None else wanted


def _threshold(probability: float) -> int:
    return int(probability * (1 << 32))

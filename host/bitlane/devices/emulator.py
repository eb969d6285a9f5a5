"""The emulator: registers and memory in front of the numpy reference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import predict
from bitlane.contract.formats import BOUND, DECAY_RANGE
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import (
    CHUNK,
    CHUNK_MODEL_BYTES,
    CODEBOOK_BITS,
    DIGIT_BITS,
    LABELS_PER_WORD,
    MAX_DIGITS,
    MAX_EPOCHS,
    MAX_ROWS,
    WORD_BITS,
    WORD_BYTES,
    record_words,
)
from bitlane.contract.modes import ErrorCode, Loss, Prox
from bitlane.contract.packing import pack_master, unpack_base, unpack_draws, unpack_master
from bitlane.contract.prng import MAX_CUT
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    IDENTITY,
    RANDOM_ROUNDING_REGISTERS,
    REGISTERS,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
    VERSION,
)
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.errors import DeviceError
from bitlane.reference.machine import Reference

from .protocol import Buffer

PAGE = 4096
MEMORY_BASE = 0x1000_0000  # where the memory begins on the bus; below it nothing answers
UNPACK_VALUES = 1 << 20  # digits unpacked at a time

_REGISTER_WORDS = {
    register.offset + 4 * word: (register, 32 * word)
    for register in REGISTERS.values()
    for word in range(register.words)
}


class EmulatedBuffer:
    """A buffer. Its array is the copy of the host; see `EmulatorDevice.flush` and `invalidate`."""

    def __init__(self, owner: EmulatorDevice, address: int, words: int):
        self._owner = owner
        self._address = address
        self._array = np.zeros(words, np.uint64)

    @property
    def array(self) -> NDArray[np.uint64]:
        return self._array

    @property
    def device_address(self) -> int:
        return self._address

    def free(self) -> None:
        """Free the memory. A second call does nothing."""
        self._owner._free(self)


class _Fault(Exception):
    """An error that ends a run early."""

    def __init__(self, code: ErrorCode):
        self.code = code


class EmulatorDevice:
    """The accelerator as seen from its bus. Every read of STATUS runs one epoch.

    Cycles, beats and stalls are those that `bitlane.contract.cycles` predicts for the hardware.

    Parameters
    ----------
    config : AcceleratorConfig, optional
        Options of the build; `AcceleratorConfig()` when None.
    capacity_bytes : int, default=128 MiB
        Size of its memory.

    Attributes
    ----------
    unmapped_address : int
        An address outside the memory, where an access ends the run with an error.
    """

    unmapped_address = 0

    def __init__(self, config: AcceleratorConfig | None = None, capacity_bytes: int = 128 << 20):
        config = config or AcceleratorConfig()
        self.name = "emulator"
        self.capacity_bytes = capacity_bytes
        self._memory = np.zeros(-(-capacity_bytes // WORD_BYTES), np.uint64)
        self._buffers: dict[int, int] = {}  # address: pages in bytes
        self._run: Iterator[None] | None = None
        self._done = False
        self._error = ErrorCode.NONE
        self._values = dict.fromkeys(REGISTERS, 0)
        self._values |= {
            "identity": IDENTITY,
            "version": VERSION,
            "max_features": config.max_features,
            "max_row_words": config.max_row_words,
            "port_bits": config.width,
            "address_bits": config.address_bits,
            "outputs": config.outputs,
            "level_slots": config.level_slots,
            "random_rounding": int(config.random_rounding),
        }
        self._absent = () if config.random_rounding else RANDOM_ROUNDING_REGISTERS

    # --- registers ---
    def read(self, offset: int) -> int:
        """Return the 32-bit register at a byte offset, or 0 if no register has it."""
        if offset not in _REGISTER_WORDS:
            return 0
        register, shift = _REGISTER_WORDS[offset]
        if register.name in self._absent:
            return 0
        if register.name == "status":
            self._advance()
            busy = STATUS_BUSY if self._run else 0
            done = STATUS_DONE if self._done else 0
            return busy | done | self._error << STATUS_ERROR_SHIFT
        return self._values[register.name] >> shift & 0xFFFF_FFFF

    def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset. Read-only registers keep their values."""
        if offset not in _REGISTER_WORDS:
            return
        register, shift = _REGISTER_WORDS[offset]
        if register.name == "control":
            self._control(value)
        elif register.writable and register.name not in self._absent:
            kept = self._values[register.name] & ~(0xFFFF_FFFF << shift)
            self._values[register.name] = (kept | value << shift) & ((1 << register.bits) - 1)

    def _control(self, value: int) -> None:
        if value & CONTROL_ACKNOWLEDGE:
            self._done = False
        if self._run and value & CONTROL_ABORT:
            self._end(ErrorCode.ABORTED)
        elif not self._run and value & CONTROL_START:
            self._done = False
            self._error = ErrorCode.NONE
            self._run = self._epochs()

    def _advance(self) -> None:
        if self._run is None:
            return
        try:
            next(self._run)
        except StopIteration:
            self._end(ErrorCode.NONE)
        except _Fault as fault:
            self._end(fault.code)

    def _end(self, code: ErrorCode) -> None:
        self._run = None
        self._done = True
        self._error = code

    # --- memory ---
    def allocate(self, nbytes: int) -> EmulatedBuffer:
        """Return a buffer at the first address with room for `nbytes`. Raise DeviceError if there is none."""
        size = max(1, -(-nbytes // PAGE)) * PAGE
        address = MEMORY_BASE
        for start, taken in sorted(self._buffers.items()):
            if start - address >= size:
                break
            address = start + taken
        if address + size > MEMORY_BASE + self.capacity_bytes:
            raise DeviceError(f"no room for {nbytes} bytes in the emulator's {self.capacity_bytes}")
        self._buffers[address] = size
        return EmulatedBuffer(self, address, -(-nbytes // WORD_BYTES))

    def flush(self, buffer: Buffer) -> None:
        """Copy the words of the host to the device."""
        self._words(buffer.device_address, len(buffer.array), ErrorCode.WRITE_DECODE)[:] = buffer.array

    def invalidate(self, buffer: Buffer) -> None:
        """Copy the words of the device to the host."""
        buffer.array[:] = self._words(buffer.device_address, len(buffer.array), ErrorCode.READ_DECODE)

    def wait(self, cycles: int) -> None:
        """Return at once: time passes when STATUS is read."""

    def close(self) -> None:
        """End the run and free the memory."""
        self._run = None
        self._buffers.clear()
        self._memory = np.zeros(0, np.uint64)

    @property
    def allocated(self) -> int:
        """Number of buffers that are not freed."""
        return len(self._buffers)

    def _free(self, buffer: EmulatedBuffer) -> None:
        self._buffers.pop(buffer.device_address, None)

    def _words(self, address: int, count: int, code: ErrorCode) -> NDArray[np.uint64]:
        first = (address - MEMORY_BASE) // WORD_BYTES
        if address < MEMORY_BASE or first + count > len(self._memory):
            raise _Fault(code)
        return self._memory[first : first + count]

    def _load(self, address: int, count: int) -> NDArray[np.uint64]:
        return self._words(address, count, ErrorCode.READ_DECODE)

    def _store(self, address: int, words: NDArray[np.uint64]) -> None:
        self._words(address, len(words), ErrorCode.WRITE_DECODE)[:] = words

    # --- a run ---
    def _epochs(self) -> Iterator[None]:
        """Run a job in steps of one epoch. Registers written in the meantime do not change it."""
        values = self._values
        for name in ("epoch", "cycles", "beats", "stall_memory", "stall_model", "saturations"):
            values[name] = 0
        at = values | REGISTERS["mode"].unpack(values["mode"]) | REGISTERS["cuts"].unpack(values["cuts"])
        geometry, settings = _checked(at)
        values |= _now(settings)
        loaded = unpack_master(self._load(at["model_in"], geometry.load_words), geometry.features)
        master, levels = loaded[: geometry.outputs], loaded[geometry.outputs :]
        reference = Reference(geometry, ModelState(master, settings), levels if geometry.codebook else None)
        counts = predict(
            geometry,
            at["epochs"],
            bool(at["snapshots"]),
            settings.staleness,
            random_rounding=bool(at["random_rounding"]),
        )
        for number in range(at["epochs"]):
            self._feed(reference, geometry, at, number % at["draw_sets"])
            epoch = reference.end_epoch()
            record = np.zeros(geometry.record_words, np.int64)
            record[0] = counts.epoch_cycles[number]
            record[1 : 1 + geometry.outputs] = epoch.loss
            self._store(at["trace"] + number * record.nbytes, record.view(np.uint64))
            if at["snapshots"]:
                self._store(at["model_out"] + number * geometry.model_bytes, pack_master(epoch.state.master))
            values |= _now(epoch.state.settings)
            values |= {
                "epoch": number + 1,
                "cycles": int(record[0]),
                "saturations": epoch.saturations,
            }
            if number + 1 < at["epochs"]:
                yield
        if not at["snapshots"]:
            self._store(at["model_out"], pack_master(epoch.state.master))
        values |= {
            "cycles": counts.cycles,
            "beats": counts.beats,
            "stall_memory": counts.stall_memory,
            "stall_model": counts.stall_model,
        }

    def _feed(self, reference: Reference, geometry: Geometry, at: dict[str, int], number: int) -> None:
        """Feed the rows of one epoch from set `number` to the reference, a part at a time."""
        base = self._load(at["base_address"] + number * at["base_stride"], geometry.base_words)
        if geometry.draws:
            draws = self._load(at["draw_address"] + number * at["draw_stride"], geometry.draw_words)
        values = geometry.features * geometry.digits * geometry.rows_per_beat
        step = max(1, UNPACK_VALUES // values // LABELS_PER_WORD) * LABELS_PER_WORD
        for first in range(0, geometry.groups, step):
            groups = range(first, min(first + step, geometry.groups))
            codes, labels = unpack_base(base[geometry.base_span(groups)], geometry, groups)
            drawn = unpack_draws(draws[geometry.draw_span(groups)], geometry, groups) if geometry.draws else None
            reference.feed(codes, drawn, labels)


def _now(settings: Settings) -> dict[str, int]:
    """The registers with the current steps, phase and seed."""
    return {
        f"{name}_now": getattr(settings, name) for name in ("step", "step_negative", "penalty_step", "phase", "seed")
    }


def _checked(at: dict[str, int]) -> tuple[Geometry, Settings]:
    """Geometry and settings of the registers. Raise the error of the hardware if they are illegal."""
    columns = at["port_bits"] // WORD_BITS
    tail, last_tail = at["batch_tail"], at["epoch_tail"]
    chunks = -(-at["features"] // CHUNK)
    bounds = _signed(at["bounds"]), _signed(at["bounds"] >> BOUND.bits)
    limits = {
        "features": at["max_features"],
        "groups": MAX_ROWS,
        "epochs": MAX_EPOCHS,
        "batch_groups": MAX_ROWS,
        "draw_sets": at["draw_sets"],
    }
    beat = at["port_bits"] // 8
    multiples = {
        "base_address": beat,
        "base_stride": beat,
        "draw_address": beat,
        "draw_stride": beat,
        "model_in": CHUNK_MODEL_BYTES,
        "model_out": CHUNK_MODEL_BYTES,
        "trace": record_words(at["outputs"], columns) * WORD_BYTES,
    }
    if (
        any(not 1 <= at[name] <= limit for name, limit in limits.items())
        or any(at[name] % multiple or at[name] >> at["address_bits"] for name, multiple in multiples.items())
        or any(not 1 <= rows <= columns for rows in (tail, last_tail))
        or not _is_precision(at)
        or not DECAY_RANGE[0] <= at["decay"] <= DECAY_RANGE[1]
        or at["loss"] not in list(Loss)
        or bounds[0] > bounds[1]
        or max(at["model_cut"], at["scaled_gradient_cut"]) > MAX_CUT
        or (at["staleness"] and 2 * chunks > at["max_features"] // CHUNK)
    ):
        raise _Fault(ErrorCode.CONFIGURATION)
    full, last_groups = divmod(at["groups"] - 1, at["batch_groups"])
    batch = (at["batch_groups"] - 1) * columns + tail
    last = last_groups * columns + last_tail
    if full and last > batch:
        raise _Fault(ErrorCode.CONFIGURATION)
    rows = full * batch + last
    table = at["level_slots"] > 0
    digits, half = divmod(at["base_digits"], DIGIT_BITS) if table else (at["base_digits"], 0)
    geometry = Geometry(
        features=at["features"],
        rows=rows,
        base_digits=digits,
        draws=bool(at["draws"]),
        batch=batch if full else rows,
        rows_per_beat=columns,
        outputs=at["outputs"],
        half_digit=bool(half),
        codebook=table,
    )
    if geometry.row_words > at["max_row_words"] or geometry.level_slots > at["level_slots"]:
        raise _Fault(ErrorCode.CONFIGURATION)
    settings = Settings(
        step=at["step"],
        step_negative=at["step_negative"],
        penalty_step=at["penalty_step"],
        decay=at["decay"],
        phase=at["phase"],
        loss=Loss(at["loss"]),
        prox=Prox(at["prox"]),
        bounds=bounds,
        unpenalized_intercept=bool(at["unpenalized_intercept"]),
        staleness=at["staleness"],
        model_cut=at["model_cut"],
        scaled_gradient_cut=at["scaled_gradient_cut"],
        seed=at["seed"],
    )
    return geometry, settings


def _is_precision(at: dict[str, int]) -> bool:
    """Whether the lanes of the build read such samples. With table lanes `base_digits` counts bits."""
    if at["level_slots"]:
        return at["base_digits"] in CODEBOOK_BITS and bool(at["draws"])
    return 1 <= at["base_digits"] + at["draws"] <= MAX_DIGITS


def _signed(field: int) -> int:
    """The low bits of a register, as a value of format BOUND."""
    value = field & ((1 << BOUND.bits) - 1)
    return value - (1 << BOUND.bits) if value > BOUND.maximum else value

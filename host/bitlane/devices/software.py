"""Accelerators in software: registers and memory in front of an engine, which computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import predict
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane.contract.further import SoftwareConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import BURST_BEATS, WORD_BYTES
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import Words, pack_master, unpack_master
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_ENCODE,
    CONTROL_START,
    IDENTITY,
    REGISTERS,
    SOURCE_ADDRESS,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
    VERSION,
    absent_registers,
    of_port,
)
from bitlane.contract.settings import Settings
from bitlane.contract.shards import join_ports, port_regions, shard_models, unshard_base, unshard_draws, unshard_models
from bitlane.contract.software_registers import EVERY_REGISTER, registers_of
from bitlane.contract.state import ModelState
from bitlane.errors import DeviceError
from bitlane.reference.encoder import encode_source
from bitlane.reference.machine import EpochResult

from .configuration import Fault, check_encoding, check_registers
from .protocol import Buffer

PAGE = 4096
MEMORY_BASE = 0x1000_0000  # where the memory begins on the bus; below it nothing answers

CHANGING = ("step", "step_negative", "penalty_step", "phase", "seed", "shrink_step", "shrink_phase")  # in a run
_REGISTER_WORDS = {
    register.offset + 4 * word: (register, 32 * word)
    for register in EVERY_REGISTER.values()
    for word in range(register.words)
}


class SoftwareEngine(Protocol):
    """The arithmetic of one run, epoch by epoch."""

    def feed(self, base: Words, draws: Words | None) -> None:
        """Process the rows of an epoch: the words of a base region, and of a draw region if the rows have draws."""

    def end_epoch(self) -> EpochResult:
        """Return the result of the epoch, and decay steps and penalty step."""


class SoftwareBuffer:
    """A buffer of a `SoftwareDevice`."""

    def __init__(self, owner: SoftwareDevice, address: int, array: Words):
        self._owner = owner
        self._address = address
        self._array = array
        self._freed = False

    @property
    def array(self) -> Words:
        return self._array

    @property
    def device_address(self) -> int:
        return self._address

    def free(self) -> None:
        """Free the memory. A second call does nothing."""
        if not self._freed:
            self._freed = True
            self._owner._free(self)


class SoftwareDevice(ABC):
    """The accelerator as seen from its bus. Every read of STATUS runs one epoch.

    Cycles, beats and stalls are those that `bitlane.contract.cycles` predicts for the hardware. A subclass has the
    memory and the engine.

    Parameters
    ----------
    name : str
    config : AcceleratorConfig
        Options of the build.
    capacity_bytes : int
        Size of its memory.

    Attributes
    ----------
    unmapped_address : int
        An address outside the memory, where an access ends the run with an error.
    """

    unmapped_address = 0

    def __init__(self, name: str, config: AcceleratorConfig, capacity_bytes: int):
        self.name = name
        self.capacity_bytes = capacity_bytes
        self._buffers: dict[int, int] = {}  # address: pages in bytes
        self._run: Iterator[None] | None = None
        self._done = False
        self._error = ErrorCode.NONE
        self._values = dict.fromkeys(EVERY_REGISTER, 0)
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
            "encoder": config.encoder,
            "shards": config.shards,
            "ports": config.ports,
            "more_objectives": int(isinstance(config, SoftwareConfig)),
        }
        # The register of the levels reads as 0 without table lanes.
        self._absent = {
            *absent_registers(True, config.random_rounding, config.encoder, config.shards, config.ports),
            *(EVERY_REGISTER.keys() - registers_of(config).keys()),
        }

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
            others = self._values[register.name] & ~(0xFFFF_FFFF << shift)
            self._values[register.name] = (others | value << shift) & ((1 << register.bits) - 1)

    def _control(self, value: int) -> None:
        if value & CONTROL_ACKNOWLEDGE:
            self._done = False
        if self._run and value & CONTROL_ABORT:
            self._end(ErrorCode.ABORTED)
        elif not self._run and value & CONTROL_START:
            self._done = False
            self._error = ErrorCode.NONE
            self._run = self._epochs()
        elif not self._run and value & CONTROL_ENCODE and self._values["encoder"]:
            self._done = False
            self._error = ErrorCode.NONE
            self._run = self._encoding()

    def _advance(self) -> None:
        if self._run is None:
            return
        try:
            next(self._run)
        except StopIteration:
            self._end(ErrorCode.NONE)
        except Fault as fault:
            self._end(fault.code)

    def _end(self, code: ErrorCode) -> None:
        self._run = None
        self._done = True
        self._error = code

    # --- memory ---
    def allocate(self, nbytes: int, port: int = 0) -> SoftwareBuffer:
        """Return a buffer at the first address of a port with room for `nbytes`; DeviceError if no gap is so large."""
        size = max(1, -(-nbytes // PAGE)) * PAGE
        reach = self._reach(port)
        address = reach.start
        for start, taken in sorted(self._buffers.items()):
            if start - address >= size:
                break
            address = max(address, start + taken)
        if address + size > reach.stop:
            raise DeviceError(f"no room for {nbytes} bytes in the memory of {self.name}, {len(reach)} bytes")
        self._buffers[address] = size
        return SoftwareBuffer(self, address, self._provide(address, -(-nbytes // WORD_BYTES)))

    @abstractmethod
    def flush(self, buffer: Buffer) -> None:
        """Copy the words of the host to the device."""

    @abstractmethod
    def invalidate(self, buffer: Buffer) -> None:
        """Copy the words of the device to the host."""

    def wait(self, cycles: int) -> None:  # noqa: B027
        """Return at once: time passes when STATUS is read."""

    def close(self) -> None:
        """End the run and free the memory."""
        self._run = None
        self._buffers.clear()

    @property
    def allocated(self) -> int:
        """Number of buffers that are not freed."""
        return len(self._buffers)

    def _reach(self, port: int) -> range:
        """Return the addresses that a port reaches: its part of the memory."""
        size = self.capacity_bytes // self._values["ports"]
        start = MEMORY_BASE + port * (size // PAGE * PAGE)
        return range(start, start + size)

    def _free(self, buffer: SoftwareBuffer) -> None:
        self._buffers.pop(buffer.device_address, None)

    @abstractmethod
    def _provide(self, address: int, words: int) -> Words:
        """Return the array of a new buffer."""

    @abstractmethod
    def _words(self, address: int, count: int, code: ErrorCode) -> Words:
        """Return words of the device's memory. Raise `Fault` with this code if they lie outside."""

    def _load(self, address: int, count: int, port: int = 0) -> Words:
        return self._reached(address, count, port, ErrorCode.READ_DECODE)

    def _store(self, address: int, words: Words, port: int = 0) -> None:
        self._reached(address, len(words), port, ErrorCode.WRITE_DECODE)[:] = words

    def _reached(self, address: int, count: int, port: int, code: ErrorCode) -> Words:
        """Return words that a port reads or writes. Raise `Fault` with this code if it does not reach them."""
        reach = self._reach(port)
        if address not in reach or address + count * WORD_BYTES > reach.stop:
            raise Fault(code)
        return self._words(address, count, code)

    def _load_beats(self, at: dict[str, int], name: str, count: int, geometry: Geometry, offset: int = 0) -> Words:
        """Return `count` words, in complete beats, from `offset` bytes behind the address `name` of each port."""
        addresses = [at[of_port(name, port)] + offset for port in range(geometry.ports)]
        words = count // geometry.ports
        return join_ports([self._load(address, words, port) for port, address in enumerate(addresses)], geometry)

    def _store_beats(self, at: dict[str, int], name: str, words: Words, geometry: Geometry, offset: int = 0) -> None:
        """Write complete beats, to `offset` bytes behind the address `name` of each port."""
        for port, part in enumerate(port_regions(words, geometry)):
            self._store(at[of_port(name, port)] + offset, part, port)

    # --- an encoding ---
    def _encoding(self) -> Iterator[None]:
        """Encode the rows of a source region, in one step."""
        values = self._values
        self._clear_counters()
        at = values | REGISTERS["mode"].unpack(values["mode"]) | REGISTERS["encode"].unpack(values["encode"])
        settings = check_encoding(at)
        geometry = settings.geometry
        source = self._load_beats(at, SOURCE_ADDRESS, settings.source_words, geometry)
        base, draws = encode_source(source, settings, ENCODER_BASE_BITS)
        if base is not None:
            self._store_beats(at, "base_address", base, geometry)
        for i, words in enumerate(draws):
            self._store_beats(at, "draw_address", words, geometry, i * at["draw_stride"])
        values |= {
            "cycles": predict_encoding(geometry, settings.value_type, settings.writes_base, len(draws)).least,
            "beats": at["source_lines"] * BURST_BEATS,
        }
        yield from ()

    def _clear_counters(self) -> None:
        for name in ("epoch", "cycles", "beats", "stall_memory", "stall_model", "saturations"):
            self._values[name] = 0

    # --- a run ---
    def _epochs(self) -> Iterator[None]:
        """Run a job in steps of one epoch. Registers written in the meantime do not change it."""
        values = self._values
        self._clear_counters()
        at = values | REGISTERS["mode"].unpack(values["mode"]) | REGISTERS["cuts"].unpack(values["cuts"])
        geometry, settings = check_registers(at)
        values |= _now(settings)
        models = unshard_models(self._load_beats(at, "model_in", geometry.load_words, geometry), geometry)
        loaded = unpack_master(models, geometry.features)
        master, levels = loaded[: geometry.outputs], loaded[geometry.outputs :]
        engine = self._begin(geometry.unsharded, ModelState(master, settings), levels if geometry.codebook else None)
        counts = predict(
            geometry,
            at["epochs"],
            bool(at["snapshots"]),
            settings.staleness,
            random_rounding=bool(at["random_rounding"]),
        )
        for number in range(at["epochs"]):
            self._feed(engine, geometry, at, number % at["draw_sets"])
            epoch = engine.end_epoch()
            record = np.zeros(geometry.record_words, np.int64)
            record[0] = counts.epoch_cycles[number]
            record[1 : 1 + geometry.outputs] = epoch.loss
            self._store(at["trace"] + number * record.nbytes, record.view(np.uint64))
            if at["snapshots"]:
                models = shard_models(pack_master(epoch.state.master), geometry)
                self._store_beats(at, "model_out", models, geometry, number * geometry.model_bytes // geometry.ports)
            values |= _now(epoch.state.settings)
            values |= {
                "epoch": number + 1,
                "cycles": int(record[0]),
                "saturations": epoch.saturations,
            }
            if number + 1 < at["epochs"]:
                yield
        if not at["snapshots"]:
            self._store_beats(at, "model_out", shard_models(pack_master(epoch.state.master), geometry), geometry)
        values |= {
            "cycles": counts.cycles,
            "beats": counts.beats,
            "stall_memory": counts.stall_memory,
            "stall_model": counts.stall_model,
        }

    @abstractmethod
    def _begin(self, geometry: Geometry, state: ModelState, levels: NDArray[np.int32] | None) -> SoftwareEngine:
        """Return the engine of a run, with int32 [levels, n] for codebooks. It computes without shards."""

    def _feed(self, engine: SoftwareEngine, geometry: Geometry, at: dict[str, int], number: int) -> None:
        """Feed the rows of one epoch from set `number` to the engine."""
        words = self._load_beats(at, "base_address", geometry.base_words, geometry, number * at["base_stride"])
        base = unshard_base(words, geometry)
        draws = None
        if geometry.draws:
            words = self._load_beats(at, "draw_address", geometry.draw_words, geometry, number * at["draw_stride"])
            draws = unshard_draws(words, geometry)
        engine.feed(base, draws)


def _now(settings: Settings) -> dict[str, int]:
    """The registers with the current steps, phases and seed."""
    return {f"{name}_now": getattr(settings, name) for name in CHANGING}

"""Emulated devices with a fault in one block each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.modes import ErrorCode, Loss, Prox
from bitlane.contract.registers import CONTROL_START, REGISTERS
from bitlane.devices import emulator as emulator_module
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.software import MEMORY_BASE
from bitlane.reference.machine import Reference
from bitlane.selftest import SystemBlock, speed
from bitlane.selftest import blocks as names

CAPACITY = 8 << 20
SMALL = {"max_features": 128, "row_buffer_beats": 164}
TABLE = {**SMALL, "level_slots": 64}
ROUNDING = {**SMALL, "random_rounding": True}
TWO_OUTPUTS = {**SMALL, "outputs": 2}
ENCODER = {**SMALL, "encoder": 2}


# --- devices
class WrongWeight(EmulatorDevice):
    """A bit of a weight is wrong wherever models are stored."""

    def _store(self, address, words, port=0):
        at = self._values["model_out"]
        if at <= address < at + 128:
            words = words.copy()
            words[0] ^= np.uint64(1 << 9)
        super()._store(address, words, port)


class WrongLoss(EmulatorDevice):
    """The lowest bit of each loss is wrong."""

    def _store(self, address, words, port=0):
        if self._is_record(address):
            words = words.copy()
            words[1] ^= np.uint64(1)
        super()._store(address, words, port)

    def _is_record(self, address):
        at = self._values["trace"]
        return at <= address < at + 16 * self._values["epochs"]


class ConstantStamp(WrongLoss):
    """Every record has the same time stamp."""

    def _store(self, address, words, port=0):
        if self._is_record(address):
            words = words.copy()
            words[0] = np.uint64(1000)
        EmulatorDevice._store(self, address, words)


class DroppedBit(EmulatorDevice):
    """The top bit of the phase register is never stored."""

    def write(self, offset, value):
        super().write(offset, value & 0x7FFF_FFFF if offset == REGISTERS["phase"].offset else value)


class DroppedSeedBit(EmulatorDevice):
    """The top bit of the seed register is never stored."""

    def write(self, offset, value):
        super().write(offset, value & 0x7FFF_FFFF if offset == REGISTERS["seed"].offset else value)


class Aliased(EmulatorDevice):
    """Two registers are the same."""

    def _same(self, offset):
        return REGISTERS["step"].offset if offset == REGISTERS["step_negative"].offset else offset

    def read(self, offset):
        return super().read(self._same(offset))

    def write(self, offset, value):
        super().write(self._same(offset), value)


class FirstDrawSets(EmulatorDevice):
    """Every encoding has the first draw sets of its group."""

    def _encoding(self):
        first = REGISTERS["encode"].fields[-1]
        assert first.name == "encode_first"
        self._values["encode"] &= ~(((1 << first.bits) - 1) << first.low)
        yield from super()._encoding()


class HalfDecoded(EmulatorDevice):
    """An address bit of the register file is not decoded."""

    def read(self, offset):
        return super().read(offset & 0x3FF)

    def write(self, offset, value):
        assert offset == REGISTERS["control"].offset or offset & 0x3FF != 0x20 or not value & CONTROL_START
        super().write(offset & 0x3FF, value)


class Overwritten(EmulatorDevice):
    """A read-only register can be written."""

    def write(self, offset, value):
        if offset == REGISTERS["address_bits"].offset:
            self._values["address_bits"] = value
        super().write(offset, value)


class FewerCycles(EmulatorDevice):
    """The cycle counter misses a part of every run."""

    def read(self, offset):
        value = super().read(offset)
        return value * 3 // 4 if offset == REGISTERS["cycles"].offset else value


class FewerBeats(EmulatorDevice):
    """The beat counter misses one."""

    def read(self, offset):
        value = super().read(offset)
        return value - 1 if offset == REGISTERS["beats"].offset and value else value


class NoStalls(EmulatorDevice):
    """The counter of stalls stands still."""

    def read(self, offset):
        return 0 if offset == REGISTERS["stall_model"].offset else super().read(offset)


class Unflushed(EmulatorDevice):
    """A flush leaves the last words of a large buffer out."""

    def flush(self, buffer):
        kept = buffer.array[511:].copy()
        buffer.array[511:] = 0
        super().flush(buffer)
        buffer.array[511:] = kept


class Narrow(EmulatorDevice):
    """Address bit 22 is not connected."""

    def _words(self, address, count, code):
        return super()._words(MEMORY_BASE + (address - MEMORY_BASE & ~(1 << 22)), count, code)


class OneSet(EmulatorDevice):
    """Every epoch reads the first set."""

    def _feed(self, engine, geometry, at, number):
        super()._feed(engine, geometry, at, 0)


class NoAbort(EmulatorDevice):
    """An abort ends without an error code."""

    def _end(self, code):
        super()._end(ErrorCode.NONE if code == ErrorCode.ABORTED else code)


class NoBusError(EmulatorDevice):
    """A failed read ends without an error code."""

    def _end(self, code):
        super()._end(ErrorCode.NONE if code == ErrorCode.READ_DECODE else code)


class Unlocked(EmulatorDevice):
    """Registers written during a run change it."""

    def _feed(self, engine, geometry, at, number):
        if self._values["step"] != at["step"]:
            engine.reference._settings = replace(engine.reference._settings, step=self._values["step"])
        super()._feed(engine, geometry, at, number)


class FailsInManyRows(EmulatorDevice):
    """An exception of another library in long runs."""

    def _feed(self, engine, geometry, at, number):
        if geometry.rows == 300 and at["step"]:
            raise OSError("the cable is out")
        super()._feed(engine, geometry, at, number)


class FailsInMeasurements(EmulatorDevice):
    """An exception in the runs that measure the throughput."""

    def _feed(self, engine, geometry, at, number):
        rows = speed.GROUPS * geometry.rows_per_beat
        if geometry.features >= 64 and geometry.batch == geometry.rows == rows:
            raise OSError("the cable is out")
        super()._feed(engine, geometry, at, number)


# --- references
def deaf(**change: Any) -> type[Reference]:
    """A reference in which these settings always have these values."""

    class Deaf(Reference):
        def __init__(self, geometry, state, levels=None):
            super().__init__(geometry, replace(state, settings=replace(state.settings, **change)), levels)

    return Deaf


class WrongDots(Reference):
    """The dot product of the second draw has the wrong sign."""

    def _block_of(self, codes, draws):
        block = super()._block_of(codes, draws)
        correct = block.rounded_dots

        def rounded_dots(rows, x, exponent):
            first, second = correct(rows, x, exponent)
            return [first, -second]

        block.rounded_dots = rounded_dots  # type: ignore[method-assign]
        return block


class WrongSlot(Reference):
    """The highest level of each codebook is read from the slot below."""

    def __init__(self, geometry, state, levels=None):
        if levels is not None:
            levels = levels.copy()
            levels[-1] = levels[-2]
        super().__init__(geometry, state, levels)


class WrongGradient(Reference):
    """Both scaled gradients are exchanged on their way to the gradient pass."""

    def _block_of(self, codes, draws):
        block = super()._block_of(codes, draws)
        correct = block.change
        block.change = lambda rows, s, d: correct(rows, d, s)  # type: ignore[method-assign]
        return block


class WrongLogistic(Reference):
    """Logistic losses are computed as hinge losses."""

    def __init__(self, geometry, state, levels=None):
        if state.settings.loss == Loss.LOGISTIC:
            state = replace(state, settings=replace(state.settings, loss=Loss.HINGE))
        super().__init__(geometry, state, levels)


class MissingLabels(Reference):
    """The labels of the second row of each four are 0."""

    def feed(self, codes, draws, labels):
        labels = labels.copy()
        labels[1::4] = 0
        super().feed(codes, draws, labels)


class ExchangedOutputs(Reference):
    """The updates of two outputs are exchanged."""

    def _update(self, change, rows, prox):
        self._master = self._master[::-1].copy()
        super()._update(change, rows, prox)
        self._master = self._master[::-1].copy()


class StuckSeed(Reference):
    """Each batch uses the random words of the first one."""

    def _read(self):
        kept = self._settings
        self._first_seed = getattr(self, "_first_seed", kept.seed)
        self._settings = replace(kept, seed=self._first_seed)
        try:
            return super()._read()
        finally:
            self._settings = kept


class NoProxWithStaleness(Reference):
    """The proximal operator is missing with staleness 1, which only random runs combine."""

    def __init__(self, geometry, state, levels=None):
        if state.settings.staleness:
            state = replace(state, settings=replace(state.settings, prox=Prox.NONE))
        super().__init__(geometry, state, levels)


class MissingClips(Reference):
    """Clipped weights are not counted."""

    def _one_by_one(self, change, output, columns, prox):
        before = self._saturations
        result = super()._one_by_one(change, output, columns, prox)
        self._saturations = before
        return result


# --- the table
@dataclass(frozen=True)
class EmulatedFault:
    """A fault in a block.

    Attributes
    ----------
    block : SystemBlock
        The block with the fault.
    device : type
        The emulator with the fault; the plain one when only the reference is faulty.
    reference : type
        The reference with the fault.
    build : mapping
        Options of a build that has the block.
    first : bool
        Whether the first failed check is one of this block.
    """

    block: SystemBlock
    device: type[EmulatorDevice] = EmulatorDevice
    reference: type[Reference] = Reference
    build: Mapping[str, Any] = field(default_factory=lambda: SMALL)
    first: bool = True

    @property
    def name(self) -> str:
        kind = self.device if self.device is not EmulatorDevice else self.reference
        return f"{self.block.name}: {kind.__name__}"

    def open(self, monkeypatch) -> EmulatorDevice:
        """The faulty device; until the end of the test all emulators have its reference."""
        monkeypatch.setattr(emulator_module, "Reference", self.reference)
        return self.device(AcceleratorConfig(**self.build), CAPACITY)


FAULTS = (
    *(EmulatedFault(names.REGISTER_FILE, kind) for kind in (DroppedBit, Aliased, HalfDecoded, Overwritten)),
    EmulatedFault(names.REGISTER_FILE, DroppedSeedBit, build=ROUNDING),
    EmulatedFault(names.HOST_MEMORY, Unflushed),
    EmulatedFault(names.MODEL_TRANSFER, WrongWeight),
    EmulatedFault(names.MODEL_TRANSFER, Narrow),
    EmulatedFault(names.TRACE, WrongLoss),
    EmulatedFault(names.TRACE, ConstantStamp),
    EmulatedFault(names.READ_PATH, reference=MissingLabels),
    EmulatedFault(names.READ_PATH, OneSet),
    EmulatedFault(names.DIGIT_DOT, reference=WrongDots),
    EmulatedFault(names.TABLE_DOT, reference=WrongDots, build=TABLE),
    EmulatedFault(names.CODEBOOKS, reference=WrongSlot, build=TABLE),
    EmulatedFault(names.SCALAR, reference=WrongLogistic),
    EmulatedFault(names.SCALAR, reference=deaf(step_negative=0x9000 | 8 << 16), first=False),
    EmulatedFault(names.SCALAR, reference=deaf(weight_exponent=0)),
    EmulatedFault(names.DIGIT_PASS, reference=WrongGradient),
    EmulatedFault(names.TABLE_PASS, reference=WrongGradient, build=TABLE),
    *(
        EmulatedFault(names.UPDATE, reference=deaf(**change))
        for change in ({"prox": Prox.NONE}, {"unpenalized_intercept": False}, {"bounds": (-(1 << 15), (1 << 15) - 1)})
    ),
    EmulatedFault(names.UPDATE, reference=MissingClips),
    EmulatedFault(names.MODEL_CORES, reference=ExchangedOutputs, build=TWO_OUTPUTS, first=False),
    EmulatedFault(names.SCHEDULE, reference=deaf(decay=1 << 16)),
    EmulatedFault(names.SEQUENCER, reference=deaf(staleness=0)),
    EmulatedFault(names.SEQUENCER, FailsInManyRows),
    EmulatedFault(names.MODEL_ROUNDING, reference=deaf(model_cut=0), build=ROUNDING),
    EmulatedFault(names.MODEL_ROUNDING, reference=StuckSeed, build=ROUNDING),
    EmulatedFault(names.MODEL_ROUNDING, reference=deaf(model_cut=0), build={**ROUNDING, **TABLE}),
    EmulatedFault(names.GRADIENT_ROUNDING, reference=deaf(scaled_gradient_cut=0), build=ROUNDING),
    EmulatedFault(names.ENCODER, FirstDrawSets, build=ENCODER),
    EmulatedFault(names.COUNTERS, FewerCycles, first=False),
    EmulatedFault(names.COUNTERS, FewerBeats, first=False),
    EmulatedFault(names.COUNTERS, NoStalls),
    *(EmulatedFault(names.RUN_CONTROL, kind) for kind in (NoAbort, NoBusError, Unlocked)),
    EmulatedFault(names.COMPLETE, reference=NoProxWithStaleness),
    EmulatedFault(names.THROUGHPUT, FailsInMeasurements),
)

"""Random encodings, and the coverpoints of the encoder.

Each encoding is compared with the reference and the host's encoder: undisturbed, with stalls, after aborts and resets,
with errors of the memory. Modes and sizes come from the encoding, which the registers hold; the values and where they
lie in their columns come from the rows and the host's positions; bursts and stalls from the harness's monitor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.draws import GROUP_SETS
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ENCODER_BASE_BITS, ENCODER_LANES, POSITION_FRACTION, ValueType
from bitlane.contract.layout import BURST_BEATS, CHUNK, DIGIT_BITS, LABELS_PER_WORD
from bitlane.contract.modes import ErrorCode
from bitlane.contract.precision import Precision
from bitlane.contract.registers import CONTROL_ENCODE
from bitlane.errors import DeviceError
from bitlane.quantization.positions import position_map
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.equivalence.encoder_soak import EncoderRig, EncodingCase, encoded
from bitlane_verify.equivalence.random_jobs import Random
from bitlane_verify.equivalence.rig import random_stalls

from . import buses
from .covergroup import Covergroup
from .illegal_registers import illegal_encodings
from .watched_device import WatchedDevice

CONFIG = AcceleratorConfig(max_features=512, row_buffer_beats=512, encoder=2)
TYPES = tuple(each.name for each in ValueType)
REGIONS = ("base", "base and draws", "draws")
RANKS = ("lowest", "between", "highest")  # of a value in its column
VALUES = ("least of the type", "negative", "zero", "positive", "largest of the type")
PHASES = ("reading", "writing")
DIGITS = (*range(ENCODER_BASE_BITS // DIGIT_BITS + 1),)


def declare(config: AcceleratorConfig) -> Covergroup:
    """Return the coverpoints of a build's encoder, empty."""
    group = Covergroup()
    group.cross("values, regions", TYPES, REGIONS)
    group.declare("base digits", DIGITS)
    group.declare("draw sets of a start", (*range(config.encoder + 1),))
    group.declare("number of a draw set", (*range(GROUP_SETS),))
    group.declare("values of the last part", (*range(1, ENCODER_LANES + 1),))
    group.declare("parts of the last chunk", (*range(1, CHUNK // ENCODER_LANES + 1),))
    group.declare("rows of the last label word", (*range(1, LABELS_PER_WORD + 1),))
    group.declare("value", [f"{kind} x {value}" for kind in TYPES for value in _values_of(kind)])
    group.cross("rank in the column", TYPES, RANKS)
    group.declare("write burst", (*range(1, BURST_BEATS + 1),))
    buses.declare(group)
    group.declare("end", ("NONE", "CONFIGURATION", "ABORTED", *buses.MEMORY_ERRORS))
    group.cross("interrupted", ("abort", "reset"), PHASES)
    group.declare("refused", (*illegal_encodings(config), "too few lines"))
    return group


def _values_of(kind: str) -> tuple[str, ...]:
    unsigned = ("zero", "positive", "largest of the type")
    return {"UINT8": unsigned, "INT16": VALUES, "FLOAT32": VALUES[1:4]}[kind]


def open_rig(config: AcceleratorConfig, library: Path) -> EncoderRig:
    """Return the rig of a build, with devices for `EncoderStimulus`."""
    return EncoderRig(config, lambda config, size, timing: WatchedDevice(config, size, timing, library=library))


class EncoderStimulus:
    """Random encodings of one build; they fill a covergroup.

    Parameters
    ----------
    rig : EncoderRig
        The build, whose devices are WatchedDevices, and its reference.
    group : Covergroup
        What `declare` returned for it.

    Attributes
    ----------
    failures : list of str
        What was wrong, with the seed.
    """

    def __init__(self, rig: EncoderRig, group: Covergroup):
        self._rig, self._group = rig, group
        self.failures: list[str] = []

    def run(self, seed: int) -> None:
        """Do an encoding of a kind that the seed chooses."""
        rng = np.random.default_rng(seed)
        kinds: tuple[Callable[[Random, EncodingCase, MemoryTiming], str], ...] = (
            *[self._compared] * 6,
            *[self._interrupted] * 3,
            *[self._failed] * 3,
            self._refused,
        )
        kind = kinds[rng.integers(len(kinds))]
        case, timing = EncodingCase.random(rng, seed, self._rig.config), self._rig.timing(rng)
        wrong = kind(rng, case, timing)
        if not wrong and kind != self._compared:
            wrong = self._rig.compare(EncodingCase.random(rng, seed, self._rig.config), timing, Disturbance())
            wrong = wrong and f"the next encoding: {wrong}"
        if wrong:
            self.failures.append(f"seed {seed}, {kind.__name__.strip('_')}: {wrong}")

    def devices(self) -> list[WatchedDevice]:
        """Return all devices of the rig."""
        return [self._device(timing) for timing in self._rig.rtl]

    def sample_buses(self) -> None:
        """Sample all that the monitors of the devices have seen so far."""
        for device in self.devices():
            monitor = device.monitor
            for beats in range(1, BURST_BEATS + 1):
                self._group.hit("write burst", beats, times=monitor.write_lengths[beats])
            buses.sample(self._group, monitor)

    # --- kinds of encodings; each returns what was wrong, or ""
    def _compared(self, rng: Random, case: EncodingCase, timing: MemoryTiming) -> str:
        wrong = self._rig.compare(case, timing, random_stalls(rng))
        if not wrong:
            sample(self._group, case, self._rig.config)
            self._group.hit("end", ErrorCode.NONE.name)
        return wrong

    def _interrupted(self, rng: Random, case: EncodingCase, timing: MemoryTiming) -> str:
        """Abort, or reset the design, in any cycle of the first start, or while the last words are written."""
        happening = ("abort", "reset")[rng.integers(2)]
        phases: list[str | None] = []
        _, started = next(case.encoding.starts(self._rig.config.encoder))
        cycles = predict_encoding(started.geometry, started.value_type, started.writes_base, len(started.sets)).least
        wait = int(rng.integers(cycles)) if rng.integers(2) else max(0, cycles - int(rng.integers(80)))

        def interrupt(device: WatchedDevice) -> None:
            device.run(wait)
            read = device.counters.read_beats - before
            phases.append(None if device.irq else PHASES[read >= started.source_words])
            device.abort() if happening == "abort" else device.reset()

        device = self._device(timing)
        device.on_start, before = interrupt, device.counters.read_beats
        slow = Disturbance(int(rng.integers(1 << 31)), stall_w=0.9, stall_aw=0.9)
        device.disturb(slow if rng.integers(2) else Disturbance())
        error = self._ended(device, case)
        if phases[0] is None:  # it had ended
            return ""
        if happening == "abort" and error != ErrorCode.ABORTED.name:
            return f"an abort ended with {error}"
        if happening == "reset" and error != "lost":
            return f"a reset ended with {error}"
        self._group.hit("interrupted", happening, phases[0])
        if happening == "abort":
            self._group.hit("end", ErrorCode.ABORTED.name)
        return ""

    def _failed(self, rng: Random, case: EncodingCase, timing: MemoryTiming) -> str:
        encoding = case.encoding
        side, error = ("read", "write")[rng.integers(2)], ("slave", "decode")[rng.integers(2)]
        words = encoding.geometry.base_words if encoding.writes_base else encoding.geometry.draw_words
        bursts = (encoding.source_words if side == "read" else words) // BURST_BEATS
        which: dict[str, Any] = {f"{side}_error_burst": int(rng.integers(bursts + 1)), "error": error}
        device = self._device(timing)
        device.disturb(dataclasses.replace(random_stalls(rng), **which))
        expected = ErrorCode[f"{side}_{error}".upper()].name
        ended = self._ended(device, case)
        if ended not in (expected, ErrorCode.NONE.name):
            return f"{ended} instead of {expected}"
        if ended == expected:
            self._group.hit("end", expected)
        return ""

    def _refused(self, rng: Random, case: EncodingCase, timing: MemoryTiming) -> str:
        """An encoding, and then each rule in turn broken in its registers, and a source region that ends early."""
        if wrong := self._compared(rng, case, timing):
            return wrong
        device = self._device(timing)
        device.disturb(Disturbance())
        rules = illegal_encodings(self._rig.config) | {"too few lines": {"source_lines": 0}}
        for rule, values in rules.items():
            if wrong := device.refuses(CONTROL_ENCODE, values):
                return f"{rule}: {wrong}"
            self._group.hit("refused", rule)
            self._group.hit("end", ErrorCode.CONFIGURATION.name)
        return ""

    # --- helpers
    def _device(self, timing: MemoryTiming) -> WatchedDevice:
        device = self._rig.rtl[timing]
        assert isinstance(device, WatchedDevice)
        return device

    @staticmethod
    def _ended(device: WatchedDevice, case: EncodingCase) -> str:
        """Return how an encoding ended: an error code, or "lost" when the driver found the device reset."""
        try:
            encoded(device, case.encoding, case.source)
        except DeviceError as error:
            return ErrorCode(error.code).name if error.code else "lost"
        finally:
            device.on_start = None
        return ErrorCode.NONE.name


def sample(group: Covergroup, case: EncodingCase, config: AcceleratorConfig) -> None:
    """Sample an encoding that was found equal to the reference."""
    encoding, kind = case.encoding, case.encoding.value_type.name
    geometry, sets = encoding.geometry, len(encoding.sets)
    group.hit("values, regions", kind, REGIONS[0 if not sets else 1 if encoding.writes_base else 2])
    group.hit("base digits", geometry.base_digits)
    for _, start in encoding.starts(config.encoder):
        group.hit("draw sets of a start", len(start.sets))
        for each in start.sets:
            group.hit("number of a draw set", each.number)
    group.hit("values of the last part", (geometry.features - 1) % ENCODER_LANES + 1)
    group.hit("parts of the last chunk", (geometry.features - 1) % CHUNK // ENCODER_LANES + 1)
    group.hit("rows of the last label word", (geometry.rows - 1) % LABELS_PER_WORD + 1)
    for value, count in _values(case.X).items():
        if value in _values_of(kind):
            group.hit("value", kind, value, times=count)
    precision = Precision(geometry.stored_bits, "double" if geometry.draws else "nearest")
    positions = position_map(case.scaling, precision).positions(case.X)
    highest = 2.0 ** (precision.base_bits + POSITION_FRACTION)
    counts = (positions == 0, (positions > 0) & (positions < highest), positions == highest)
    for rank, count in zip(RANKS, counts, strict=True):
        group.hit("rank in the column", kind, rank, times=int(count.sum()))


def _values(X: np.ndarray[Any, Any]) -> dict[str, int]:
    """Return how many values of each of VALUES a table has."""
    limits = np.iinfo(X.dtype) if X.dtype.kind in "iu" else np.finfo(X.dtype)
    signs = (limits.min == X, X < 0, X == 0, X > 0, limits.max == X)
    return {name: int(each.sum()) for name, each in zip(VALUES, signs, strict=True)}

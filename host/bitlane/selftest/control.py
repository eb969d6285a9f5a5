"""Checks of runs that must not end normally: illegal configurations, an abort, and addresses without memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.layout import CODEBOOK_BITS, MAX_DIGITS, MAX_EPOCHS, MAX_ROWS, level_slots
from bitlane.contract.modes import ErrorCode, Loss
from bitlane.contract.prng import MAX_CUT
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    FIELDS,
    REGISTERS,
    STATUS_BUSY,
    STATUS_ERROR_SHIFT,
    address_registers,
)
from bitlane.devices.protocol import Device
from bitlane.driver.job import Job
from bitlane.errors import DeviceError

from .bench import BlockCheck, CheckContext, CheckFailed, DeviceProxy, expect
from .blocks import CONFIGURATION, RUN_CONTROL
from .cases import Case, reference_epochs
from .datapath import precisions
from .registers import WORD, restored_registers, writable_words
from .report import Figures

WRITTEN = ("model_out", "trace")  # addresses of these and of further ports
STRIDES = ("base_stride", "draw_stride")
MISALIGNMENT = 4  # bytes: half of the narrowest beat
INVERTED_BOUNDS = 0xFFFF_0000  # low 0, high below it
EPOCHS_SEEN = 4  # of a run that is then aborted
GROUPS, EPOCHS = 500, 2000  # of it: a third of a second at 100 MHz
ALWAYS_WRITABLE = "irq_enable"  # also during a run; the driver uses it

Edit = Callable[[int], int]


class _Edited(DeviceProxy):
    """A device on which register words get other values than those that the driver writes."""

    def __init__(self, device: Device, edits: Mapping[int, Edit]):
        super().__init__(device)
        self._edits = edits

    def write(self, offset: int, value: int) -> None:
        """Write the edited value."""
        self.device.write(offset, self._edits[offset](value) if offset in self._edits else value)


class _Beyond(DeviceProxy):
    """A device on which the top bit of a 64-bit address is set. Hardware that ignores it would run as usual."""

    def __init__(self, device: Device, offset: int):
        super().__init__(device)
        self._low, self._high = offset, offset + 4

    def write(self, offset: int, value: int) -> None:
        """Write the upper half with the lower one, because drivers of short addresses do not write it."""
        if offset != self._high:
            self.device.write(offset, value)
        if offset in (self._low, self._high):
            self.device.write(self._high, 1 << 31)


class _StatusRecorder(DeviceProxy):
    """A device that remembers the last status, which an acknowledgement clears."""

    status = 0

    def read(self, offset: int) -> int:
        """Return the 32-bit register at a byte offset."""
        value = self.device.read(offset)
        if offset == REGISTERS["status"].offset:
            self.status = value
        return value


@dataclass(frozen=True)
class _Illegal:
    """An illegal configuration: values of registers and of fields of registers."""

    values: Mapping[str, int]

    @property
    def name(self) -> str:
        return ", ".join(f"{name}={value:#x}" for name, value in self.values.items())

    def edits(self) -> dict[int, Edit]:
        """Edits of register words, by offset."""
        edits: dict[int, Edit] = {}
        for name, value in self.values.items():
            if name in FIELDS:
                register, field = FIELDS[name]
                mask = (1 << field.bits) - 1 << field.low
                inner = edits.get(register.offset, lambda word: word)
                edits[register.offset] = lambda word, inner=inner, mask=mask, bits=value << field.low: (  # type: ignore[misc]
                    inner(word) & ~mask | bits
                )
            else:
                edits[REGISTERS[name].offset] = lambda _, value=value: value  # type: ignore[misc]
        return edits


def refused(bench: CheckContext) -> Figures:
    """Check that illegal configurations end with CONFIGURATION before a beat is read, and that a legal run follows."""
    job, _ = Case().make(bench)
    devices: dict[str, DeviceProxy] = {
        illegal.name: _Edited(bench.device, illegal.edits()) for illegal in _illegal_values(bench)
    }
    addresses = address_registers(bench.config.ports)
    for name in (*addresses, *STRIDES):
        edits: dict[int, Edit] = {REGISTERS[name].offset: lambda value: value | MISALIGNMENT}
        devices[f"{name} misaligned"] = _Edited(bench.device, edits)
    if bench.config.address_bits < 64:
        for name in addresses:
            devices[f"{name} beyond {bench.config.address_bits} bits"] = _Beyond(bench.device, REGISTERS[name].offset)
    with restored_registers(bench):
        accepted = [name for name, device in devices.items() if not _refuses(bench, device, job)]
    expect(not accepted, f"{len(accepted)} of {len(devices)} illegal settings were accepted: {'; '.join(accepted)}")
    bench.driver.run(job)
    return {"configurations": len(devices)}


def _illegal_values(bench: CheckContext) -> list[_Illegal]:
    """Values outside the limits of the build."""
    config = bench.config
    values: list[dict[str, int]] = [
        *({name: 0} for name in ("features", "groups", "batch_groups", "epochs", "draw_sets")),
        {"features": config.max_features + 1},
        {"groups": MAX_ROWS + 1},
        {"batch_groups": MAX_ROWS + 1},
        {"epochs": MAX_EPOCHS + 1},
        {"decay": DECAY_RANGE[0] - 1},
        {"decay": DECAY_RANGE[1] + 1},
        {"bounds": INVERTED_BOUNDS},
        {"loss": max(Loss) + 1},
        {"staleness": 1, "features": config.max_features},
        *({tail: rows} for tail in ("batch_tail", "epoch_tail") for rows in (0, config.rows_per_beat + 1)),
    ]
    if config.table_lanes:
        values += [{"base_digits": min(CODEBOOK_BITS) - 1}, {"base_digits": max(CODEBOOK_BITS) + 1}, {"draws": 0}]
        if config.max_chunks * level_slots(max(CODEBOOK_BITS)) > config.level_slots:
            values.append({"base_digits": max(CODEBOOK_BITS), "features": config.max_features})
    else:
        values += [{"base_digits": 0, "draws": 0}, {"base_digits": MAX_DIGITS, "draws": 1}]
        too_long = (config.max_row_words // MAX_DIGITS + 1) * config.chunk_features
        if too_long <= config.max_features:
            values.append({"base_digits": MAX_DIGITS, "draws": 0, "features": too_long})
    if config.random_rounding:
        values += [{"model_cut": MAX_CUT + 1}, {"scaled_gradient_cut": MAX_CUT + 1}]
    return [_Illegal(each) for each in values]


def _refuses(bench: CheckContext, device: DeviceProxy, job: Job) -> bool:
    """Whether the job ends with CONFIGURATION before a beat is read. A run that ends an epoch is stopped."""
    try:
        bench.driver_of(device).run(job, on_epoch=_stop)
    except DeviceError as error:
        return error.code == ErrorCode.CONFIGURATION and bench.read("beats") == 0
    except CheckFailed:
        pass
    return False


def _stop(epoch: int, losses: NDArray[np.int64]) -> None:
    raise CheckFailed(f"epoch {epoch} ended")


class _Enough(Exception):
    """Enough epochs of a run have ended."""


def aborted(bench: CheckContext) -> Figures:
    """Write registers during a run, which must not change it; abort it; and check the next run."""
    job, samples = Case(
        max(precisions(bench.config), key=lambda each: each.bits),
        features=64,
        rows=GROUPS * bench.config.rows_per_beat,
        batch=64,
        snapshots=False,
    ).make(bench)
    expected = [epoch.loss for epoch in reference_epochs(replace(job, epochs=EPOCHS_SEEN), samples)]
    losses: list[NDArray[np.int64]] = []

    def watch(epoch: int, loss: NDArray[np.int64]) -> None:
        if not losses:
            _write_random_registers(bench)
        losses.append(loss.copy())
        if len(losses) == EPOCHS_SEEN:
            raise _Enough

    recorder = _StatusRecorder(bench.device)
    with restored_registers(bench):
        try:
            bench.driver_of(recorder).run(replace(job, epochs=EPOCHS), watch)
        except _Enough:
            pass
        else:
            raise CheckFailed(f"a run of {EPOCHS:,} epochs ended before {EPOCHS_SEEN} of them were reported")
        epochs = bench.read("epoch")
    expect(not recorder.status & STATUS_BUSY, f"still busy after an abort: status is {recorder.status:#x}")
    code = recorder.status >> STATUS_ERROR_SHIFT & 0xFF
    expect(code == ErrorCode.ABORTED, f"an aborted run ended with error code {code} instead of {ErrorCode.ABORTED:d}")
    wrong = [epoch for epoch, pair in enumerate(zip(losses, expected, strict=True)) if not np.array_equal(*pair)]
    expect(not wrong, f"writing registers during a run changed its losses in epochs {wrong}")
    Case().check(bench)
    return {"epochs before the abort": epochs}


def _write_random_registers(bench: CheckContext) -> None:
    """Write random values to every register of a run."""
    for word in writable_words(bench):
        if word.name != ALWAYS_WRITABLE:
            bench.device.write(word.offset, int(bench.rng.integers(WORD)))


def bus_errors(bench: CheckContext) -> Figures:
    """Run with each address outside the memory, on devices that name such an address; and check the next run.

    Boards name none, because a stray access could disturb other blocks of the system.
    """
    outside = getattr(bench.device, "unmapped_address", None)
    if outside is None:
        return {"result": "left out: a stray access could disturb other blocks of the board"}
    job, _ = Case().make(bench)
    names = address_registers(bench.config.ports)
    code: ErrorCode | int
    for name in names:
        expected = ErrorCode.WRITE_DECODE if name.startswith(WRITTEN) else ErrorCode.READ_DECODE
        low = REGISTERS[name].offset
        edits: dict[int, Edit] = {low: lambda _: outside & WORD, low + 4: lambda _: outside >> 32}
        code = ErrorCode.NONE
        with restored_registers(bench):
            try:
                bench.driver_of(_Edited(bench.device, edits)).run(job)
            except DeviceError as error:
                code = error.code
        message = f"a run with {name} outside the memory ended with error code {ErrorCode(code).name}"
        expect(code == expected, f"{message} instead of {expected.name}")
        Case().check(bench)
    return {"addresses": len(names)}


def interrupt(bench: CheckContext) -> Figures:
    """Check the interrupt line on simulated devices that show it: high after a run until it is acknowledged."""
    if not hasattr(bench.device, "irq"):
        return {"result": f"left out: {bench.device.name} does not show its interrupt line"}
    seen = []

    class InterruptRecorder(DeviceProxy):
        def write(self, offset: int, value: int) -> None:
            """Record the line around an acknowledgement."""
            acknowledges = offset == REGISTERS["control"].offset and value & CONTROL_ACKNOWLEDGE
            before = bool(self.device.irq)  # type: ignore[attr-defined]
            self.device.write(offset, value)
            if acknowledges and not value & CONTROL_ABORT:
                seen.append((before, bool(self.device.irq)))  # type: ignore[attr-defined]

    job, _ = Case().make(bench)
    bench.driver_of(InterruptRecorder(bench.device)).run(job)
    expect(seen == [(True, False)], f"the interrupt before and after the acknowledgement is {seen}, not high, then low")
    silent = _Edited(bench.device, {REGISTERS["irq_enable"].offset: lambda _: 0})
    seen.clear()
    bench.driver_of(InterruptRecorder(silent)).run(job)
    expect(seen == [(False, False)], f"the interrupt is {seen} with irq_enable=0, not low")
    return {"runs": 2}


CONFIGURATION_CHECKS = (BlockCheck(CONFIGURATION, "illegal register values", refused),)
RUN_CHECKS = (
    BlockCheck(RUN_CONTROL, "abort", aborted),
    BlockCheck(RUN_CONTROL, "addresses outside the memory", bus_errors),
    BlockCheck(RUN_CONTROL, "interrupt", interrupt),
)

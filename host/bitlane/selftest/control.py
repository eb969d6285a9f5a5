"""Checks of what is no ordinary run: configurations that must be refused, and a run that is stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.layout import MAX_EPOCHS, MAX_ROWS
from bitlane.contract.modes import ErrorCode, Loss
from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.contract.registers import REGISTERS, STATUS_BUSY, STATUS_ERROR_SHIFT
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.driver.programming import ADDRESSES
from bitlane.errors import DeviceError

from .bench import Check, CheckContext, CheckFailed, DeviceProxy, expect
from .cases import Case, reference_epochs
from .registers import WORD, WRITABLE, kept
from .report import Figures

STRIDES = ("base_stride", "draw_stride")
MISALIGNMENT = 4  # bytes: half of the narrowest beat
TURNED_BOUNDS = 0xFFFF_0000  # low 0, high below it
EPOCHS_SEEN = 4  # of a run that is then stopped
GROUPS, EPOCHS = 500, 2000  # of it: a third of a second at 100 MHz
ALWAYS_WRITABLE = "irq_enable"  # in the middle of a run too, and the driver's own affair


class _Twisted(DeviceProxy):
    """A register word is given another value than the driver's."""

    def __init__(self, device: Device, offset: int, twist: Callable[[int], int]):
        super().__init__(device)
        self._offset = offset
        self._twist = twist

    def write(self, offset: int, value: int) -> None:
        """Writes the twisted value of that word, and others as they are."""
        self.device.write(offset, self._twist(value) if offset == self._offset else value)


class _Beyond(DeviceProxy):
    """The top one of an address's 64 bits is set: hardware that drops it reads and writes where it should."""

    def __init__(self, device: Device, offset: int):
        super().__init__(device)
        self._low, self._high = offset, offset + 4

    def write(self, offset: int, value: int) -> None:
        """Writes the upper half with the lower one: a driver need not, where addresses are short."""
        if offset != self._high:
            self.device.write(offset, value)
        if offset in (self._low, self._high):
            self.device.write(self._high, 1 << 31)


class _Overheard(DeviceProxy):
    """Remembers the last status, which an acknowledgement clears."""

    status = 0

    def read(self, offset: int) -> int:
        """The 32-bit register at a byte offset."""
        value = self.device.read(offset)
        if offset == REGISTERS["status"].offset:
            self.status = value
        return value


def refused(bench: CheckContext) -> Figures:
    """What makes no valid run ends with CONFIGURATION before a beat is read; afterwards a run goes well."""
    job, _ = Case().make(bench)
    orders = [(f"{name}={value:#x}", _given(bench, name, value), job) for name, value in _bad_values(bench)]
    orders += [(f"{name} misaligned", _misaligned(bench, name), job) for name in (*ADDRESSES, *STRIDES)]
    if _read(bench, "address_bits") < 64:
        orders += [(f"{name} beyond the port", _beyond(bench, name), job) for name in ADDRESSES]
    wrong = replace(job.state.settings, loss=cast(Loss, max(Loss) + 1))
    no_loss = replace(job, state=replace(job.state, settings=wrong))
    orders.append((f"loss={max(Loss) + 1}", bench.driver, no_loss))
    with kept(bench.device):
        accepted = [what for what, driver, order in orders if not _refuses(bench, driver, order)]
    expect(not accepted, f"{len(accepted)} of {len(orders)} were not refused: {', '.join(accepted)}")
    Case().check(bench)
    return {"configurations": len(orders)}


def _bad_values(bench: CheckContext) -> list[tuple[str, int]]:
    """Registers, and values outside of their limits."""
    zeros = [(name, 0) for name in ("features", "groups", "batch_groups", "epochs", "draw_sets")]
    beyond = [
        ("features", bench.driver.config.max_features + 1),
        ("groups", MAX_ROWS + 1),
        ("batch_groups", MAX_ROWS + 1),
        ("epochs", MAX_EPOCHS + 1),
    ]
    return [
        *zeros,
        *beyond,
        ("decay", DECAY_RANGE[0] - 1),
        ("decay", DECAY_RANGE[1] + 1),
        ("bounds", TURNED_BOUNDS),
    ]


def _given(bench: CheckContext, name: str, value: int) -> Driver:
    return bench.driver_of(_Twisted(bench.device, REGISTERS[name].offset, lambda _: value))


def _misaligned(bench: CheckContext, name: str) -> Driver:
    offset = REGISTERS[name].offset
    return bench.driver_of(_Twisted(bench.device, offset, lambda value: value | MISALIGNMENT))


def _beyond(bench: CheckContext, name: str) -> Driver:
    return bench.driver_of(_Beyond(bench.device, REGISTERS[name].offset))


def _refuses(bench: CheckContext, driver: Driver, job: Job) -> bool:
    """Whether the job ends with CONFIGURATION, no beat read; one that begins an epoch all the same is stopped."""
    try:
        driver.run(job, on_epoch=_stop)
    except DeviceError as error:
        return error.code == ErrorCode.CONFIGURATION and _read(bench, "beats") == 0
    except CheckFailed:
        pass
    return False


def _stop(epoch: int, losses: NDArray[np.int64]) -> None:
    raise CheckFailed(f"epoch {epoch} ended")


class _Enough(Exception):
    """Enough epochs of a run were seen."""


def stopped(bench: CheckContext) -> Figures:
    """Register writes in the middle of a run change nothing of it; an abort ends it; the next run goes well."""
    job, samples = Case(
        Precision(FULL_BITS), features=64, rows=GROUPS * bench.driver.config.rows_per_beat, batch=64, snapshots=False
    ).make(bench)
    expected = [epoch.loss for epoch in reference_epochs(replace(job, epochs=EPOCHS_SEEN), samples)]
    losses: list[NDArray[np.int64]] = []

    def watch(epoch: int, loss: NDArray[np.int64]) -> None:
        if not losses:
            _scribble(bench)
        losses.append(loss.copy())
        if len(losses) == EPOCHS_SEEN:
            raise _Enough

    overheard = _Overheard(bench.device)
    with kept(bench.device):
        try:
            bench.driver_of(overheard).run(replace(job, epochs=EPOCHS), watch)
        except _Enough:
            pass
        else:
            raise CheckFailed(f"{EPOCHS:,} epochs ended before {EPOCHS_SEEN} of them were reported")
        epochs = _read(bench, "epoch")
    expect(not overheard.status & STATUS_BUSY, f"still busy after an abort (status {overheard.status:#x})")
    code = overheard.status >> STATUS_ERROR_SHIFT & 0xFF
    expect(code == ErrorCode.ABORTED, f"an aborted run ended with error code {code} instead of {ErrorCode.ABORTED:d}")
    wrong = [epoch for epoch, pair in enumerate(zip(losses, expected, strict=True)) if not np.array_equal(*pair)]
    expect(not wrong, f"registers written in the middle of a run changed its losses in epochs {wrong}")
    Case().check(bench)
    return {"epochs until the abort": epochs}


def _scribble(bench: CheckContext) -> None:
    """Random values for every register that a run is made of."""
    for word in WRITABLE:
        if word.name != ALWAYS_WRITABLE:
            bench.device.write(word.offset, int(bench.rng.integers(WORD)))


def _read(bench: CheckContext, name: str) -> int:
    """The low 32 bits of a register."""
    return bench.device.read(REGISTERS[name].offset)


CHECKS = (
    Check("refusals: configurations that make no run", refused),
    Check("abort: in the middle of a run", stopped),
)

"""The driver: one run of the accelerator on any `Device`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .contract import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    DIGIT_BITS,
    IDENTITY,
    LOSS,
    REGISTERS,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
    TRACE_BYTES,
    TRACE_WORDS,
    VERSION,
    WORD_BYTES,
    ErrorCode,
)
from .devices.protocol import Buffer, Device
from .errors import DataError, DeviceError
from .fixed import NO_DECAY
from .layout import Geometry, Words, pack_master, unpack_master

PAGE = 4096  # what devices round a buffer up to
PROGRESS_SECONDS = 1.0  # between two looks at the progress registers

_EXPLANATIONS = {
    ErrorCode.CONFIGURATION: "it refused a register: a size beyond this build, or a misaligned address",
    ErrorCode.READ_SLAVE: "memory answered a read with SLVERR: is the buffer in memory that it can reach?",
    ErrorCode.READ_DECODE: "it read an address where there is no memory",
    ErrorCode.WRITE_SLAVE: "memory answered a write with SLVERR: is the buffer in memory that it may write?",
    ErrorCode.WRITE_DECODE: "it wrote to an address where there is no memory",
    ErrorCode.ABORTED: "the run was aborted",
}


@dataclass(frozen=True)
class Job:
    """One start of the accelerator.

    Parameters
    ----------
    geometry: of an epoch.
    base: base regions, uint64 [base_words] each: one that all sets share, or one a set.
    draws: draw regions, uint64 [draw_words] each, one a set; empty without double sampling.
    master: int32 [n], stored master weights to begin with.
    epochs, batch: of this start. Epoch e reads set `e mod sets`.
    step, rate: registers as `fixed.mantissa_exponent` makes them; step is divided by the batch already.
    decay: factor on both after each epoch, in 2**-16.
    shrink: index into `contract.SHRINK_SHIFTS`.
    phase: shrink accumulator.
    snapshots: whether the model of each epoch is wanted.
    """

    geometry: Geometry
    base: Sequence[Words]
    draws: Sequence[Words]
    master: NDArray[np.int32]
    epochs: int
    batch: int
    step: int
    rate: int = 0
    decay: int = NO_DECAY
    shrink: int = 0
    phase: int = 0
    snapshots: bool = False

    @property
    def sets(self) -> int:
        """Sets that the epochs go through."""
        return max(len(self.base), len(self.draws))


@dataclass(frozen=True)
class Counters:
    """What the hardware counted in a run."""

    cycles: int
    beats: int
    stall_memory: int
    stall_model: int
    saturations: int


@dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Parameters
    ----------
    loss: int64 [epochs], sum over rows of r_1 r_2 in units of 2**-32; `loss_value` makes numbers of it.
    epoch_cycles: int64 [epochs], cycles from the start to the end of each epoch.
    master: int32 [n], stored master weights at the end.
    snapshots: int32 [epochs, n] after each epoch, or None.
    step, rate, phase: registers to go on with.
    counters: see `Counters`.
    """

    loss: NDArray[np.int64]
    epoch_cycles: NDArray[np.int64]
    master: NDArray[np.int32]
    snapshots: NDArray[np.int32] | None
    step: int
    rate: int
    phase: int
    counters: Counters


def loss_value(loss: int) -> float:
    """A sum of squared residuals, in squared label units, of the integer that the hardware stored."""
    return loss * 2.0**-LOSS.fraction


def job_bytes(geometry: Geometry, epochs: int, base_sets: int, draw_sets: int, snapshots: bool) -> int:
    """Bytes that the buffers of a job take on a device."""
    models = epochs if snapshots else 1
    sizes = [
        base_sets * geometry.base_words * WORD_BYTES,
        draw_sets * geometry.draw_words * WORD_BYTES,
        geometry.model_bytes,
        models * geometry.model_bytes,
        epochs * TRACE_BYTES,
    ]
    return sum(-(-size // PAGE) * PAGE for size in sizes)


class Accelerator:
    """The driver of one device.

    Parameters
    ----------
    device: any `Device`.
    patience: seconds without any progress (the cycle and epoch registers stand still) after which a run is
        given up. A run that moves may take as long as it needs.

    Raises
    ------
    DeviceError: what answers is not a bitlane accelerator, or has a register map of another version.
    """

    def __init__(self, device: Device, patience: float = 60.0):
        self.device = device
        self.patience = patience
        identity = self._read("identity")
        if identity != IDENTITY:
            raise DeviceError(
                f"{device.name}: the identity register holds {identity:#010x} instead of {IDENTITY:#010x}: "
                "no bitlane accelerator is loaded there"
            )
        version = self._read("version")
        if version >> 16 != VERSION >> 16 or version < VERSION:
            raise DeviceError(
                f"{device.name}: register map {version >> 16}.{version & 0xFFFF}, but this driver needs "
                f"{VERSION >> 16}.{VERSION & 0xFFFF}: take both from one release"
            )
        self.build = self._read("build")
        self.max_features = self._read("max_features")
        self.max_row_words = self._read("max_row_words")
        self.port_bits = self._read("port_bits")

    def check(self, geometry: Geometry) -> None:
        """DataError if rows of this geometry are too long for the hardware; it says what would fit."""
        if geometry.features > self.max_features:
            raise DataError(
                f"X has {geometry.features} features, but {self.device.name} holds {self.max_features}: "
                "leave some out, or build the hardware for more"
            )
        if geometry.row_words > self.max_row_words:
            raise DataError(
                f"a row of {geometry.features} features takes {geometry.row_words} words, but "
                f"{self.device.name} buffers {self.max_row_words}: "
                f"lower bits to {self.max_row_words // geometry.chunks * DIGIT_BITS} or below"
            )

    def run(self, job: Job, on_epoch: Callable[[int, int], None] | None = None) -> Outcome:
        """Starts the accelerator once and waits for it. Buffers are freed however it ends.

        Parameters
        ----------
        job: what to run.
        on_epoch: called with the number of each epoch, from 0, and its loss integer, soon after it ended.

        Raises
        ------
        DataError: rows too long for the hardware.
        DeviceError: it is busy, has no room, makes no progress, or ended with an error (see `.code`).
        """
        self.check(job.geometry)
        if self._read("status") & STATUS_BUSY:
            raise DeviceError(f"{self.device.name} is busy with another run")
        with ExitStack() as stack:
            base = self._upload(stack, job.base)
            draws = self._upload(stack, job.draws)
            model_in = self._upload(stack, [pack_master(job.master)])
            models = job.epochs if job.snapshots else 1
            model_out = self._allocate(stack, models * job.geometry.model_words)
            trace = self._allocate(stack, job.epochs * TRACE_WORDS)
            trace.array[:] = 0
            self.device.flush(trace)
            self._configure(job, base, draws, model_in, model_out, trace)
            report = _Report(self.device, trace, on_epoch)
            code = self._start_and_wait(report)
            if code != ErrorCode.NONE:
                raise DeviceError(f"{self.device.name} ended with {code.name}: {_EXPLANATIONS[code]}", code)
            self.device.invalidate(model_out)
            return self._outcome(job, model_out, report)

    def _read(self, name: str) -> int:
        register = REGISTERS[name]
        return sum(self.device.read(register.offset + 4 * word) << 32 * word for word in range(register.words))

    def _write(self, name: str, value: int) -> None:
        register = REGISTERS[name]
        for word in range(register.words):
            self.device.write(register.offset + 4 * word, value >> 32 * word & 0xFFFF_FFFF)

    def _allocate(self, stack: ExitStack, words: int) -> Buffer:
        buffer = self.device.allocate(words * WORD_BYTES)
        stack.callback(buffer.free)
        return buffer

    def _upload(self, stack: ExitStack, regions: Sequence[Words]) -> Buffer | None:
        """One buffer with these regions one behind the other; None where there are none."""
        if not regions:
            return None
        buffer = self._allocate(stack, sum(len(region) for region in regions))
        start = 0
        for region in regions:
            buffer.array[start : start + len(region)] = region
            start += len(region)
        self.device.flush(buffer)
        return buffer

    def _configure(
        self,
        job: Job,
        base: Buffer | None,
        draws: Buffer | None,
        model_in: Buffer | None,
        model_out: Buffer,
        trace: Buffer,
    ) -> None:
        geometry = job.geometry
        address = {"base_address": base, "draw_address": draws, "model_in": model_in}
        values = {name: buffer.device_address if buffer else 0 for name, buffer in address.items()}
        values |= {
            "irq_enable": 1,
            "features": geometry.features,
            "rows": geometry.rows,
            "base_digits": geometry.base_digits,
            "draws": int(geometry.draws),
            "sets": job.sets,
            "epochs": job.epochs,
            "batch": job.batch,
            "step": job.step,
            "rate": job.rate,
            "decay": job.decay,
            "shrink": job.shrink,
            "snapshots": int(job.snapshots),
            "phase": job.phase,
            "base_stride": geometry.base_words * WORD_BYTES if len(job.base) > 1 else 0,
            "draw_stride": geometry.draw_words * WORD_BYTES,
            "model_out": model_out.device_address,
            "trace": trace.device_address,
        }
        for name, value in values.items():
            self._write(name, value)

    def _start_and_wait(self, report: _Report) -> ErrorCode:
        """Starts, waits until done, acknowledges. Whatever is raised meanwhile stops the device first."""
        self._write("control", CONTROL_START)
        try:
            status = self._wait(report)
        except BaseException:
            self._abort()
            raise
        self._write("control", CONTROL_ACKNOWLEDGE)
        return ErrorCode(status >> STATUS_ERROR_SHIFT & 0xFF)

    def _wait(self, report: _Report) -> int:
        """Polls STATUS until done; the deadline is about progress, not about time."""
        progress, moved = (-1, -1), time.monotonic()
        looked = moved
        while True:
            status = self._read("status")
            if report.wanted:
                report.update(self._read("epoch"))
            if status & STATUS_DONE:
                return status
            if not status & STATUS_BUSY:
                raise DeviceError(f"{self.device.name} forgot its run: it has been reset meanwhile")
            now = time.monotonic()
            if now - looked >= min(PROGRESS_SECONDS, self.patience):
                looked = now
                latest = (self._read("epoch"), self._read("beats"))
                if latest != progress:
                    progress, moved = latest, now
                elif now - moved > self.patience:
                    raise DeviceError(
                        f"{self.device.name} made no progress for {self.patience:g} seconds in epoch "
                        f"{latest[0]}, after {latest[1]} words read: does its clock run, does its memory answer?"
                    )

    def _abort(self) -> None:
        """Stops the device and waits until it is idle, or until patience ends."""
        self._write("control", CONTROL_ABORT)
        end = time.monotonic() + self.patience
        while self._read("status") & STATUS_BUSY and time.monotonic() < end:
            pass
        self._write("control", CONTROL_ACKNOWLEDGE)

    def _outcome(self, job: Job, model_out: Buffer, report: _Report) -> Outcome:
        records = report.records()
        words = job.geometry.model_words
        models = np.stack(
            [
                unpack_master(model_out.array[start : start + words], job.geometry.features)
                for start in range(0, words * (job.epochs if job.snapshots else 1), words)
            ]
        )
        return Outcome(
            loss=records[:, 0],
            epoch_cycles=records[:, 1],
            master=models[-1],
            snapshots=models if job.snapshots else None,
            step=self._read("step_now"),
            rate=self._read("rate_now"),
            phase=self._read("phase_now"),
            counters=Counters(
                **{name: self._read(name) for name in Counters.__dataclass_fields__},
            ),
        )


class _Report:
    """The trace, read while it is written: an epoch's record is there once its cycles are not 0."""

    def __init__(self, device: Device, trace: Buffer, on_epoch: Callable[[int, int], None] | None):
        self._device = device
        self._trace = trace
        self._on_epoch = on_epoch
        self._reported = 0

    @property
    def wanted(self) -> bool:
        """Whether anybody listens."""
        return self._on_epoch is not None

    def records(self) -> NDArray[np.int64]:
        """int64 [epochs, 2]: loss and cycles."""
        self._device.invalidate(self._trace)
        records: NDArray[np.int64] = self._trace.array.view(np.int64).reshape(-1, TRACE_WORDS).copy()
        return records

    def update(self, ended: int) -> None:
        """Calls back for the epochs that are new among the first `ended`."""
        if self._on_epoch is None or ended <= self._reported:
            return
        for loss, cycles in self.records()[self._reported : ended].tolist():
            if not cycles:
                break
            self._on_epoch(self._reported, loss)
            self._reported += 1

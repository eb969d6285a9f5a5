"""The driver: one run of the accelerator on any `Device`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from bitlane.contract.cycles import CycleCounts, predict
from bitlane.contract.formats import BOUND
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import CHUNK, DEFAULT_LEVEL_SLOTS, DIGIT_BITS, WORD_BITS, WORD_BYTES, level_slots
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import pack_master, unpack_master
from bitlane.contract.prng import after_batches
from bitlane.contract.registers import (
    CONTROL_ABORT,
    CONTROL_ACKNOWLEDGE,
    CONTROL_START,
    IDENTITY,
    REGISTERS,
    STATUS_BUSY,
    STATUS_DONE,
    STATUS_ERROR_SHIFT,
    VERSION,
)
from bitlane.devices.protocol import Buffer, Device
from bitlane.errors import DataError, DeviceError

from . import registers
from .job import Counters, Job, JobResult, SampleBuffers
from .trace import EpochTrace, OnEpoch

BOUND_MASK = (1 << BOUND.bits) - 1
SHORTEST_PAUSE = 1 << 12  # cycles between two looks at STATUS
LOOKS = 64  # at the trace, at most, until a run should be over
LONGEST_PAUSE = 1 << 30  # so that a run that fails is not waited for to its end
STRIDE_LIMIT = 1 << REGISTERS["base_stride"].bits
ADDRESSES = ("base_address", "draw_address", "model_in", "model_out", "trace")

_EXPLANATIONS = {
    ErrorCode.CONFIGURATION: "it refused a register: a size beyond this build, or a misaligned address",
    ErrorCode.READ_SLAVE: "memory answered a read with SLVERR: is the buffer in memory that it can reach?",
    ErrorCode.READ_DECODE: "it read an address where there is no memory",
    ErrorCode.WRITE_SLAVE: "memory answered a write with SLVERR: is the buffer in memory that it may write?",
    ErrorCode.WRITE_DECODE: "it wrote to an address where there is no memory",
    ErrorCode.ABORTED: "the run was aborted",
}


class Driver:
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
        self.timeout = patience
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
        self.rows_per_beat = self.port_bits // WORD_BITS
        self.outputs = self._read("outputs")
        self.random = bool(self._read("random_rounding"))
        self.address_bits = self._read("address_bits")
        self.level_slots = self._read("level_slots")

    @property
    def table(self) -> bool:
        """Whether its lanes look levels up in tables."""
        return self.level_slots > 0

    def check_fit(self, geometry: Geometry, staleness: int = 0) -> None:
        """DataError if the hardware is of another shape, or rows are too long for it; it says what would fit."""
        mine, theirs = (geometry.rows_per_beat, geometry.outputs), (self.rows_per_beat, self.outputs)
        if mine != theirs:
            raise DataError(
                f"the data is packed for width={mine[0] * WORD_BITS} and outputs={mine[1]}, but {self.device.name} "
                f"has width={theirs[0] * WORD_BITS} and outputs={theirs[1]}: open a device of the same build"
            )
        if geometry.codebook and not self.table:
            raise DataError(
                f"the features have levels of their own, but {self.device.name} has no tables for them: open the "
                f"device with level_slots={DEFAULT_LEVEL_SLOTS}"
            )
        if self.table and not geometry.codebook:
            raise DataError(
                f"the features have uniform levels, but {self.device.name} takes levels from tables alone: open the "
                "device with level_slots=0"
            )
        if geometry.features > self.max_features:
            raise DataError(
                f"X has {geometry.features} features, but {self.device.name} holds {self.max_features}: "
                "leave some out, or build the hardware for more"
            )
        if staleness and 2 * geometry.chunks > self.max_features // CHUNK:
            raise DataError(
                f"X has {geometry.features} features, but with staleness=1 {self.device.name} holds "
                f"{self.max_features // CHUNK // 2 * CHUNK}: use staleness=0, or build the hardware for more"
            )
        if geometry.row_words > self.max_row_words:
            raise DataError(
                f"a row of {geometry.features} features takes {geometry.row_words} words, but "
                f"{self.device.name} buffers {self.max_row_words}: "
                f"lower bits to {self.max_row_words // geometry.chunks * DIGIT_BITS} or below"
            )
        if geometry.level_slots > self.level_slots:
            most = self.level_slots // level_slots(geometry.base_bits) * CHUNK
            raise DataError(
                f"X has {geometry.features} features, but of {geometry.levels} levels each {self.device.name} holds "
                f"{most}: leave some out, lower bits, or open the device with level_slots="
                f"{1 << (geometry.level_slots - 1).bit_length()}"
            )

    @contextmanager
    def sample_buffers(self, base_words: int, draw_words: int) -> Iterator[SampleBuffers]:
        """Buffers for samples, freed in the end; they may be filled while another slot's run goes on."""
        with ExitStack() as stack:
            buffers = [self._allocate(stack, words) if words else None for words in (base_words, draw_words)]
            yield SampleBuffers(self.device, *buffers)

    def run(
        self,
        job: Job,
        on_epoch: OnEpoch | None = None,
        buffers: SampleBuffers | None = None,
        while_running: Callable[[], None] | None = None,
    ) -> JobResult:
        """Starts the accelerator once and waits for it. Its buffers are freed however it ends.

        Parameters
        ----------
        job: what to run.
        on_epoch: called with the number of each epoch, from 0, and its losses, int64 [outputs], soon after it ended.
        slot: filled with the job's samples; None for one of its own.
        meanwhile: called once, while the accelerator works.

        Raises
        ------
        DataError: rows too long for the hardware, or columns, outputs or lanes that it does not have.
        DeviceError: it is busy, has no room, makes no progress, or ended with an error (see `.code`).
        """
        self.check_fit(job.geometry, job.settings.staleness)
        if not self.random and (job.settings.model_cut or job.settings.scaled_gradient_cut):
            raise DataError(f"{self.device.name} has no random rounding: open the device with random_rounding=True")
        strides = _strides(job)
        if self._read("status") & STATUS_BUSY:
            raise DeviceError(f"{self.device.name} is busy with another run")
        with ExitStack() as stack:
            if buffers is None:
                buffers = stack.enter_context(
                    self.sample_buffers(sum(map(len, job.base_regions)), sum(map(len, job.draw_regions)))
                )
                buffers.fill(job.base_regions, job.draw_regions)
            model_in = self._allocate(stack, job.geometry.load_words)
            model_in.array[: job.geometry.model_words] = pack_master(job.master)
            if job.levels is not None:
                model_in.array[job.geometry.model_words :] = pack_master(job.levels)
            self.device.flush(model_in)
            models = job.epochs if job.snapshots else 1
            model_out = self._allocate(stack, models * job.geometry.model_words)
            records = self._allocate(stack, job.epochs * job.geometry.record_words)
            trace = EpochTrace(self.device, records, job.geometry, on_epoch)
            self._configure(job, buffers, strides, model_in, model_out, records)
            expected = predict(
                job.geometry, job.epochs, job.snapshots, job.settings.staleness, random_rounding=self.random
            )
            code = self._start_and_wait(trace, expected, while_running)
            if code != ErrorCode.NONE:
                raise DeviceError(f"{self.device.name} ended with {code.name}: {_EXPLANATIONS[code]}", code)
            self.device.invalidate(model_out)
            return self._outcome(job, model_out, trace)

    def _read(self, name: str) -> int:
        return registers.read(self.device, name)

    def _write(self, name: str, value: int) -> None:
        registers.write(self.device, name, value)

    def _allocate(self, stack: ExitStack, words: int) -> Buffer:
        buffer = self.device.allocate(words * WORD_BYTES)
        stack.callback(buffer.free)
        return buffer

    def _configure(
        self,
        job: Job,
        slot: SampleBuffers,
        strides: dict[str, int],
        model_in: Buffer,
        model_out: Buffer,
        trace: Buffer,
    ) -> None:
        geometry, settings = job.geometry, job.settings
        batch_tail, epoch_tail = geometry.tails
        low, high = settings.bounds
        address = {"base_address": slot.base, "draw_address": slot.draws, "model_in": model_in}
        values = {name: buffer.device_address if buffer else 0 for name, buffer in address.items()}
        mode = {
            "base_digits": geometry.base_bits if geometry.codebook else geometry.base_digits,
            "draws": int(geometry.draws),
            "staleness": settings.staleness,
            "unpenalized_intercept": int(settings.unpenalized_intercept),
            "snapshots": int(job.snapshots),
            "loss": int(settings.loss),
            "prox": int(settings.prox),
            "batch_tail": batch_tail,
            "epoch_tail": epoch_tail,
        }
        values |= {
            "irq_enable": 1,
            "mode": REGISTERS["mode"].pack(mode),
            "features": geometry.features,
            "groups": geometry.groups,
            "draw_sets": job.draw_sets,
            "epochs": job.epochs,
            "batch_groups": geometry.batch_groups,
            "step": settings.step,
            "step_negative": settings.step_negative,
            "penalty_step": settings.penalty_step,
            "decay": settings.decay,
            "phase": settings.phase,
            "bounds": low & BOUND_MASK | (high & BOUND_MASK) << BOUND.bits,
            **strides,
            "model_out": model_out.device_address,
            "trace": trace.device_address,
        }
        if self.random:
            cuts = {"model_cut": settings.model_cut, "scaled_gradient_cut": settings.scaled_gradient_cut}
            values |= {"cuts": REGISTERS["cuts"].pack(cuts), "seed": settings.seed}
        for name, value in values.items():
            if name in ADDRESSES and self.address_bits <= 32:
                self.device.write(REGISTERS[name].offset, value)  # nobody ever writes the upper half
            else:
                self._write(name, value)

    def _start_and_wait(
        self, trace: EpochTrace, expected: CycleCounts, meanwhile: Callable[[], None] | None
    ) -> ErrorCode:
        """Starts, waits until done, acknowledges. Whatever is raised meanwhile stops the device first."""
        self._write("control", CONTROL_START)
        try:
            if meanwhile is not None:
                meanwhile()
            status = self._wait(trace, self._sleep(trace, expected))
        except BaseException:
            with suppress(DeviceError):  # one that does not answer any more: what was raised first says why
                self._abort()
            raise
        self._write("control", CONTROL_ACKNOWLEDGE)
        return ErrorCode(status >> STATUS_ERROR_SHIFT & 0xFF)

    def _sleep(self, trace: EpochTrace, expected: CycleCounts) -> int:
        """As long as the run takes where memory never stalls, touching no register; returns the cycles of that."""
        ends = expected.epoch_cycles[:: 1 + len(expected.epoch_cycles) // LOOKS] if trace.wanted else ()
        for end in (*ends, expected.cycles):
            passed = min(int(end), LONGEST_PAUSE)
            self.device.wait(passed)
            trace.update()
        return passed

    def _wait(self, trace: EpochTrace, passed: int) -> int:
        """Polls STATUS until done, more rarely the longer it takes; the deadline is about progress, not about time."""
        progress, moved = (-1, -1), time.monotonic()
        looked = moved
        while True:
            status = self._read("status")
            trace.update()
            if status & STATUS_DONE:
                return status
            if not status & STATUS_BUSY:
                raise DeviceError(f"{self.device.name} forgot its run: it has been reset meanwhile")
            passed += min(max(passed // 16, SHORTEST_PAUSE), LONGEST_PAUSE)
            self.device.wait(passed)
            now = time.monotonic()
            if now - looked >= self.timeout / 4:
                looked = now
                latest = (self._read("epoch"), self._read("beats"))
                if latest != progress:
                    progress, moved = latest, now
                elif now - moved > self.timeout:
                    raise DeviceError(
                        f"{self.device.name} made no progress for {self.timeout:g} seconds in epoch "
                        f"{latest[0]}, after {latest[1]} beats read: does its clock run, does its memory answer?"
                    )

    def _abort(self) -> None:
        """Stops the device and waits until it is idle, or until patience ends."""
        self._write("control", CONTROL_ABORT)
        end = time.monotonic() + self.timeout
        while self._read("status") & STATUS_BUSY and time.monotonic() < end:
            pass
        self._write("control", CONTROL_ACKNOWLEDGE)

    def _outcome(self, job: Job, model_out: Buffer, trace: EpochTrace) -> JobResult:
        records, geometry = trace.records(), job.geometry
        models = unpack_master(model_out.array, geometry.features).reshape(-1, geometry.outputs, geometry.features)
        return JobResult(
            loss=records[:, 1:],
            epoch_cycles=records[:, 0],
            master=models[-1],
            snapshots=models if job.snapshots else None,
            settings=replace(
                job.settings,
                step=self._read("step_now"),
                step_negative=self._read("step_negative_now"),
                penalty_step=self._read("penalty_step_now"),
                phase=self._read("phase_now"),
                seed=self._seed_after(job),
            ),
            counters=self._counters(),
        )

    def _seed_after(self, job: Job) -> int:
        """As the hardware with random rounding counts it; what has none goes on as if it had."""
        if self.random:
            return self._read("seed_now")
        return after_batches(job.settings.seed, job.epochs * job.geometry.batches)

    def _counters(self) -> Counters:
        """All of them; none but saturations exceeds the cycles, so upper halves are read where the cycles have one."""
        cycles, saturations = self._read("cycles"), self._read("saturations")
        short = cycles < 1 << 32
        others = {
            name: self.device.read(REGISTERS[name].offset) if short else self._read(name)
            for name in ("beats", "stall_memory", "stall_model")
        }
        return Counters(cycles=cycles, saturations=saturations, **others)


def _strides(job: Job) -> dict[str, int]:
    """The two stride registers: bytes from one set to the next, 0 for a set alone. DataError where they do not fit."""
    regions = {"base_stride": job.base_regions, "draw_stride": job.draw_regions}
    strides = {name: len(sets[0]) * WORD_BYTES if len(sets) > 1 else 0 for name, sets in regions.items()}
    if max(strides.values()) >= STRIDE_LIMIT:
        raise DataError(f"a set of {max(strides.values())} bytes is too large for several: {STRIDE_LIMIT} is the limit")
    return strides

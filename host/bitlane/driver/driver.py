"""The driver: one run of the accelerator on any `Device`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from bitlane.contract.config import ROW_BUFFER_MARGIN, AcceleratorConfig
from bitlane.contract.cycles import predict
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.further import SoftwareConfig
from bitlane.contract.modes import ErrorCode
from bitlane.contract.packing import unpack_master
from bitlane.contract.prng import after_batches
from bitlane.contract.registers import IDENTITY, REGISTERS, STATUS_BUSY, VERSION, address_registers
from bitlane.contract.shards import join_ports, unshard_models
from bitlane.contract.state import ModelState
from bitlane.devices.protocol import Device
from bitlane.errors import DataError, DeviceError

from . import registers
from .buffers import ModelBuffers, SampleBuffers, SourceBuffers
from .encoding import Encoding, encoding_values
from .fit import check_encoder, check_fit, check_objective, check_rounding
from .job import Counters, Job, JobResult
from .polling import encode_and_wait, start_and_wait
from .programming import check_addresses, register_values, strides
from .trace import EpochTrace, OnEpoch

_EXPLANATIONS = {
    ErrorCode.CONFIGURATION: "it refused a register value: a size beyond this build, or a misaligned address",
    ErrorCode.READ_SLAVE: "the memory answered a read with SLVERR: check that the device can reach the buffer",
    ErrorCode.READ_DECODE: "it read an address without memory",
    ErrorCode.WRITE_SLAVE: "the memory answered a write with SLVERR: check that the device may write the buffer",
    ErrorCode.WRITE_DECODE: "it wrote to an address without memory",
    ErrorCode.ABORTED: "the run was aborted",
}


class Driver:
    """The driver of one device.

    Parameters
    ----------
    device : Device
        Any device.
    timeout : float, default=60
        Seconds without progress (the beat and epoch registers stand still) after which a run is given up. A run that
        makes progress may take any time.

    Attributes
    ----------
    build : int
        The build register.
    config : AcceleratorConfig
        Options of the build, as its registers report them. No register reports `fifo_beats`, which has its default.

    Raises
    ------
    DeviceError
        The device is no bitlane accelerator, or has a register map of another version.
    """

    def __init__(self, device: Device, timeout: float = 60.0):
        self.device = device
        self.timeout = timeout
        identity = self._read("identity")
        if identity != IDENTITY:
            raise DeviceError(
                f"{device.name}: the identity register holds {identity:#010x} instead of {IDENTITY:#010x}: "
                "no bitlane accelerator is loaded there"
            )
        version = self._read("version")
        if version >> 16 != VERSION >> 16 or version < VERSION:
            raise DeviceError(
                f"{device.name}: its register map has version {version >> 16}.{version & 0xFFFF}, but this driver "
                f"needs {VERSION >> 16}.{VERSION & 0xFFFF}: use both from the same release"
            )
        self.build = self._read("build")
        self.config = self._read_config()

    def check_fit(self, job: Job) -> None:
        """Raise DataError if this device cannot run the job. The message says what would fit."""
        settings = job.state.settings
        check_fit(self.config, job.geometry, settings.staleness, self.device.name)
        check_rounding(self.config, settings, self.device.name)
        check_objective(self.config, settings, self.device.name)
        strides(job)

    def run(
        self,
        job: Job,
        on_epoch: OnEpoch | None = None,
        samples: SampleBuffers | None = None,
        while_running: Callable[[], None] | None = None,
    ) -> JobResult:
        """Start the accelerator once and wait for it. Its buffers are freed however it ends.

        Parameters
        ----------
        job : Job
            What to run.
        on_epoch : callable, optional
            Called as ``on_epoch(epoch, losses)`` soon after each epoch: its number, from 0, and its losses, int64
            ``[outputs]``.
        samples : SampleBuffers, optional
            Buffers that hold the samples of the job already; without them the driver allocates and fills its own.
        while_running : callable, optional
            Called once, while the accelerator works.

        Raises
        ------
        DataError
            The device cannot run the job; see `check_fit`.
        DeviceError
            The device is busy, has no room, makes no progress, or ended with an error (see its `code`).
        """
        self.check_fit(job)
        if self._read("status") & STATUS_BUSY:
            raise DeviceError(f"{self.device.name} is busy with another run")
        with ExitStack() as stack:
            if samples is None:
                samples = stack.enter_context(SampleBuffers.of(self.device, job))
            models = stack.enter_context(ModelBuffers(self.device, job))
            trace = EpochTrace(self.device, models.trace, job.geometry, on_epoch)
            check_addresses(samples, models, self.config)
            self._write_all(register_values(job, samples, models, self.config))
            settings, rounding = job.state.settings, self.config.random_rounding
            expected = predict(job.geometry, job.epochs, job.snapshots, settings.staleness, random_rounding=rounding)
            code = start_and_wait(self.device, trace, expected, self.timeout, while_running)
            if code != ErrorCode.NONE:
                raise DeviceError(f"{self.device.name} ended with {code.name}: {_EXPLANATIONS[code]}", code)
            for buffer in models.model_out:
                self.device.invalidate(buffer)
            return self._result(job, models, trace)

    def encode(self, encoding: Encoding, samples: SampleBuffers, raw: SourceBuffers) -> list[Counters]:
        """Let the encoder of the device write base region and draw regions; return the counters of each start.

        Parameters
        ----------
        encoding : Encoding
            What to encode.
        samples : SampleBuffers
            Buffers that receive the regions, each from the start of its buffer; draw regions are `region_words` apart.
        raw : SourceBuffers
            Buffers that hold the source region.

        Raises
        ------
        DataError
            The device has no encoder for such samples; see `check_encoder`.
        DeviceError
            The device is busy, makes no progress, or ended with an error (see its `code`).
        """
        check_encoder(self.config, encoding.geometry, self.device.name)
        if self._read("status") & STATUS_BUSY:
            raise DeviceError(f"{self.device.name} is busy with another run")
        counters = []
        for first, step in encoding.starts(self.config.encoder):
            self._write_all(encoding_values(step, samples, raw, first))
            expected = predict_encoding(step.geometry, step.value_type, step.writes_base, len(step.sets))
            code = encode_and_wait(self.device, expected.least, self.timeout)
            if code != ErrorCode.NONE:
                raise DeviceError(f"{self.device.name} ended with {code.name}: {_EXPLANATIONS[code]}", code)
            counters.append(self._counters())
        return counters

    def _read(self, name: str) -> int:
        return registers.read(self.device, name)

    def _read_config(self) -> AcceleratorConfig:
        """The build's options; DeviceError if no hardware has such options."""
        try:
            return (SoftwareConfig if self._read("more_objectives") else AcceleratorConfig)(
                width=self._read("port_bits"),
                outputs=self._read("outputs"),
                max_features=self._read("max_features"),
                row_buffer_beats=self._read("max_row_words") + ROW_BUFFER_MARGIN,
                address_bits=self._read("address_bits"),
                level_slots=self._read("level_slots"),
                random_rounding=bool(self._read("random_rounding")),
                encoder=self._read("encoder"),
                shards=self._read("shards") or 1,
                ports=self._read("ports") or 1,
            )
        except DataError as error:
            raise DeviceError(f"{self.device.name}: its registers describe an invalid build: {error}") from error

    def _write_all(self, values: dict[str, int]) -> None:
        addresses = address_registers(self.config.ports)
        for name, value in values.items():
            if name in addresses and self.config.address_bits <= 32:
                self.device.write(REGISTERS[name].offset, value)  # the upper half is 0 in all runs
            else:
                registers.write(self.device, name, value)

    def _result(self, job: Job, models: ModelBuffers, trace: EpochTrace) -> JobResult:
        records, geometry = trace.records(), job.geometry
        stored = join_ports([buffer.array for buffer in models.model_out], geometry)
        master = unpack_master(unshard_models(stored, geometry), geometry.features)
        snapshots = master.reshape(-1, geometry.outputs, geometry.features)
        step, shrinks = self._read("step_now"), isinstance(self.config, SoftwareConfig)
        settings = replace(
            job.state.settings,
            step=step,
            scaled_gradient_cut=job.state.settings.cut_at(step),
            step_negative=self._read("step_negative_now"),
            penalty_step=self._read("penalty_step_now"),
            phase=self._read("phase_now"),
            seed=self._seed_after(job),
            shrink_step=self._read("shrink_step_now") if shrinks else 0,
            shrink_phase=self._read("shrink_phase_now") if shrinks else job.state.settings.shrink_phase,
        )
        return JobResult(
            loss=records[:, 1:],
            epoch_cycles=records[:, 0],
            state=ModelState(snapshots[-1], settings),
            snapshots=snapshots if job.snapshots else None,
            counters=self._counters(),
        )

    def _seed_after(self, job: Job) -> int:
        """The seed after the run. Hardware without random rounding does not count it."""
        if self.config.random_rounding:
            return self._read("seed_now")
        return after_batches(job.state.settings.seed, job.epochs * job.geometry.batches)

    def _counters(self) -> Counters:
        """All counters. Only saturations can exceed cycles: upper halves are read only if cycles has one."""
        cycles, saturations = self._read("cycles"), self._read("saturations")
        short = cycles < 1 << 32
        others = {
            name: self.device.read(REGISTERS[name].offset) if short else self._read(name)
            for name in ("beats", "stall_memory", "stall_model")
        }
        return Counters(cycles=cycles, saturations=saturations, **others)

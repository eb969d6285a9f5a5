"""Buffers of a run on a device: samples, models in and out, and the trace of epochs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import Words, pack_master
from bitlane.contract.shards import shard_models
from bitlane.devices.protocol import Buffer, Device

from .job import Job


class _Buffers:
    """Buffers of one device; as a context manager it frees them at the end."""

    def __init__(self, device: Device):
        self.device = device
        self._stack = ExitStack()

    def _allocate(self, words: int) -> Buffer:
        buffer = self.device.allocate(words * WORD_BYTES)
        self._stack.callback(buffer.free)
        return buffer

    def free(self) -> None:
        """Free all buffers; a second call does nothing."""
        self._stack.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.free()


class SampleBuffers(_Buffers):
    """Buffers for the samples of a run.

    They may be filled while another run, with other buffers, is under way.

    Parameters
    ----------
    device : Device
    base_words, draw_words : int
        Words for base regions and for draw regions; 0 for no buffer.

    Attributes
    ----------
    base, draws : Buffer or None
    """

    def __init__(self, device: Device, base_words: int, draw_words: int):
        super().__init__(device)
        try:
            self.base = self._allocate(base_words) if base_words else None
            self.draws = self._allocate(draw_words) if draw_words else None
        except BaseException:
            self.free()
            raise

    @classmethod
    def of(cls, device: Device, job: Job) -> SampleBuffers:
        """Return buffers that hold the samples of a job."""
        buffers = cls(device, sum(map(len, job.base_regions)), sum(map(len, job.draw_regions)))
        buffers.fill(job.base_regions, job.draw_regions)
        return buffers

    def fill(self, base_regions: Sequence[Words], draw_regions: Sequence[Words]) -> None:
        """Write regions one after the other, from the start of each buffer."""
        for buffer, regions in ((self.base, base_regions), (self.draws, draw_regions)):
            if buffer is not None:
                start = 0
                for region in regions:
                    buffer.array[start : start + len(region)] = region
                    start += len(region)
                self.device.flush(buffer)

    def __enter__(self) -> SampleBuffers:
        return self


class ModelBuffers(_Buffers):
    """Buffers for the models and the trace of a run, with the initial models written.

    Attributes
    ----------
    model_in, model_out, trace : Buffer
    """

    def __init__(self, device: Device, job: Job):
        super().__init__(device)
        geometry = job.geometry
        try:
            self.model_in = self._allocate(geometry.load_words)
            self._write_models(job, geometry)
            self.model_out = self._allocate((job.epochs if job.snapshots else 1) * geometry.model_words)
            self.trace = self._allocate(job.epochs * geometry.record_words)
        except BaseException:
            self.free()
            raise

    def _write_models(self, job: Job, geometry: Geometry) -> None:
        self.model_in.array[: geometry.model_words] = shard_models(pack_master(job.state.master), geometry)
        if job.levels is not None:
            self.model_in.array[geometry.model_words :] = shard_models(pack_master(job.levels), geometry)
        self.device.flush(self.model_in)

    def __enter__(self) -> ModelBuffers:
        return self

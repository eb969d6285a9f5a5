"""Buffers of a run on a device: samples, raw rows, models in and out, and the trace of epochs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

import numpy as np

from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import Words, pack_master
from bitlane.contract.shards import join_ports, port_regions, shard_models
from bitlane.devices.protocol import Buffer, Device

from .job import Job

PortBuffers = tuple[Buffer, ...]  # one for each memory port, of equal sizes


class _Buffers:
    """Buffers of one device; as a context manager it frees them at the end."""

    def __init__(self, device: Device, geometry: Geometry):
        self.device = device
        self._geometry = geometry
        self._stack = ExitStack()

    def _allocate(self, words: int, port: int = 0) -> Buffer:
        buffer = self.device.allocate(words * WORD_BYTES, port)
        self._stack.callback(buffer.free)
        return buffer

    def _allocate_beats(self, words: int) -> PortBuffers:
        """Return a buffer on each port, for words in complete beats; none for 0 words."""
        ports = self._geometry.ports
        return tuple(self._allocate(words // ports, port) for port in range(ports)) if words else ()

    def _write(self, buffers: PortBuffers, regions: Sequence[Words]) -> None:
        """Write regions of complete beats one after the other, from the start of each buffer."""
        start = 0
        for region in regions if buffers else ():
            parts = port_regions(region, self._geometry)
            for buffer, part in zip(buffers, parts, strict=True):
                buffer.array[start : start + len(part)] = part
            start += len(parts[0])
        for buffer in buffers:
            self.device.flush(buffer)

    def _joined(self, buffers: PortBuffers) -> Words:
        """Read the words of all ports from the device: uint64, the beats in order."""
        for buffer in buffers:
            self.device.invalidate(buffer)
        arrays = [buffer.array for buffer in buffers]
        return join_ports(arrays, self._geometry) if arrays else np.empty(0, np.uint64)

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
    geometry : Geometry
        Shape of the samples: how their beats lie on the ports.
    base_words, draw_words : int
        Words for base regions and for draw regions, on all ports together; 0 for no buffer.

    Attributes
    ----------
    base, draws : tuple of Buffer
        One for each port; empty for 0 words.
    """

    def __init__(self, device: Device, geometry: Geometry, base_words: int, draw_words: int):
        super().__init__(device, geometry)
        try:
            self.base = self._allocate_beats(base_words)
            self.draws = self._allocate_beats(draw_words)
        except BaseException:
            self.free()
            raise

    @classmethod
    def of(cls, device: Device, job: Job) -> SampleBuffers:
        """Return buffers that hold the samples of a job."""
        buffers = cls(device, job.geometry, sum(map(len, job.base_regions)), sum(map(len, job.draw_regions)))
        buffers.fill(job.base_regions, job.draw_regions)
        return buffers

    def fill(self, base_regions: Sequence[Words], draw_regions: Sequence[Words]) -> None:
        """Write regions one after the other, from the start of each buffer."""
        self._write(self.base, base_regions)
        self._write(self.draws, draw_regions)

    def read(self) -> tuple[Words, Words]:
        """Return what the device has in its buffers of base regions and of draw regions, one after the other.

        Returns
        -------
        base, draws : uint64 array
            Empty for no buffer.
        """
        return self._joined(self.base), self._joined(self.draws)

    def __enter__(self) -> SampleBuffers:
        return self


class SourceBuffers(_Buffers):
    """Buffers for the source region of an encoding: see `bitlane.quantization.source`.

    Parameters
    ----------
    device : Device
    geometry : Geometry
        Shape of the encoded rows.
    words : int
        Words of the source region on all ports, up to a complete burst.

    Attributes
    ----------
    source : tuple of Buffer
        One for each port.
    """

    def __init__(self, device: Device, geometry: Geometry, words: int):
        super().__init__(device, geometry)
        try:
            self.source = self._allocate_beats(words)
        except BaseException:
            self.free()
            raise

    def fill(self, source: Words) -> None:
        """Write a source region of complete beats, which may be shorter than the buffers."""
        self._write(self.source, [source])

    def __enter__(self) -> SourceBuffers:
        return self


class ModelBuffers(_Buffers):
    """Buffers for the models and the trace of a run, with the initial models written.

    Attributes
    ----------
    model_in, model_out : tuple of Buffer
        One for each port.
    trace : Buffer
        On the first port.
    """

    def __init__(self, device: Device, job: Job):
        geometry = job.geometry
        super().__init__(device, geometry)
        loaded = (job.state.master, *(() if job.levels is None else (job.levels,)))
        try:
            self.model_in = self._allocate_beats(geometry.load_words)
            self._write(self.model_in, [shard_models(pack_master(values), geometry) for values in loaded])
            self.model_out = self._allocate_beats((job.epochs if job.snapshots else 1) * geometry.model_words)
            self.trace = self._allocate(job.epochs * geometry.record_words)
        except BaseException:
            self.free()
            raise

    def __enter__(self) -> ModelBuffers:
        return self

"""From the beats of a model, or of a level, in memory to chunks of 32 values."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER
from bitlane.contract.layout import CHUNK, CODEBOOK_BITS, level_count
from bitlane_hw.common.payloads import model_layout


class Loader(wiring.Component):
    """A shift register that gathers the beats of a chunk; `load` is high for a cycle when the last has come.

    With table lanes the levels come like more models: `load_level` is high in place of `load`.

    Members
    -------
    beats: In, stream of `model_layout`, always ready, chunk after chunk.
    load: Out(1), for each output: the chunk is its.
    load_level, level: Out, with tables: the chunk is this level's.
    chunk: Out, its number. masters: Out, its 32 values; both with `load`, which clears the register: once all is
        loaded it is 0.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        level = (
            {"load_level": Out(1), "level": Out(range(level_count(max(CODEBOOK_BITS))))} if config.table_lanes else {}
        )
        super().__init__(
            {
                "beats": In(stream.Signature(model_layout(config), always_ready=True)),
                "load": Out(config.outputs),
                **level,
                "chunk": Out(range(config.max_chunks)),
                "masters": Out(MASTER.bits * CHUNK),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, beat = self._config, self.beats.payload
        kept = len(self.masters) - config.width
        newest = self.masters[kept:]
        loads = self.load.any() | self.load_level if config.table_lanes else self.load.any()
        m.d.sync += self.load.eq(0)
        with m.If(loads):
            m.d.sync += newest.eq(0)
        with m.If(self.beats.valid):
            m.d.sync += [
                self.masters[:kept].eq(self.masters[config.width :]),
                newest.eq(beat.words),
                self.chunk.eq(beat.chunk),
            ]
            with m.If(beat.part == config.chunk_beats - 1):
                m.d.sync += self.load.bit_select(beat.output, 1).eq(1)
        if config.table_lanes:
            ends = self.beats.valid & (beat.part == config.chunk_beats - 1)
            m.d.sync += [
                self.load_level.eq(ends & (beat.output >= config.outputs)),
                self.level.eq(beat.output - config.outputs),
            ]
        with m.If(loads):
            m.d.sync += self.masters[:kept].eq(0)
        return m

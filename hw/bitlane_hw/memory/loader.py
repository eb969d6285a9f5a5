"""Assembly of chunks of 32 values from the beats of a model or of a codebook level."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER
from bitlane.contract.layout import CHUNK, CODEBOOK_BITS, level_count
from bitlane_hw.common.fixed_point import delay_valid
from bitlane_hw.common.payloads import model_layout


class Loader(wiring.Component):
    """Collect the beats of a shard of a chunk in a shift register.

    `load` is high for one cycle after the last beat of a chunk. With table lanes the levels follow the models in the
    same format, and `load_level` is high instead of `load`. Once all chunks are loaded, `masters` is 0.

    Beats pass a register first, so that the path through the sequencer ends there and not at the clock enables of all
    weights. Latency: two cycles from the last beat of a chunk to `load`. Throughput: one beat a cycle. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    beats : stream of model_layout, in, always ready
        The bits of the shard in beats of models and levels, chunk after chunk.
    load : 1 bit for each output, out
        The chunk belongs to the model of this output.
    load_level : 1 bit, out
        The chunk belongs to a level. Only with table lanes.
    level : unsigned, out
        Index of that level. Only with table lanes.
    chunk : unsigned, out
        Index of the chunk. Valid with `load`.
    masters : 32 values of format MASTER, out
        The chunk. Valid with `load`, which clears the register.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        level = (
            {"load_level": Out(1), "level": Out(range(level_count(max(CODEBOOK_BITS))))} if config.table_lanes else {}
        )
        super().__init__(
            {
                "beats": In(stream.Signature(model_layout(config, config.shard_width), always_ready=True)),
                "load": Out(config.outputs),
                **level,
                "chunk": Out(range(config.max_chunks)),
                "masters": Out(MASTER.bits * CHUNK),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self._config
        valid = delay_valid(m, self.beats.valid, 1, "beat_valid")[0]
        beat = Signal.like(self.beats.payload, name="beat", reset_less=True)
        m.d.sync += beat.eq(self.beats.payload)
        width = config.shard_width
        retained_bits = len(self.masters) - width
        newest = self.masters[retained_bits:]
        loads = self.load.any() | self.load_level if config.table_lanes else self.load.any()
        m.d.sync += self.load.eq(0)
        with m.If(loads):
            m.d.sync += newest.eq(0)
        with m.If(valid):
            m.d.sync += [
                self.masters[:retained_bits].eq(self.masters[width:]),
                newest.eq(beat.words),
                self.chunk.eq(beat.chunk),
            ]
            with m.If(beat.part == config.chunk_beats - 1):
                m.d.sync += self.load.bit_select(beat.output, 1).eq(1)
        if config.table_lanes:
            chunk_ends = valid & (beat.part == config.chunk_beats - 1)
            m.d.sync += [
                self.load_level.eq(chunk_ends & (beat.output >= config.outputs)),
                self.level.eq(beat.output - config.outputs),
            ]
        with m.If(loads):
            m.d.sync += self.masters[:retained_bits].eq(0)
        return m

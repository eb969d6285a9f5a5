"""From the beats of a source region to the words of the base region and the draw regions."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.encoding import ENCODER_LANES
from bitlane.contract.layout import DIGIT_BITS, WORD_BITS
from bitlane.contract.prng import SEED_BITS
from bitlane_hw.common.fixed_point import delay, delay_valid, register

from .draws import DRAW_LATENCY, DRAW_LEAD, DrawLanes, RowWord
from .payloads import encoder_layout
from .positions import PositionLane, offset_delay, position_latency
from .scale_table import ScaleTable
from .sequencer import SourceSequencer
from .words import WORD_LATENCY, WordAssembler


def core_latency(base_bits: int) -> int:
    """Return the cycles from the last part of a chunk to the first of its words."""
    return 1 + position_latency(base_bits) + (DRAW_LATENCY - DRAW_LEAD) + WORD_LATENCY


class EncoderCore(wiring.Component):
    """Encode the rows of a source region (`docs/design.md`, "Encoder").

    Everything behind the sequencer is a pipeline of fixed latency without backpressure.

    Latency: `core_latency`. Throughput: one beat a cycle (uint8: half a beat), one base word a cycle, and, if draws are
    written, one row in `ROW_WORD_CYCLES` cycles. Backpressure: `room`; while it is low, the last part of a chunk waits.
    Words of the parts that were taken before still leave.

    Parameters
    ----------
    max_features : int
        Features of a row, at most.
    base_bits : int
        Base bits, at most; even.
    sets : int
        Draw sets of an encoding, at most.
    outputs : int
        Label beats in front of every fourth row.

    Members
    -------
    settings : encoder_layout, in
        Constant while `begin` is low.
    seed : 32 bits, in
        Seed of the group of the draw sets: see `RowWord`.
    begin : 1 bit, in
        High until the settings are valid.
    enable : 1 bit, in
        Take beats.
    room : 1 bit, in
        See `SourceSequencer`.
    beats : stream of 64 bits, in
        The source region.
    words : array of streams of words, out, always ready
        See `WordAssembler`.
    last_taken : 1 bit, out
        The last beat was taken.
    done : 1 bit, out
        The words of the last beat have left.
    """

    def __init__(self, max_features: int, base_bits: int, sets: int, outputs: int):
        self._sizes = max_features, base_bits, sets, outputs
        super().__init__(
            {
                "settings": In(encoder_layout(max_features, base_bits, sets)),
                "seed": In(SEED_BITS),
                "begin": In(1),
                "enable": In(1),
                "room": In(1),
                "beats": In(stream.Signature(WORD_BITS)),
                "words": Out(stream.Signature(WORD_BITS, always_ready=True)).array(sets + 1),
                "last_taken": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        max_features, base_bits, sets, outputs = self._sizes
        settings = self.settings
        m.submodules.sequencer = sequencer = SourceSequencer(
            max_features, base_bits, sets, outputs, core_latency(base_bits)
        )
        m.submodules.table = table = ScaleTable(max_features, base_bits, offset_delay(base_bits))
        m.submodules.assembler = assembler = WordAssembler(base_bits // DIGIT_BITS, sets)
        connect(m, flipped(self.beats), sequencer.beats)
        for assembled, words in zip(assembler.words, self.words, strict=True):
            connect(m, assembled, flipped(words))
        m.d.comb += [
            sequencer.settings.eq(settings),
            sequencer.enable.eq(self.enable),
            sequencer.room.eq(self.room),
            self.last_taken.eq(sequencer.done),
            table.write.eq(sequencer.entry),
            table.beat.eq(self.beats.payload),
            table.beat_index.eq(sequencer.entry_beat),
            table.index.eq(sequencer.part_index),
        ]
        valid = delay_valid(m, sequencer.part, 1 + position_latency(base_bits), "part")
        flags = register(m, sequencer.flags.as_value(), "flags")
        lanes = self._connect_lanes(m, sequencer, table)
        draws = self._connect_draws(m, sequencer, lanes, valid, flags)
        self._connect_words(m, sequencer, assembler, lanes, draws, valid[-1], flags)
        return m

    def _connect_lanes(self, m, sequencer, table):
        """Create the lanes of the positions of a part."""
        base_bits = self._sizes[1]
        above = Signal(base_bits + 1)
        m.d.sync += above.eq((Const(-1, len(above)) << (self.settings.base_digits << 1))[: len(above)])
        lanes = [PositionLane(base_bits) for _ in range(ENCODER_LANES)]
        for i, lane in enumerate(lanes):
            m.submodules[f"lane_{i}"] = lane
            m.d.comb += [
                lane.value_type.eq(self.settings.value_type),
                lane.above.eq(above),
                lane.value.eq(register(m, sequencer.values[i], f"value_{i}")),
                lane.factor.eq(table.factors[i]),
                lane.offset.eq(table.offsets[i]),
            ]
        return lanes

    def _connect_draws(self, m, sequencer, lanes, valid, flags):
        """Create the lanes of the draws."""
        _, base_bits, sets, _ = self._sizes
        before = position_latency(base_bits) - DRAW_LEAD  # cycles from the lanes of positions to those of draws
        first = delay(m, flags[0], before, "row_first")
        m.submodules.row = row = RowWord()
        m.submodules.draws = draws = DrawLanes(base_bits, sets)
        wanted = self.settings.sets != 0
        m.d.comb += [
            row.seed.eq(self.seed),
            row.begin.eq(self.begin),
            row.take.eq(sequencer.part & sequencer.flags.row_first & wanted),
            draws.first_set.eq(self.settings.first_set),
            draws.start.eq(valid[before]),
            draws.row_first.eq(first),
            draws.row_word.eq(row.word),
            *(given.eq(output.position) for given, output in zip(draws.positions, lanes, strict=True)),
            sequencer.rows_ready.eq(row.next_valid | ~wanted),
        ]
        return draws

    def _connect_words(self, m, sequencer, assembler, lanes, draws, valid, flags):
        """Connect the digits of the lanes to the assembler, and pass labels beside the lanes."""
        base_bits = self._sizes[1]
        cycles = position_latency(base_bits) + DRAW_LATENCY - DRAW_LEAD
        label = Signal(WORD_BITS)
        with m.If(sequencer.label):
            m.d.sync += label.eq(self.beats.payload)
        for plane, low in zip(assembler.base_planes, range(0, base_bits, DIGIT_BITS), strict=True):
            digits = Signal(len(plane), name=f"digits_{low}", reset_less=True)
            for i, lane in enumerate(lanes):
                m.d.sync += digits.word_select(i, DIGIT_BITS).eq(lane.position.code[low : low + DIGIT_BITS])
            m.d.comb += plane.eq(digits)
        m.d.comb += [
            assembler.base.eq(self.settings.base),
            assembler.digits.eq(self.settings.base_digits),
            assembler.sets.eq(self.settings.sets),
            assembler.part.eq(delay_valid(m, valid, 1, "part_end")[0]),
            assembler.flags.as_value().eq(delay(m, flags, cycles, "flags_end")),
            assembler.label.eq(delay_valid(m, sequencer.label, 1 + cycles, "label")[-1]),
            assembler.label_beat.eq(label),
            *(plane.eq(digits) for plane, digits in zip(assembler.draw_planes, draws.digits, strict=True)),
        ]
        drain = Signal(range(core_latency(base_bits) + base_bits // DIGIT_BITS + 1))
        with m.If(~sequencer.done):
            m.d.sync += drain.eq(0)
        with m.Elif(~self.done):
            m.d.sync += drain.eq(drain + 1)
        m.d.comb += self.done.eq(drain == core_latency(base_bits) + base_bits // DIGIT_BITS)

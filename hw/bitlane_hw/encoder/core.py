"""From the beats of a source region to the words of the base region and the draw regions."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from bitlane.contract.encoding import ENCODER_LANES
from bitlane.contract.layout import CHUNK, DIGIT_BITS, LABELS_PER_WORD, WORD_BITS
from bitlane.contract.prng import SEED_BITS
from bitlane_hw.common.fixed_point import delay, delay_valid, register

from .beat_words import BeatWord
from .draws import DRAW_LATENCY, DRAW_LEAD, DrawLanes, RowWord, feature_steps
from .group_rows import GroupRows
from .payloads import DIGITS_BITS, encoder_layout
from .positions import PositionLane, offset_delay, position_latency
from .scale_table import ScaleTable
from .sequencer import SourceSequencer
from .words import WORD_LATENCY, WordAssembler


def core_latency(base_bits: int) -> int:
    """Return the cycles from the last part of a chunk to the first of its words."""
    return 1 + position_latency(base_bits) + (DRAW_LATENCY - DRAW_LEAD) + WORD_LATENCY


class EncoderCore(wiring.Component):
    """Encode the rows of a source region (`docs/design.md`, "Encoder").

    Everything behind the sequencer is a pipeline of fixed latency without backpressure. The words of a beat have lanes
    and an assembler each, and all take a part of their row at once.

    Latency: `core_latency`. Throughput: one beat a cycle (uint8: half a beat), one base beat a cycle, and, if draws are
    written, one group of rows in `ROW_WORD_CYCLES` cycles. Backpressure: `room`; while it is low, the last part of a
    chunk waits. Words of the parts that were taken before still leave.

    Parameters
    ----------
    max_features : int
        Features of a row in a shard, at most.
    base_bits : int
        Base bits, at most; even.
    sets : int
        Draw sets of an encoding, at most.
    outputs : int
        Label beats in front of every fourth group of rows; with shards, of every `4 * shards` of them.
    places : sequence of BeatWord, default=one word
        The words of a beat.
    rows_per_beat : int, default=1
        Rows of a group.
    shards : int, default=1
        Shards of a row.

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
    beats : stream of beats, in
        The source region.
    words : array of streams of beats, out, always ready
        See `WordAssembler`.
    last_taken : 1 bit, out
        The last beat was taken.
    done : 1 bit, out
        The words of the last beat have left.
    """

    def __init__(
        self,
        max_features: int,
        base_bits: int,
        sets: int,
        outputs: int,
        places: Sequence[BeatWord] = (BeatWord(0, 0),),
        rows_per_beat: int = 1,
        shards: int = 1,
    ):
        self._sizes = max_features, base_bits, sets, outputs
        self._places, self._rows_per_beat, self._shards = places, rows_per_beat, shards
        width = len(places) * WORD_BITS
        super().__init__(
            {
                "settings": In(encoder_layout(max_features, base_bits, sets, rows_per_beat)),
                "seed": In(SEED_BITS),
                "begin": In(1),
                "enable": In(1),
                "room": In(1),
                "beats": In(stream.Signature(width)),
                "words": Out(stream.Signature(width, always_ready=True)).array(sets + 1),
                "last_taken": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        _, base_bits, sets, outputs = self._sizes
        settings = self.settings
        m.submodules.sequencer = sequencer = SourceSequencer(
            settings.shape(),
            base_bits,
            outputs,
            core_latency(base_bits),
            len(self._places),
            LABELS_PER_WORD * self._shards,
        )
        tables = self._tables(m)
        assemblers = [WordAssembler(base_bits // DIGIT_BITS, sets) for _ in self._places]
        for i, assembler in enumerate(assemblers):
            m.submodules[self._name("assembler", i)] = assembler
        connect(m, flipped(self.beats), sequencer.beats)
        for number, words in enumerate(self.words):
            m.d.comb += [
                words.payload.eq(Cat(assembler.words[number].payload for assembler in assemblers)),
                words.valid.eq(assemblers[0].words[number].valid),
            ]
        m.d.comb += [
            sequencer.settings.eq(settings),
            sequencer.enable.eq(self.enable),
            sequencer.room.eq(self.room),
            self.last_taken.eq(sequencer.done),
        ]
        self._connect_tables(m, sequencer, tables)
        valid = delay_valid(m, sequencer.part, 1 + position_latency(base_bits), "part")
        flags = register(m, sequencer.flags.as_value(), "flags")
        above = Signal(base_bits + 1)
        m.d.sync += above.eq((Const(-1, len(above)) << (settings.base_digits << 1))[: len(above)])
        lanes = [self._connect_lanes(m, sequencer, tables, above, i) for i in range(len(self._places))]
        wanted = settings.sets != 0
        rows, present = self._connect_rows(m, sequencer, wanted)
        draws = [self._connect_draws(m, rows, each, valid, flags, i) for i, each in enumerate(lanes)]
        row_valid = next(iter(rows.values())).next_valid  # all rows have the same timing
        m.d.comb += sequencer.rows_ready.eq(row_valid | ~wanted)
        self._connect_words(m, sequencer, assemblers, lanes, draws, present, valid[-1], flags)
        return m

    def _name(self, name, i):
        """Return the name of something that each word of a beat has; that of a single word has no number."""
        return name if len(self._places) == 1 else f"{name}_{i}"

    def _tables(self, m):
        """Create the scales of each shard, and return them by shard."""
        max_features, base_bits, _, _ = self._sizes
        tables = {}
        for i, (shard, _) in enumerate(self._places):
            if shard not in tables:
                table = ScaleTable(max_features, base_bits, offset_delay(base_bits))
                m.submodules[self._name("table", i)] = tables[shard] = table
        return tables

    def _connect_tables(self, m, sequencer, tables):
        """Fill the scales of each shard from its first word. The words of its other rows have the same."""
        shards = [shard for shard, _ in self._places]
        for shard, table in tables.items():
            m.d.comb += [
                table.write.eq(sequencer.entry),
                table.beat.eq(self.beats.payload.word_select(shards.index(shard), WORD_BITS)),
                table.beat_index.eq(sequencer.entry_beat),
                table.index.eq(sequencer.part_index),
            ]

    def _connect_lanes(self, m, sequencer, tables, above, place):
        """Create the lanes of the positions of a part in a word."""
        base_bits, table = self._sizes[1], tables[self._places[place].shard]
        lanes = [PositionLane(base_bits) for _ in range(ENCODER_LANES)]
        for i, lane in enumerate(lanes):
            m.submodules[self._name(f"lane_{i}", place)] = lane
            m.d.comb += [
                lane.value_type.eq(self.settings.value_type),
                lane.above.eq(above),
                lane.value.eq(
                    register(m, sequencer.values[place * ENCODER_LANES + i], self._name(f"value_{i}", place))
                ),
                lane.factor.eq(table.factors[i]),
                lane.offset.eq(table.offsets[i]),
            ]
        return lanes

    def _connect_rows(self, m, sequencer, wanted):
        """Create the random words of the rows of a group.

        Returns
        -------
        rows : dict of RowWord
            By row.
        present : dict of Value
            For each row, whether the group has it, one cycle after its parts.
        """
        take = sequencer.part & sequencer.flags.row_first
        present = {}
        if self._rows_per_beat > 1:
            m.submodules.group_rows = group_rows = GroupRows(self._rows_per_beat)
            m.d.comb += [
                group_rows.groups.eq(self.settings.rows),
                group_rows.batch_groups.eq(self.settings.batch_groups),
                group_rows.batch_tail.eq(self.settings.batch_tail),
                group_rows.epoch_tail.eq(self.settings.epoch_tail),
                group_rows.begin.eq(self.begin),
                group_rows.take.eq(take),
            ]
            present = dict(enumerate(group_rows.present))
        rows = {row: RowWord(row, self._rows_per_beat) for row in sorted({place.row for place in self._places})}
        for row, each in rows.items():
            m.submodules["row" if len(rows) == 1 else f"row_{row}"] = each
            m.d.comb += [
                each.seed.eq(self.seed),
                each.begin.eq(self.begin),
                each.take.eq(take & wanted),
            ]
            if self._rows_per_beat > 1:
                m.d.comb += each.step.eq(group_rows.step)
        return rows, present

    def _connect_draws(self, m, rows, lanes, valid, flags, place):
        """Create the lanes of the draws of a word."""
        _, base_bits, sets, _ = self._sizes
        shard, row = self._places[place]
        before = position_latency(base_bits) - DRAW_LEAD  # cycles from the lanes of positions to those of draws
        draws = DrawLanes(base_bits, sets, self._shards)
        m.submodules[self._name("draws", place)] = draws
        word = rows[row].word
        if shard:  # it is there in time: a row has `before` cycles until its first draw
            word = register(m, (word + feature_steps(CHUNK * shard))[:SEED_BITS], self._name("shard_word", place))
        m.d.comb += [
            draws.first_set.eq(self.settings.first_set),
            draws.start.eq(valid[before]),
            draws.row_first.eq(delay(m, flags[0], before, self._name("row_first", place))),
            draws.row_word.eq(word),
            *(given.eq(output.position) for given, output in zip(draws.positions, lanes, strict=True)),
        ]
        if self._shards > 1:
            m.d.comb += draws.chunk_last.eq(delay(m, flags[-1], before, self._name("chunk_last", place)))
        return draws

    def _connect_words(self, m, sequencer, assemblers, lanes, draws, present, valid, flags):
        """Connect the digits of the lanes to the assemblers, and pass labels beside the lanes."""
        base_bits = self._sizes[1]
        cycles = position_latency(base_bits) + DRAW_LATENCY - DRAW_LEAD
        label = Signal.like(self.beats.payload)
        with m.If(sequencer.label):
            m.d.sync += label.eq(self.beats.payload)
        digits = [self._base_digits(m, each, i) for i, each in enumerate(lanes)]
        part = delay_valid(m, valid, 1, "part_end")[0]
        flags_end = delay(m, flags, cycles, "flags_end")
        label_end = delay_valid(m, sequencer.label, 1 + cycles, "label")[-1]
        for i, (assembler, (_, row)) in enumerate(zip(assemblers, self._places, strict=True)):
            base_planes, draw_planes = digits[i], draws[i].digits
            if self._rows_per_beat > 1:  # a row that its group does not have is 0
                there = delay(m, present[row], cycles, self._name("present", i)).replicate(DIGITS_BITS)
                base_planes, draw_planes = ([plane & there for plane in each] for each in (base_planes, draw_planes))
            m.d.comb += [taken.eq(plane) for taken, plane in zip(assembler.base_planes, base_planes, strict=True)]
            m.d.comb += [
                assembler.base.eq(self.settings.base),
                assembler.digits.eq(self.settings.base_digits),
                assembler.sets.eq(self.settings.sets),
                assembler.part.eq(part),
                assembler.flags.as_value().eq(flags_end),
                assembler.label.eq(label_end),
                assembler.label_beat.eq(label.word_select(i, WORD_BITS)),
                *(taken.eq(plane) for taken, plane in zip(assembler.draw_planes, draw_planes, strict=True)),
            ]
        drain = Signal(range(core_latency(base_bits) + base_bits // DIGIT_BITS + 1))
        with m.If(~sequencer.done):
            m.d.sync += drain.eq(0)
        with m.Elif(~self.done):
            m.d.sync += drain.eq(drain + 1)
        m.d.comb += self.done.eq(drain == core_latency(base_bits) + base_bits // DIGIT_BITS)

    def _base_digits(self, m, lanes, place):
        """Return the base digits of a part in a word, one cycle after its positions, the least significant first."""
        planes = []
        for low in range(0, self._sizes[1], DIGIT_BITS):
            digits = Signal(DIGITS_BITS, name=self._name(f"digits_{low}", place), reset_less=True)
            for i, lane in enumerate(lanes):
                m.d.sync += digits.word_select(i, DIGIT_BITS).eq(lane.position.code[low : low + DIGIT_BITS])
            planes.append(digits)
        return planes

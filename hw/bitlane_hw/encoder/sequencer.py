"""The order of the beats of a source region, and the cycles in which they are taken."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.encoding import ENCODER_LANES, ENTRY_WORDS, ValueType
from bitlane.contract.layout import DIGIT_BITS, LABELS_PER_WORD, WORD_BITS

from .payloads import RAW_BITS, part_layout

HALF = WORD_BITS // 2
ENTRY_SHAPE = (ENCODER_LANES * ENTRY_WORDS - 1).bit_length()  # index of a beat among the entries of a part


class SourceSequencer(wiring.Component):
    """Take the beats of a source region and tell what they are: the table of scales, labels, and parts of rows.

    A part is four values of a row. A word holds two parts of uint8 values, one part of int16 values, or half a part of
    float32 values. A row begins with a beat of its own: of the last beat, the half behind the last part is not used.
    The words of a beat belong to different rows of a group, or to different shards, and are taken together.

    The last part of a chunk waits until the words of the chunk before have left the assembler, and until `room`. The
    first part of a row waits for the random words of the row. Without base words, labels are dropped.

    Latency: none; what a beat holds is valid in the cycle in which it is taken. Throughput: one beat a cycle, for uint8
    half a beat. Backpressure: none from the lanes but the conditions above.

    Parameters
    ----------
    layout : encoder_layout
        Layout of the settings.
    base_bits : int
        Base bits of a code, at most.
    outputs : int
        Label beats in front of every `label_groups` groups.
    label_cycles : int
        Cycles from one label beat to the next, at least: `WordAssembler` holds one.
    words : int, default=1
        Words of a beat.
    label_groups : int, default=4
        Groups whose labels share a beat, a power of two.

    Members
    -------
    settings : encoder_layout, in
        Constant from one reset to the next.
    enable : 1 bit, in
        Take beats.
    room : 1 bit, in
        The FIFOs of the regions have room for the words of several chunks.
    rows_ready : 1 bit, in
        The random words of the next row are valid.
    beats : stream of beats, in
        The source region.
    entry : 1 bit, out
        A beat of the table is taken.
    entry_beat : unsigned, out
        Its index.
    label : 1 bit, out
        A label beat for the base region is taken.
    part : 1 bit, out
        A part is taken.
    part_index : unsigned, out
        Index of the part in its row.
    flags : part_layout, out
        Flags of the part.
    values : array of raw values, out
        The four values of the part in each word.
    done : 1 bit, out
        The last beat was taken.
    """

    def __init__(
        self,
        layout: data.StructLayout,
        base_bits: int,
        outputs: int,
        label_cycles: int,
        words: int = 1,
        label_groups: int = LABELS_PER_WORD,
    ):
        self._outputs, self._label_cycles, self._label_groups = outputs, label_cycles, label_groups
        self._base_bits = base_bits
        parts = layout["last_part"].shape
        super().__init__(
            {
                "settings": In(layout),
                "enable": In(1),
                "room": In(1),
                "rows_ready": In(1),
                "beats": In(stream.Signature(words * WORD_BITS)),
                "entry": Out(1),
                "entry_beat": Out(ENTRY_SHAPE + Shape.cast(parts).width),
                "label": Out(1),
                "part": Out(1),
                "part_index": Out(parts),
                "flags": Out(part_layout()),
                "values": Out(RAW_BITS).array(words * ENCODER_LANES),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        settings, index = self.settings, self.part_index
        labelled = Signal(range(self._label_groups))  # groups since the last label beat
        rows_left = Signal.like(settings.rows)
        output = Signal(range(self._outputs))
        row_last = Signal()
        m.d.comb += row_last.eq(index == settings.last_part)
        available = self.enable & self.beats.valid
        second, allowed, label_allowed = self._waits(m, available, row_last)
        with m.FSM():
            with m.State("TABLE"):
                m.d.comb += [self.entry.eq(available), self.beats.ready.eq(self.enable)]
                m.d.sync += rows_left.eq(settings.rows - 1)
                with m.If(available):
                    m.d.sync += self.entry_beat.eq(self.entry_beat + 1)
                    with m.If(self.entry_beat == Cat(Const(-1, ENTRY_SHAPE), settings.last_part)):
                        m.next = "LABEL"
            with m.State("LABEL"):
                taken = available & label_allowed
                m.d.comb += [self.beats.ready.eq(self.enable & label_allowed), self.label.eq(taken & settings.base)]
                with m.If(taken):
                    m.d.sync += output.eq(output + 1)
                    with m.If(output == self._outputs - 1):
                        m.d.sync += output.eq(0)
                        m.next = "ROW"
            with m.State("ROW"):
                self._take_row_beat(m, available, second, allowed, row_last)
                with m.If(self.part):
                    m.d.sync += index.eq(index + 1)
                    with m.If(row_last):
                        m.d.sync += [index.eq(0), labelled.eq(labelled + 1), rows_left.eq(rows_left - 1)]
                        with m.If(rows_left == 0):
                            m.next = "DONE"
                        with m.Elif(labelled.all()):
                            m.next = "LABEL"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
        self._describe(m, row_last, second)
        return m

    def _take_row_beat(self, m, available, second, allowed, row_last):
        """Take a beat of a row, or one of its halves."""
        with m.Switch(self.settings.value_type):
            with m.Case(ValueType.UINT8):
                m.d.comb += [
                    self.part.eq(available & allowed),
                    self.beats.ready.eq(self.enable & allowed & (second | row_last)),
                ]
            with m.Case(ValueType.INT16):
                m.d.comb += [self.part.eq(available & allowed), self.beats.ready.eq(self.enable & allowed)]
            with m.Default():
                m.d.comb += [
                    self.part.eq(available & allowed & second),
                    self.beats.ready.eq(self.enable & (allowed | ~second)),
                ]
        with m.If((available & self.beats.ready) | self.part):
            m.d.sync += second.eq(~second & ~(self.part & row_last))

    def _waits(self, m, available, row_last):
        """Return which half of a beat or a part comes next, and whether a part and a label may be taken."""
        settings = self.settings
        second = Signal()
        words = Signal(range(max(self._base_bits // DIGIT_BITS, 2)))  # base words of a chunk, without the first
        gap = Signal.like(words)  # cycles until the words of the last chunk have left
        label_gap = Signal(range(self._label_cycles))
        m.d.sync += words.eq(Mux(settings.base & (settings.base_digits != 0), settings.base_digits - 1, 0))
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        with m.If(label_gap != 0):
            m.d.sync += label_gap.eq(label_gap - 1)
        with m.If(self.part & self.flags.chunk_last):
            m.d.sync += gap.eq(words)
        with m.If(self.label):
            m.d.sync += label_gap.eq(self._label_cycles - 1)
        free = (gap == 0) & self.room
        allowed = (free | ~self.flags.chunk_last) & (self.rows_ready | ~self.flags.row_first)
        return second, allowed, ~settings.base | (free & (label_gap == 0))

    def _describe(self, m, row_last, second):
        """Drive the flags and the values of a part."""
        slot = self.part_index[: len(self.flags.slot)]
        beat, first_half = self.beats.payload, Signal.like(self.beats.payload)
        with m.If(self.beats.valid & self.beats.ready):
            m.d.sync += first_half.eq(beat)
        m.d.comb += [
            self.flags.row_first.eq(self.part_index == 0),
            self.flags.slot.eq(slot),
            self.flags.chunk_last.eq(row_last | slot.all()),
        ]
        for place in range(len(beat) // WORD_BITS):
            first_word, word = (each.word_select(place, WORD_BITS) for each in (first_half, beat))
            values = self.values[place * ENCODER_LANES : (place + 1) * ENCODER_LANES]
            self._select(m, values, word, first_word, second)

    def _select(self, m, values, word, first_word, second):
        """Drive the four values of a part from a word, and from the word before it."""
        kind, half = self.settings.value_type, word.word_select(second, HALF)
        for lane, value in enumerate(values):
            real = Cat(first_word, word).word_select(lane, RAW_BITS)
            short = word.word_select(lane, 16)
            # the bits above an integer have no meaning
            m.d.comb += value.eq(Cat(Mux(kind == ValueType.INT16, short, real)[:16], real[16:]))
            with m.If(kind == ValueType.UINT8):
                m.d.comb += value[:8].eq(half.word_select(lane, 8))

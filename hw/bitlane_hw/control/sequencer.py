"""When a beat may enter the datapath: all of the waiting is here."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LABEL
from bitlane.contract.latencies import DRAW_CYCLES, ROW_GAP
from bitlane.contract.layout import LABELS_PER_WORD, MAX_DIGITS, WORD_BITS
from bitlane_hw.common.fixed_point import delay_valid
from bitlane_hw.common.payloads import Kind, digit_flags, digit_layout, model_layout, settings_layout
from bitlane_hw.memory.address_generator import AddressGenerator
from bitlane_hw.memory.burst_generator import BASE, DRAW


class Sequencer(wiring.Component):
    """Merges the two streams of beats and sends them on, model beats to the weights and digits to the lanes.

    A digit waits for its beat; the first digits of a run also for the models to be `loaded`, those of a mini-batch
    until no more than `staleness` batches before it are unpublished, those of an epoch for `epoch_go`, and the last
    digit of a group until digits + ROW_GAP cycles after the last of the group before. Labels wait for their beat only.
    With table lanes, which are busy for two cycles with a draw, two draws are two cycles apart at least, and that is
    the number of digits that counts for the gap between groups.
    Throughput one beat a cycle; no latency: a beat leaves in the cycle in which it is taken.

    With staleness 1 the batches write their models to two banks in turn, and a batch reads the one that it will write;
    the first batch of an epoch, for which the newest model is there, reads the other.

    Members
    -------
    enable: In(1), take beats.
    settings: In, the run.
    beats: In, the reader's two streams.
    loaded: In(1), the models that were loaded can be read from the next cycle on.
    published: In(1), the first chunk of an updated model can be read from the next cycle on.
    epoch_go: In(1), the epoch's results are safe, begin the next.
    model: Out, stream of `model_layout`, always ready.
    digits: Out, stream of `digit_layout`, always ready.
    stall_memory: Out(1), the next beat is not there.
    stall_model: Out(1), the next digit waits for another reason.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "enable": In(1),
                "settings": In(settings_layout(config)),
                "beats": In(stream.Signature(config.width)).array(2),
                "loaded": In(1),
                "published": In(1),
                "epoch_go": In(1),
                "model": Out(stream.Signature(model_layout(config), always_ready=True)),
                "digits": Out(stream.Signature(digit_layout(config), always_ready=True)),
                "stall_memory": Out(1),
                "stall_model": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.walker = walker = AddressGenerator(self._config)
        tokens, token = walker.tokens, walker.tokens.payload
        m.d.comb += walker.settings.eq(self.settings)

        which = token.kind == Kind.DRAW
        is_digit = which | (token.kind == Kind.BASE)
        beat = Array(beats.payload for beats in self.beats)[which]
        present = Array(beats.valid for beats in self.beats)[which]
        held = Signal()
        taken = Signal()
        m.d.comb += [
            held.eq(is_digit & self._hold(m, token, taken & is_digit & token.row_last)),
            taken.eq(self.enable & tokens.valid & ~held & present),
            tokens.ready.eq(taken),
            self.beats[BASE].ready.eq(taken & ~which),
            self.beats[DRAW].ready.eq(taken & which),
            self.stall_model.eq(self.enable & tokens.valid & held),
            self.stall_memory.eq(self.enable & tokens.valid & ~held & ~present),
            self.model.valid.eq(taken & (token.kind == Kind.MODEL)),
            self.model.payload.words.eq(beat),
            self.digits.valid.eq(taken & is_digit),
            self.digits.payload.words.eq(beat),
            self.digits.payload.draw.eq(which),
            self.digits.payload.end.batch_last.eq(token.batch_last),
            self.digits.payload.end.epoch_last.eq(token.epoch_last),
            *(self.model.payload[name].eq(token[name]) for name in ("chunk", "output", "part")),
            *(self.digits.payload[name].eq(token[name]) for name in ("chunk", *digit_flags(self._config))),
        ]
        self._rows(m, token, taken & (token.kind == Kind.LABEL), beat)
        return m

    def _hold(self, m, token, group_ends):
        """1 where no digit may be taken; also works out which bank is read."""
        settings = self.settings
        digits = DRAW_CYCLES if self._config.table_lanes else settings.base_digits + settings.draws
        batch_ends = group_ends & token.batch_last
        unpublished = Signal(2)
        load_wait = Signal(init=1)
        epoch_wait = Signal()
        gap = Signal(range(MAX_DIGITS + ROW_GAP))
        bank = Signal()
        first_batch = Signal(init=1)
        m.d.sync += unpublished.eq(unpublished + batch_ends - self.published)
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        with m.If(self.loaded):
            m.d.sync += load_wait.eq(0)
        with m.If(self.epoch_go):
            m.d.sync += epoch_wait.eq(0)
        with m.If(group_ends):
            m.d.sync += gap.eq(digits + (ROW_GAP - 1))
        with m.If(batch_ends):
            m.d.sync += [epoch_wait.eq(token.epoch_last), bank.eq(~bank), first_batch.eq(token.epoch_last)]
        m.d.comb += self.digits.payload.bank.eq(settings.staleness & (bank ^ ~first_batch))
        held = load_wait | (unpublished > settings.staleness) | epoch_wait | (token.row_last & (gap != 0))
        if self._config.table_lanes:
            draw = self.digits.payload.draw
            held |= draw & delay_valid(m, self.digits.valid & draw, 1, "draw_before")[0]
        return held

    def _rows(self, m, token, take_labels, beat):
        """The labels of a group's rows, kept from the last label beats, and which of its rows there are."""
        config, settings = self._config, self.settings
        bits = WORD_BITS // LABELS_PER_WORD
        rows_here = Mux(
            token.epoch_last,
            settings.epoch_tail,
            Mux(token.batch_last, settings.batch_tail, config.rows_per_beat),
        )
        for output in range(config.outputs):
            labels = Signal(config.width, name=f"labels_{output}")
            with m.If(take_labels & (token.output == output)):
                m.d.sync += labels.eq(beat)
            for column in range(config.rows_per_beat):
                row = self.digits.payload.rows[output][column]
                word = labels.word_select(column, WORD_BITS)
                m.d.comb += [
                    row.label.eq(word.word_select(token.phase, bits)[: LABEL.bits]),
                    row.present.eq(1 if column == 0 else column < rows_here),
                ]

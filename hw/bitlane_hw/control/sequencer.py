"""The interlock of the datapath: the only block that makes beats wait."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LABEL
from bitlane.contract.latencies import BATCH_PAUSE, words_latency
from bitlane.contract.layout import LABELS_PER_WORD, WORD_BITS
from bitlane_hw.common.fixed_point import delay, delay_valid, register
from bitlane_hw.common.payloads import Kind, digit_flags, digit_layout, model_layout, settings_layout
from bitlane_hw.memory.address_generator import AddressGenerator
from bitlane_hw.memory.burst_generator import BASE, DRAW


class Sequencer(wiring.Component):
    """Merge the two streams of beats, and send model beats to the weights and digit beats to the lanes.

    A label or model beat waits only for its data. A digit also waits

    - at the start of a run until the models are loaded (`loaded`),
    - at the start of a batch until at most `staleness` earlier batches are unpublished,
    - at the start of an epoch until `epoch_go`,
    - for BATCH_PAUSE cycles after the end of a batch, if rows have one chunk: the update lanes read that chunk again.

    Table lanes process a draw word in two cycles, so that two draw words are at least two cycles apart.

    With staleness 1 the batches write their models to two banks in turn. A batch reads the bank that it will write. The
    first batch of an epoch reads the other bank, which holds the newest model.

    Latency: a beat leaves in the cycle in which it is taken; with several ports `words_latency` cycles later, when its
    words come from the ports. Throughput: one beat a cycle. Backpressure: none from the lanes and the weights, which
    are always ready.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    enable : 1 bit, in
        Consume beats.
    settings : settings_layout, in
        Geometry of the run.
    beats : array of 2 streams of beats, in
        The base stream and the draw stream of the reader. With several ports those of `PortCredits`.
    loaded : 1 bit, in
        The loaded models can be read from the next cycle on.
    published : 1 bit, in
        The first chunk of an updated model can be read from the next cycle on.
    epoch_go : 1 bit, in
        The results of the epoch are stored; the next epoch may start.
    model : stream of model_layout, out, always ready
        Beats of models and levels.
    digits : stream of digit_layout, out, always ready
        Digit beats, with the labels of their rows.
    stall_memory : 1 bit, out
        The next beat has not arrived.
    stall_model : 1 bit, out
        The next digit waits for another reason.
    batch_taken : 1 bit, out
        The last beat of a batch is taken. Only with several ports.
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
                "model": Out(stream.Signature(model_layout(config, config.width), always_ready=True)),
                "digits": Out(stream.Signature(digit_layout(config), always_ready=True)),
                "stall_memory": Out(1),
                "stall_model": Out(1),
                **({"batch_taken": Out(1)} if config.ports > 1 else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.address_generator = address_generator = AddressGenerator(self._config)
        tokens, token = address_generator.tokens, address_generator.tokens.payload
        m.d.comb += address_generator.settings.eq(self.settings)

        is_draw = token.kind == Kind.DRAW
        is_digit = is_draw | (token.kind == Kind.BASE)
        beat_valid = Array(beats.valid for beats in self.beats)[is_draw]
        hold = Signal()
        taken = Signal()
        m.d.comb += [
            hold.eq(is_digit & self._hold(m, token, taken & is_digit & token.row_last, taken & is_draw)),
            taken.eq(self.enable & tokens.valid & ~hold & beat_valid),
            tokens.ready.eq(taken),
            self.beats[BASE].ready.eq(taken & ~is_draw),
            self.beats[DRAW].ready.eq(taken & is_draw),
            self.stall_model.eq(self.enable & tokens.valid & hold),
            self.stall_memory.eq(self.enable & tokens.valid & ~hold & ~beat_valid),
        ]
        cycles = words_latency(self._config.ports)  # until the words are here
        taken = [taken, *delay_valid(m, taken, cycles, "taken")][-1]
        is_draw, is_digit = delay(m, is_draw, cycles, "is_draw"), delay(m, is_digit, cycles, "is_digit")
        self._send(m, data.View(token.shape(), delay(m, token.as_value(), cycles, "token")), taken, is_draw, is_digit)
        return m

    def _send(self, m, token, taken, is_draw, is_digit):
        """Send the words of a beat to the weights, to the lanes, or to the labels."""
        beat = Array(beats.payload for beats in self.beats)[is_draw]
        m.d.comb += [
            self.model.valid.eq(taken & (token.kind == Kind.MODEL)),
            self.model.payload.words.eq(beat),
            self.digits.valid.eq(taken & is_digit),
            self.digits.payload.words.eq(beat),
            self.digits.payload.draw.eq(is_draw),
            self.digits.payload.end.batch_last.eq(token.batch_last),
            self.digits.payload.end.epoch_last.eq(token.epoch_last),
            *(self.model.payload[name].eq(token[name]) for name in ("chunk", "output", "part")),
            *(self.digits.payload[name].eq(token[name]) for name in ("chunk", *digit_flags(self._config))),
        ]
        self._connect_labels(m, token, taken & (token.kind == Kind.LABEL), beat)

    def _hold(self, m, token, group_ends, draws):
        """Return 1 if a digit must wait; also choose the bank to read."""
        settings = self.settings
        batch_ends = group_ends & token.batch_last
        if self._config.ports > 1:
            m.d.comb += self.batch_taken.eq(batch_ends)
        unpublished = Signal(2)
        load_wait = Signal(init=1)
        epoch_wait = Signal()
        bank = Signal()
        first_batch = Signal(init=1)
        one_chunk = register(m, settings.chunks == 1, "one_chunk")
        pause = Cat(delay_valid(m, batch_ends & one_chunk, BATCH_PAUSE, "pause")).any()
        m.d.sync += unpublished.eq(unpublished + batch_ends - self.published)
        with m.If(self.loaded):
            m.d.sync += load_wait.eq(0)
        with m.If(self.epoch_go):
            m.d.sync += epoch_wait.eq(0)
        with m.If(batch_ends):
            m.d.sync += [epoch_wait.eq(token.epoch_last), bank.eq(~bank), first_batch.eq(token.epoch_last)]
        bank_read = settings.staleness & (bank ^ ~first_batch)
        m.d.comb += self.digits.payload.bank.eq(delay(m, bank_read, words_latency(self._config.ports), "bank"))
        hold = load_wait | (unpublished > settings.staleness) | epoch_wait | pause
        if self._config.table_lanes:
            hold |= (token.kind == Kind.DRAW) & delay_valid(m, draws, 1, "draw_before")[0]
        return hold

    def _connect_labels(self, m, token, take_labels, beat):
        """Keep the last label beat of each output; send labels and presence of the rows of a group."""
        config, settings = self._config, self.settings
        bits, firsts = WORD_BITS // LABELS_PER_WORD, range(0, config.words_per_beat, config.rows_per_beat)
        rows_here = Mux(
            token.epoch_last,
            settings.epoch_tail,
            Mux(token.batch_last, settings.batch_tail, config.rows_per_beat),
        )
        for output in range(config.outputs):
            labels = Signal(config.width, name=f"labels_{output}")
            with m.If(take_labels & (token.output == output)):
                m.d.sync += labels.eq(beat)
            for row_index in range(config.rows_per_beat):
                row = self.digits.payload.rows[output][row_index]
                words = (labels.word_select(first + row_index, WORD_BITS) for first in firsts)
                m.d.comb += [
                    row.label.eq(Cat(*words).word_select(token.phase, bits)[: LABEL.bits]),
                    row.present.eq(1 if row_index == 0 else row_index < rows_here),
                ]

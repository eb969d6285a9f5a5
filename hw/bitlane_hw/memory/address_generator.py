"""The order of the beats of a run."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import Kind, base_bits, settings_layout, token_layout


class AddressGenerator(wiring.Component):
    """Describe the beats of a run one by one: the models first, then the labels and digits of each epoch.

    The order is the memory layout of `docs/design.md`. A label beat for each output precedes every `label_groups`-th
    group. A group consists of its chunks. A chunk consists of its base digits and then its draw digit. With table lanes
    the levels of the codebooks follow the models, and if the base codes have an odd number of bits, a beat of half
    digits precedes every second chunk. The reader requests memory in this order and the sequencer consumes beats in it;
    each of them has its own address generator.

    Latency: the next token is valid one cycle after the previous one was taken. Throughput: one token a cycle.
    Backpressure: a token stays until it is taken. After a reset the first token is the first beat of the models.
    `tokens.valid` falls after the last beat of the last epoch.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run. Constant from one reset to the next, and valid one cycle before the first token.
    tokens : stream of token_layout, out
        Descriptions of the beats, in order.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "tokens": Out(stream.Signature(token_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        token = self.tokens.payload
        taken = self.tokens.valid & self.tokens.ready
        at = _Position(m, self._config, self.settings)
        is_draw, output_last, load_last = self._describe(m, at)
        m.d.sync += at.chunk_last.eq(at.chunk == at.last_chunk)  # in time: a chunk of a model has two beats or more
        with m.If(at.loading):
            m.d.comb += token.kind.eq(Kind.MODEL)
            self._pass_model_beat(m, at, taken, load_last)
        with m.Elif(at.label_due):
            m.d.comb += token.kind.eq(Kind.LABEL)
            with m.If(taken):
                at.next_output(m, output_last)
                m.d.sync += at.label_due.eq(~output_last)
        with m.Else():
            m.d.comb += token.kind.as_value().eq(Cat(is_draw, 1))
            self._pass_digit(m, at, taken)
        return m

    def _describe(self, m, at):
        """Drive the token; return flags: a draw digit, the last output, the last model or level."""
        config, settings, token = self._config, self.settings, self.tokens.payload
        is_draw = settings.draws & (at.digits_left == 0)
        last = at.digits_left == 0
        output_last = load_last = at.output == config.outputs - 1
        if config.table_lanes:
            is_draw, last = is_draw & ~at.half_digit_due, last & ~at.half_digit_due
            load_last = at.output == register(m, config.outputs + (1 << base_bits(settings)), "last_load")
            m.d.comb += token.half_digit.eq(at.half_digit_due)
        epoch_ends = at.groups_left[-1]
        m.d.comb += [
            self.tokens.valid.eq(at.running),
            token.chunk.eq(at.chunk),
            token.output.eq(at.output),
            token.part.eq(at.part),
            token.first.eq(at.first_digit),
            token.last_base.eq(at.digits_left == settings.draws),
            token.last.eq(last),
            token.row_last.eq(token.last & at.chunk_last),
            token.phase.eq(at.group),
            token.epoch_last.eq(epoch_ends),
            token.batch_last.eq(epoch_ends | at.batch_left[-1]),
        ]
        return is_draw, output_last, load_last

    def _pass_model_beat(self, m, at, taken, load_last):
        """Set the counters of the first epoch; count a beat of a model or of a level if it is taken."""
        config, settings = self._config, self.settings
        m.d.sync += [
            at.digits_left.eq(at.all_digits),
            at.groups_left.eq(at.all_groups),
            at.batch_left.eq(at.all_batch_groups),
            at.epochs_left.eq(settings.epochs - 2),
        ]
        if config.table_lanes:
            m.d.sync += at.half_digit_due.eq(settings.half_digit)
        with m.If(taken):
            m.d.sync += at.part.eq(at.part + 1)
            with m.If(at.part == config.chunk_beats - 1):
                at.next_chunk(m)
                with m.If(at.chunk_last):
                    at.next_output(m, load_last)
                    m.d.sync += at.loading.eq(~load_last)

    def _pass_digit(self, m, at, taken):
        """Count a digit or a beat of half digits if it is taken."""
        token, settings, table_lanes = self.tokens.payload, self.settings, self._config.table_lanes
        with m.If(taken & token.last):
            m.d.sync += at.chunk_last.eq(Mux(at.chunk_last, at.last_chunk == 0, at.chunk == at.penultimate_chunk))
        if table_lanes:
            with m.If(taken):
                m.d.sync += at.half_digit_due.eq(settings.half_digit & token.last & (at.chunk_last | at.chunk[0]))
        with m.If(taken & ~at.half_digit_due if table_lanes else taken):
            m.d.sync += [at.digits_left.eq(at.digits_left - 1), at.first_digit.eq(token.last)]
            with m.If(token.last):
                m.d.sync += at.digits_left.eq(at.all_digits)
                at.next_chunk(m)
            with m.If(token.row_last):
                at.next_group(m, token.batch_last)


class _Position:
    """Counters that identify the next token, and the constants of the run that they are compared with."""

    def __init__(self, m, config, settings):
        self.running = Signal(init=1)
        self.loading = Signal(init=1)
        self.label_due = Signal(init=1)
        self.part = Signal(range(config.chunk_beats))
        self.output = Signal(range(config.loads))
        self.chunk = Signal(range(config.max_chunks))
        self.chunk_last = Signal()
        self.first_digit = Signal(init=1)
        self.digits_left = Signal.like(settings.base_digits)  # digits of the chunk after this one
        self.group = Signal(range(config.label_groups))  # modulo label_groups
        # What is left after the next one: the sign alone marks the last, which keeps comparisons out of the path.
        self.groups_left = Signal(signed(len(settings.groups) + 1))
        self.batch_left = Signal(signed(len(settings.batch_groups) + 1))
        self.epochs_left = Signal(signed(len(settings.epochs) + 1))
        if config.table_lanes:
            self.half_digit_due = Signal()

        self.last_chunk = register(m, (settings.chunks - 1)[: len(self.chunk)], "last_chunk")
        self.penultimate_chunk = register(m, settings.chunks - 2, "penultimate_chunk")
        digits = settings.base_digits + settings.draws
        self.all_digits = register(m, (digits - 1)[: len(self.digits_left)], "all_digits")
        self.all_groups = register(m, settings.groups - 2, "all_groups")
        self.all_batch_groups = register(m, settings.batch_groups - 2, "all_batch_groups")

    def next_output(self, m, is_last):
        m.d.sync += self.output.eq(self.output + 1)
        with m.If(is_last):
            m.d.sync += self.output.eq(0)

    def next_chunk(self, m):
        m.d.sync += self.chunk.eq(self.chunk + 1)
        with m.If(self.chunk_last):
            m.d.sync += self.chunk.eq(0)

    def next_group(self, m, batch_ends):
        m.d.sync += [
            self.group.eq(self.group + 1),
            self.groups_left.eq(self.groups_left - 1),
            self.batch_left.eq(self.batch_left - 1),
            self.label_due.eq(self.group.all()),
        ]
        with m.If(batch_ends):
            m.d.sync += self.batch_left.eq(self.all_batch_groups)
        with m.If(self.groups_left[-1]):
            m.d.sync += [
                self.group.eq(0),
                self.groups_left.eq(self.all_groups),
                self.label_due.eq(1),
                self.epochs_left.eq(self.epochs_left - 1),
                self.running.eq(~self.epochs_left[-1]),
            ]

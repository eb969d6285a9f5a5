"""The order of the beats of a run."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.common.fixed_point import register
from bitlane_hw.common.payloads import Kind, base_bits, settings_layout, token_layout


class AddressGenerator(wiring.Component):
    """Names the beats of a run one by one: the models, then for each epoch labels and digits.

    The order is the layout's (`docs/design.md`): before every fourth group a label beat for each output; a group is its
    chunks, a chunk its base digits and then its draw digit. With tables their levels follow the models, and a beat of
    half digits comes before every second chunk, where there are any. The reader asks for memory in this order, the
    sequencer consumes in it.

    A token a cycle; the next token is there the cycle after one was taken. Begins at the models after a
    reset; `tokens.valid` falls after the last beat of the last epoch.

    Members
    -------
    settings: In, geometry of the run; constant from reset to reset.
    tokens: Out, stream of `token_layout`.
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
        config, settings, token = self._config, self.settings, self.tokens.payload
        taken = self.tokens.valid & self.tokens.ready

        running = Signal(init=1)
        loading = Signal(init=1)
        label_due = Signal(init=1)
        part = Signal(range(config.chunk_beats))
        output = Signal(range(config.loads))
        chunk = Signal.like(token.chunk)
        chunk_last = Signal()
        first_digit = Signal(init=1)
        digits_left = Signal.like(settings.base_digits)  # behind this one
        group = Signal.like(token.phase)
        # Those behind the next one, so that the sign alone names the last: no comparison before the datapath.
        groups_left = Signal(signed(len(settings.groups) + 1))
        batch_left = Signal(signed(len(settings.batch_groups) + 1))
        epochs_left = Signal(signed(len(settings.epochs) + 1))

        # The settings do not change in a run, and are there before its first token.
        last_chunk = register(m, (settings.chunks - 1)[: len(chunk)], "last_chunk")
        chunk_before = register(m, settings.chunks - 2, "chunk_before")
        all_digits = register(m, (settings.base_digits + settings.draws - 1)[: len(digits_left)], "all_digits")
        all_groups = register(m, settings.groups - 2, "all_groups")
        all_of_batch = register(m, settings.batch_groups - 2, "all_of_batch")
        is_draw = settings.draws & (digits_left == 0)
        last = digits_left == 0
        output_last = load_last = output == config.outputs - 1
        if config.table_lanes:
            half_due = Signal()
            is_draw, last = is_draw & ~half_due, last & ~half_due
            load_last = output == register(m, config.outputs + (1 << base_bits(settings)), "last_load")
            m.d.comb += token.half.eq(half_due)
        epoch_ends = groups_left[-1]
        m.d.comb += [
            self.tokens.valid.eq(running),
            token.chunk.eq(chunk),
            token.output.eq(output),
            token.part.eq(part),
            token.first.eq(first_digit),
            token.last_base.eq(digits_left == settings.draws),
            token.last.eq(last),
            token.row_last.eq(token.last & chunk_last),
            token.phase.eq(group),
            token.epoch_last.eq(epoch_ends),
            token.batch_last.eq(epoch_ends | batch_left[-1]),
        ]

        def next_output(is_last):
            m.d.sync += output.eq(output + 1)
            with m.If(is_last):
                m.d.sync += output.eq(0)

        def next_chunk():
            m.d.sync += chunk.eq(chunk + 1)
            with m.If(chunk_last):
                m.d.sync += chunk.eq(0)

        def next_group():
            m.d.sync += [
                group.eq(group + 1),
                groups_left.eq(groups_left - 1),
                batch_left.eq(batch_left - 1),
                label_due.eq(group.all()),
            ]
            with m.If(token.batch_last):
                m.d.sync += batch_left.eq(all_of_batch)
            with m.If(epoch_ends):
                m.d.sync += [
                    group.eq(0),
                    groups_left.eq(all_groups),
                    label_due.eq(1),
                    epochs_left.eq(epochs_left - 1),
                    running.eq(~epochs_left[-1]),
                ]

        m.d.sync += chunk_last.eq(chunk == last_chunk)  # a chunk of a model has two beats and more
        with m.If(loading):
            m.d.comb += token.kind.eq(Kind.MODEL)
            m.d.sync += [
                digits_left.eq(all_digits),
                groups_left.eq(all_groups),
                batch_left.eq(all_of_batch),
                epochs_left.eq(settings.epochs - 2),
            ]
            if config.table_lanes:
                m.d.sync += half_due.eq(settings.half)
            with m.If(taken):
                m.d.sync += part.eq(part + 1)
                with m.If(part == config.chunk_beats - 1):
                    next_chunk()
                    with m.If(chunk_last):
                        next_output(load_last)
                        m.d.sync += loading.eq(~load_last)
        with m.Elif(label_due):
            m.d.comb += token.kind.eq(Kind.LABEL)
            with m.If(taken):
                next_output(output_last)
                m.d.sync += label_due.eq(~output_last)
        with m.Else():
            m.d.comb += token.kind.as_value().eq(Cat(is_draw, 1))
            with m.If(taken & token.last):
                m.d.sync += chunk_last.eq(Mux(chunk_last, last_chunk == 0, chunk == chunk_before))
            if config.table_lanes:
                with m.If(taken):
                    m.d.sync += half_due.eq(settings.half & token.last & (chunk_last | chunk[0]))
            with m.If(taken & ~half_due if config.table_lanes else taken):
                m.d.sync += [digits_left.eq(digits_left - 1), first_digit.eq(token.last)]
                with m.If(token.last):
                    m.d.sync += digits_left.eq(all_digits)
                    next_chunk()
                with m.If(token.row_last):
                    next_group()
        return m

"""The order of the beats of a run."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .fixed import register
from .payloads import Kind, settings_layout, token_layout


class Walker(wiring.Component):
    """Names the beats of a run one by one: the models, then for each epoch labels and digits.

    The order is the layout's (`docs/design.md`): before every fourth group a label beat for each output; a group is its
    chunks, a chunk its base digits and then its draw digit. The reader asks for memory in this order,
    the sequencer consumes in it.

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

        loading = Signal(init=1)
        label_due = Signal(init=1)
        part = Signal(range(config.chunk_beats))
        output = Signal(range(config.outputs))
        chunk = Signal.like(token.chunk)
        digit = Signal.like(settings.base_digits)
        group = Signal.like(settings.groups)
        batch_group = Signal.like(settings.batch_groups)
        epoch = Signal.like(settings.epochs)

        # The settings do not change in a run, and are there before its first token.
        last_group = register(m, (settings.groups - 1)[: len(group)], "last_group")
        last_of_batch = register(m, (settings.batch_groups - 1)[: len(batch_group)], "last_of_batch")
        last_chunk = register(m, (settings.chunks - 1)[: len(chunk)], "last_chunk")
        last_digit = register(m, (settings.base_digits + settings.draws - 1)[: len(digit)], "last_digit")
        last_base = register(m, (settings.base_digits - 1)[: len(digit)], "last_base")
        is_draw = digit == settings.base_digits
        chunk_last = chunk == last_chunk
        output_last = output == config.outputs - 1
        epoch_ends = group == last_group
        m.d.comb += [
            self.tokens.valid.eq(loading | (epoch != settings.epochs)),
            token.chunk.eq(chunk),
            token.output.eq(output),
            token.part.eq(part),
            token.first.eq(digit == 0),
            token.last_base.eq(digit == last_base),
            token.last.eq(digit == last_digit),
            token.row_last.eq(token.last & chunk_last),
            token.phase.eq(group),
            token.epoch_last.eq(epoch_ends),
            token.batch_last.eq(epoch_ends | (batch_group == last_of_batch)),
        ]

        def next_output():
            m.d.sync += output.eq(output + 1)
            with m.If(output_last):
                m.d.sync += output.eq(0)

        def next_chunk():
            m.d.sync += chunk.eq(chunk + 1)
            with m.If(chunk_last):
                m.d.sync += chunk.eq(0)

        def next_group():
            m.d.sync += [group.eq(group + 1), batch_group.eq(batch_group + 1), label_due.eq(group[:2].all())]
            with m.If(token.batch_last):
                m.d.sync += batch_group.eq(0)
            with m.If(epoch_ends):
                m.d.sync += [group.eq(0), label_due.eq(1), epoch.eq(epoch + 1)]

        with m.If(loading):
            m.d.comb += token.kind.eq(Kind.MODEL)
            with m.If(taken):
                m.d.sync += part.eq(part + 1)
                with m.If(part == config.chunk_beats - 1):
                    next_chunk()
                    with m.If(chunk_last):
                        next_output()
                        m.d.sync += loading.eq(~output_last)
        with m.Elif(label_due):
            m.d.comb += token.kind.eq(Kind.LABEL)
            with m.If(taken):
                next_output()
                m.d.sync += label_due.eq(~output_last)
        with m.Else():
            m.d.comb += token.kind.as_value().eq(Cat(is_draw, 1))
            with m.If(taken):
                m.d.sync += digit.eq(digit + 1)
                with m.If(token.last):
                    m.d.sync += digit.eq(0)
                    next_chunk()
                with m.If(token.row_last):
                    next_group()
        return m

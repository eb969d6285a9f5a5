"""The order of the words of a run."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import CHUNK_MODEL_WORDS
from .payloads import Kind, settings_layout, token_layout


class Walker(wiring.Component):
    """Names the words of a run one by one: the model, then for each epoch labels and digits.

    The order is the layout's (`docs/design.md`): before every fourth row a label word; a row is its
    chunks, a chunk its base digits and then its draw digit. The reader asks for memory in this order,
    the sequencer consumes in it.

    A token a cycle; the next token is there the cycle after one was taken. Begins at the model after a
    reset; `tokens.valid` falls after the last word of the last epoch.

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
        settings, token = self.settings, self.tokens.payload
        taken = self.tokens.valid & self.tokens.ready

        loading = Signal(init=1)
        label_due = Signal(init=1)
        model_word = Signal(range(CHUNK_MODEL_WORDS))
        chunk = Signal.like(token.chunk)
        digit = Signal.like(settings.base_digits)
        row = Signal.like(settings.rows)
        batch_row = Signal.like(settings.batch)
        epoch = Signal.like(settings.epochs)

        is_draw = digit == settings.base_digits
        chunk_last = chunk == settings.chunks - 1
        row_is_last = row == settings.rows - 1
        m.d.comb += [
            self.tokens.valid.eq(loading | (epoch != settings.epochs)),
            token.chunk.eq(chunk),
            token.first.eq(digit == 0),
            token.last_base.eq(digit + 1 == settings.base_digits),
            token.last.eq(digit + 1 == settings.base_digits + settings.draws),
            token.row_last.eq(token.last & chunk_last),
            token.row_phase.eq(row),
            token.epoch_last.eq(row_is_last),
            token.batch_last.eq(row_is_last | (batch_row == settings.batch - 1)),
        ]

        def next_row():
            m.d.sync += [row.eq(row + 1), batch_row.eq(batch_row + 1), label_due.eq(row[:2].all())]
            with m.If(token.batch_last):
                m.d.sync += batch_row.eq(0)
            with m.If(row_is_last):
                m.d.sync += [row.eq(0), label_due.eq(1), epoch.eq(epoch + 1)]

        def next_chunk():
            m.d.sync += chunk.eq(chunk + 1)
            with m.If(chunk_last):
                m.d.sync += chunk.eq(0)

        with m.If(loading):
            m.d.comb += token.kind.eq(Kind.MODEL)
            with m.If(taken):
                m.d.sync += model_word.eq(model_word + 1)
                with m.If(model_word.all()):
                    next_chunk()
                    m.d.sync += loading.eq(~chunk_last)
        with m.Elif(label_due):
            m.d.comb += token.kind.eq(Kind.LABEL)
            with m.If(taken):
                m.d.sync += label_due.eq(0)
        with m.Else():
            m.d.comb += token.kind.as_value().eq(Cat(is_draw, 1))
            with m.If(taken):
                m.d.sync += digit.eq(digit + 1)
                with m.If(token.last):
                    m.d.sync += digit.eq(0)
                    next_chunk()
                with m.If(token.row_last):
                    next_row()
        return m

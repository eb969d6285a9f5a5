"""When a word may enter the datapath: all of the waiting is here."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import LABEL, LABELS_PER_WORD, MIN_ROW, WORD_BITS
from .payloads import Kind, digit_layout, settings_layout
from .requester import BASE, DRAW
from .walker import Walker


class Sequencer(wiring.Component):
    """Merges the two streams of words and sends them on, model words to the loader and digits to the lanes.

    A digit waits for its word; the first digits of a mini-batch also for `published`, the last of a row
    until MIN_ROW cycles after the last of the row before, the first digits of an epoch for `epoch_go`. Labels wait for
    their word only. Throughput one word a cycle; no latency: a word leaves in the cycle in which it is taken.

    Members
    -------
    enable: In(1), take words.
    settings: In, the run.
    words: In, the reader's two streams.
    published: In(1), the first chunk of an updated model can be read from the next cycle on.
    epoch_go: In(1), the epoch's results are safe, begin the next.
    model: Out, stream of model words, always ready.
    digits: Out, stream of `digit_layout`, always ready.
    stall_memory: Out(1), the next word is not there.
    stall_model: Out(1), the next digit waits for another reason.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "enable": In(1),
                "settings": In(settings_layout(config)),
                "words": In(stream.Signature(WORD_BITS)).array(2),
                "published": In(1),
                "epoch_go": In(1),
                "model": Out(stream.Signature(WORD_BITS, always_ready=True)),
                "digits": Out(stream.Signature(digit_layout(config), always_ready=True)),
                "stall_memory": Out(1),
                "stall_model": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.walker = walker = Walker(self._config)
        tokens, token, digit = walker.tokens, walker.tokens.payload, self.digits.payload

        batch_wait = Signal()
        epoch_wait = Signal()
        gap = Signal(range(MIN_ROW))
        labels = Signal(WORD_BITS)

        is_digit = (token.kind == Kind.BASE) | (token.kind == Kind.DRAW)
        which = token.kind == Kind.DRAW
        word = Array(words.payload for words in self.words)[which]
        present = Array(words.valid for words in self.words)[which]
        held = Signal()
        taken = Signal()
        m.d.comb += [
            walker.settings.eq(self.settings),
            held.eq(is_digit & (batch_wait | epoch_wait | (token.row_last & (gap != 0)))),
            taken.eq(self.enable & tokens.valid & ~held & present),
            tokens.ready.eq(taken),
            self.words[BASE].ready.eq(taken & ~which),
            self.words[DRAW].ready.eq(taken & which),
            self.stall_model.eq(self.enable & tokens.valid & held),
            self.stall_memory.eq(self.enable & tokens.valid & ~held & ~present),
            self.model.valid.eq(taken & (token.kind == Kind.MODEL)),
            self.model.payload.eq(word),
            self.digits.valid.eq(taken & is_digit),
            digit.word.eq(word),
            digit.chunk.eq(token.chunk),
            digit.draw.eq(which),
            digit.first.eq(token.first),
            digit.last_base.eq(token.last_base),
            digit.row_last.eq(token.row_last),
            digit.end.label.eq(labels.word_select(token.row_phase, WORD_BITS // LABELS_PER_WORD)[: LABEL.bits]),
            digit.end.batch_last.eq(token.batch_last),
            digit.end.epoch_last.eq(token.epoch_last),
        ]
        with m.If(taken & (token.kind == Kind.LABEL)):
            m.d.sync += labels.eq(word)
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        with m.If(self.published):
            m.d.sync += batch_wait.eq(0)
        with m.If(self.epoch_go):
            m.d.sync += epoch_wait.eq(0)
        with m.If(self.digits.valid & token.row_last):
            m.d.sync += [
                gap.eq(MIN_ROW - 1),
                batch_wait.eq(token.batch_last),
                epoch_wait.eq(token.epoch_last),
            ]
        return m

"""The second use of a row: its digits times its coefficients, taken from the master weights."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .config import AcceleratorConfig
from .contract import CHUNK, COEFFICIENT, MASTER, SHRINK_SHIFTS, WORD_BITS
from .fixed import delay, delay_valid, popcount, register, round_half_up, saturate
from .payloads import Coefficients, digits_of_word, settings_layout

TERM = signed(MASTER.bits - 1)  # a row's term of one weight: |total| / 4 and its roundings


def pass_layout(config: AcceleratorConfig) -> data.StructLayout:
    """A word with the two terms that its digits choose from: `plus` where h == l, else `minus`."""
    return data.StructLayout(
        {
            "word": WORD_BITS,
            "plus": TERM,
            "minus": TERM,
            "chunk": range(config.max_chunks),
            "first": 1,
            "last": 1,
            "tail": 1,  # last chunk of the row
            "shrink": 1,
            "batch_last": 1,
            "epoch_last": 1,
        }
    )


class GradientPass(wiring.Component):
    """Walks through a row's words again, with the terms of each digit position.

    Base digit k: plus = round_half_up(3 total, 2k + 4), minus = round_half_up(total, 2k + 4);
    draw digit after k base digits: plus = round_half_up(total, 2k + 2), minus = round_half_up(difference, 2k + 2).
    Begins the cycle after a row's coefficients, one word a cycle without a gap: rows follow one another at least
    as many cycles apart as they have words. Latency 2 from coefficients to first word.

    Members
    -------
    settings: In, the run.
    coefficients: In, stream of `Coefficients`, always ready.
    shrink: In(1), with the coefficients of a batch's last row: this update also shrinks the weights.
    words: In, stream of the row's words, there when they are needed.
    passes: Out, stream of `pass_layout`, always ready.
    """

    latency = 2

    def __init__(self, config: AcceleratorConfig):
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "coefficients": In(stream.Signature(Coefficients, always_ready=True)),
                "shrink": In(1),
                "words": In(stream.Signature(WORD_BITS)),
                "passes": Out(stream.Signature(pass_layout(config), always_ready=True)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        settings, coefficients, out = self.settings, self.coefficients.payload, self.passes.payload

        busy = Signal()
        chunk = Signal.like(out.chunk)
        digit = Signal.like(settings.base_digits)
        held = Signal(Coefficients)
        held_triple = Signal(signed(COEFFICIENT.bits + 2))
        shrink = Signal()
        first = digit == 0
        is_draw = digit == settings.base_digits
        last = digit + 1 == settings.base_digits + settings.draws
        tail = chunk == settings.chunks - 1

        with m.If(busy):
            m.d.sync += digit.eq(digit + 1)
            with m.If(last):
                m.d.sync += [digit.eq(0), chunk.eq(chunk + 1)]
                with m.If(tail):
                    m.d.sync += [chunk.eq(0), busy.eq(0)]
        with m.If(self.coefficients.valid):
            m.d.sync += [
                busy.eq(1),
                held.eq(coefficients),
                held_triple.eq((coefficients.total << 1) + coefficients.total),
                shrink.eq(self.shrink),
            ]

        def by_digit(whole, name):
            """`whole` shifted right by two bits for each digit of its chunk gone by."""
            shifted = Signal.like(whole, name=name)
            value = Signal.like(whole, name=f"{name}_now")
            m.d.comb += value.eq(Mux(first, whole, shifted))
            m.d.sync += shifted.eq(value >> 2)
            return value

        total3 = by_digit(held_triple, "triple")
        total = by_digit(held.total, "total")
        difference = by_digit(held.difference, "difference")

        m.d.comb += self.words.ready.eq(busy)
        m.d.sync += [
            self.passes.valid.eq(busy),
            out.word.eq(self.words.payload),
            out.plus.eq(Mux(is_draw, round_half_up(total, 2), round_half_up(total3, 4))),
            out.minus.eq(Mux(is_draw, round_half_up(difference, 2), round_half_up(total, 4))),
            out.chunk.eq(chunk),
            out.first.eq(first),
            out.last.eq(last),
            out.tail.eq(tail),
            out.shrink.eq(shrink & held.batch_last),
            out.batch_last.eq(held.batch_last),
            out.epoch_last.eq(held.epoch_last),
        ]
        return m


class GradientLanes(wiring.Component):
    """A <- saturate(A - t - [A >> shrink shift]), t the sum of a chunk's digit terms, 32 weights at once.

    A chunk's master weights are read with its last word and written LATENCY cycles later; the same chunk may be
    read again the cycle after that: two rows' last words must be MIN_ROW = latency + 1 cycles apart.

    Members
    -------
    passes: In, stream of `pass_layout`, always ready.
    lane_mask: In(32), lanes of the last chunk that hold features; the others stay as they are.
    shrink_shift: In(1), which of SHRINK_SHIFTS.
    read_address, master: Out/In, the chunk to read, and its weights one cycle later.
    write, write_address, updated: Out, a chunk's new master weights.
    publish: Out(1), with `write`: the dot lanes see them too (last row of a batch).
    published: Out(1), with the first `publish` of a batch.
    epoch_done: Out(1), with the last `write` of an epoch.
    clipped: Out, weights clipped, a cycle after their `write`.
    """

    latency = 3

    def __init__(self, config: AcceleratorConfig):
        address = range(config.max_chunks)
        super().__init__(
            {
                "passes": In(stream.Signature(pass_layout(config), always_ready=True)),
                "lane_mask": In(CHUNK),
                "shrink_shift": In(1),
                "read_address": Out(address),
                "master": In(MASTER.bits * CHUNK),
                "write": Out(1),
                "write_address": Out(address),
                "updated": Out(MASTER.bits * CHUNK),
                "publish": Out(1),
                "published": Out(1),
                "epoch_done": Out(1),
                "clipped": Out(range(CHUNK + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        words = self.passes.payload
        valid = delay_valid(m, self.passes.valid & words.last, self.latency, "valid")
        flags = {name: delay(m, words[name], self.latency, name) for name in ("batch_last", "epoch_last", "tail")}
        m.d.comb += [
            self.read_address.eq(words.chunk),
            self.write.eq(valid[-1]),
            self.write_address.eq(delay(m, words.chunk, self.latency, "chunk")),
            self.publish.eq(self.write & flags["batch_last"]),
            self.published.eq(self.publish & (self.write_address == 0)),
            self.epoch_done.eq(self.write & flags["epoch_last"] & flags["tail"]),
        ]
        clipped = Signal(CHUNK)
        for j, digit in enumerate(digits_of_word(words.word)):
            member = ~words.tail | self.lane_mask[j]
            update, clipped_j = self._lane(m, j, digit, member)
            m.d.comb += [
                self.updated.word_select(j, MASTER.bits).eq(update),
                clipped[j].eq(clipped_j & valid[-1]),
            ]
        m.d.sync += self.clipped.eq(popcount(clipped))
        return m

    def _lane(self, m, j, digit, member):
        words = self.passes.payload
        term = Mux(digit.high == digit.low, words.plus, words.minus)
        minus = ~digit.high
        total = Signal(TERM, name=f"total_{j}")
        with m.If(self.passes.valid):
            # + (term ^ minus) + minus: the ones in front make the second sum the carry into the first.
            before = Cat(1, Mux(words.first, 0, total))
            m.d.sync += total.eq(Mux(member, (before + Cat(minus, term ^ minus.replicate(len(term))))[1:], 0))

        master = self.master.word_select(j, MASTER.bits).as_signed()
        shrink = register(m, words.shrink & member, f"shrink_{j}")
        near, far = SHRINK_SHIFTS
        part = Mux(shrink, Mux(self.shrink_shift, master >> far, master >> near), 0)
        shrunk = register(m, (master - part)[: MASTER.bits].as_signed(), f"shrunk_{j}")
        step = register(m, total, f"step_{j}")
        return saturate(register(m, shrunk - step, f"updated_{j}"), MASTER)

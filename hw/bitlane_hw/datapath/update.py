"""Where a group's terms are taken from the master weights, and what the end of a batch does to them."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import BOUND, MASTER, SHRINK_SHIFT
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Prox
from bitlane_hw.common.fixed_point import add_with_carry, delay, delay_valid, popcount, register
from bitlane_hw.common.payloads import GroupEnd, settings_layout

from .terms import pass_layout, terms_of

THRESHOLD_BITS = 28  # of an L1 threshold, in units of MASTER


class Result(enum.Enum, shape=3):
    """What a weight becomes."""

    SUM = 0
    ZERO = 1
    LOW = 2  # the bounds of the box
    HIGH = 3
    LEAST = 4  # the limits of MASTER
    MOST = 5


def _adder_levels(config: AcceleratorConfig) -> int:
    return (config.rows_per_beat - 1).bit_length()


def lanes_latency(config: AcceleratorConfig) -> int:
    """Of the update lanes: from the last word of a chunk, or its load, to its write, in cycles."""
    return 3 + _adder_levels(config)


class UpdateLanes(wiring.Component):
    """A <- prox(saturate(A - t)), t the sum of a chunk's terms over the rows of a group, 32 weights at once.

    With the last word of a chunk whose pass says so: L2 takes A' >> SHRINK_SHIFT from A' = A - t, L1 moves A'
    towards 0 by `threshold` and not beyond, BOX clips it to [low, high] * 2**(MASTER - BOUND fractions). A weight that
    leaves MASTER becomes its limit instead.

        cycle 0          a beat; (rows_per_beat > 1: a level of adders over the rows a cycle;) the chunk is read
        cycle 1          A - t, a term at a time
        cycle 2          - shrink or threshold; is it over a limit?
        cycle 3          written

    A chunk is read with its first word and written `latency` cycles after its last. Weights written one cycle before
    they are read are forwarded, so that a chunk may come again digits + ROW_GAP cycles after it came.

    Members
    -------
    settings: In, the run. low, high: In, BOUND, for the run.
    unpenalized_intercept: In(1), prox leaves the last feature alone.
    threshold: In, of L1.
    passes: In, stream of `pass_layout`, always ready.
    load, load_chunk, loaded: In(1), a chunk, and its weights from memory, which are written and published like an
        update. In the cycle of a pass there is no load, and `loaded` is 0.
    read_address, master: Out/In, the chunk to read, and its weights one cycle later.
    write, write_address, updated: Out, a chunk's new master weights.
    publish, bank: Out(1), with `write`: the dot lanes see them too, in this bank (last group of a batch, load).
    published: Out(1), with the first `publish` of a batch.
    epoch_done: Out(1), with the last `write` of an epoch.
    load_done: Out(1), with the last `write` of a model that is loaded.
    clipped: Out, weights clipped, two cycles after their `write`.
    """

    def __init__(self, config: AcceleratorConfig):
        self._terms = terms_of(config)
        self._levels = _adder_levels(config)
        self.latency = lanes_latency(config)
        address = range(config.max_chunks)
        super().__init__(
            {
                "settings": In(settings_layout(config)),
                "low": In(signed(BOUND.bits)),
                "high": In(signed(BOUND.bits)),
                "unpenalized_intercept": In(1),
                "threshold": In(THRESHOLD_BITS),
                "passes": In(stream.Signature(pass_layout(config), always_ready=True)),
                "load": In(1),
                "load_chunk": In(address),
                "loaded": In(MASTER.bits * CHUNK),
                "read_address": Out(address),
                "master": In(MASTER.bits * CHUNK),
                "write": Out(1),
                "write_address": Out(address),
                "updated": Out(MASTER.bits * CHUNK),
                "publish": Out(1),
                "bank": Out(1),
                "published": Out(1),
                "epoch_done": Out(1),
                "load_done": Out(1),
                "clipped": Out(range(CHUNK + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        forward, written = self._places(m)
        clipped = Signal(CHUNK)
        box = (self.low, self.high)
        for j in range(CHUNK):
            if j % 8 == 0:  # from lanes to lanes, as they stay for a run, rather than over long wires
                box = tuple(register(m, bound, f"{name}_{j}") for bound, name in zip(box, ("low", "high"), strict=True))
            term, carry = self._term(m, j)
            total = self._accumulate(m, j, term, carry, forward, written.word_select(j, MASTER.bits))
            updated, clips = self._finish(m, j, total, *box)
            m.d.comb += [self.updated.word_select(j, MASTER.bits).eq(updated), clipped[j].eq(clips & self.write)]
        eights = [register(m, popcount(clipped[j : j + 8]), f"clipped_{j}") for j in range(0, CHUNK, 8)]
        m.d.sync += self.clipped.eq(sum(eights))
        return m

    def _places(self, m):
        """Flags and addresses along the pipeline; returns what is forwarded: whether, and the weights, or 0."""
        words, levels = self.passes.payload, self._levels
        first = delay(m, words.first & ~self.load, levels, "first")
        self._first = register(m, first, "reads")
        self._loading = delay(m, self.load, levels + 1, "loading")
        prox = delay(m, Mux(self.passes.valid & words.last, words.prox, Prox.NONE), levels + 1, "prox")
        tail = delay(m, words.tail, levels + 1, "tail")
        self._prox = [self._chosen(m, prox, tail, j) for j in range(CHUNK)]

        chunk = delay(m, Mux(self.load, self.load_chunk, words.chunk), levels, "chunk")
        write = delay_valid(m, (self.passes.valid & words.last) | self.load, self.latency, "write")[-1]
        load = delay(m, self._loading, 2, "written_load")
        tail = delay(m, tail, 2, "written_tail")
        end = GroupEnd(delay(m, words.end.as_value(), self.latency, "end"))
        toggle = Signal(init=1)
        batch_written = self.write & ~load & end.batch_last
        with m.If(batch_written & tail):
            m.d.sync += toggle.eq(~toggle)
        m.d.comb += [
            self.read_address.eq(chunk),
            self.write.eq(write),
            self.write_address.eq(delay(m, chunk, 3, "written_chunk")),
            self.publish.eq(self.write & (load | end.batch_last)),
            self.bank.eq(self.settings.staleness & toggle & ~load),
            self.published.eq(batch_written & (self.write_address == 0)),
            self.epoch_done.eq(self.write & ~load & end.epoch_last & tail),
            self.load_done.eq(self.write & load & (self.write_address == self.settings.chunks - 1)),
        ]

        forwards = self.write & (self.write_address == chunk) & first
        written = Signal(MASTER.bits * CHUNK, reset_less=True)
        m.d.sync += written.eq(Mux(forwards, self.updated, 0))
        return register(m, forwards, "forward"), written

    def _chosen(self, m, prox, tail, j):
        """Whether prox concerns this weight of a chunk, and is L2, L1 or BOX: three flags beside the digit's A'."""
        last_lane = self.settings.last_lane
        touched = ~(tail & ((j > last_lane) | (self.unpenalized_intercept & (j == last_lane))))
        return [register(m, touched & (prox == kind), f"prox_{kind.name}_{j}") for kind in (Prox.L2, Prox.L1, Prox.BOX)]

    def _term(self, m, j):
        """-t of one cycle, summed over the rows, as a value and a carry to be added; a loaded weight likewise."""
        words = self.passes.payload
        member = self.passes.valid & (~words.tail | (j <= self.settings.last_lane))
        nodes = []
        for column, row in enumerate(words.rows):
            negated, carry = self._terms.negated(row, j)
            value = Mux(member, negated, 0)
            carry = carry & member
            if column == 0:
                value = value | self.loaded.word_select(j, MASTER.bits).as_signed()
            nodes.append((register(m, value, f"term_{column}_{j}"), register(m, carry, f"carry_{column}_{j}")))
        for level in range(self._levels):
            pairs = zip(nodes[::2], nodes[1::2], strict=True)
            nodes = [
                (
                    register(m, add_with_carry(a, b, b_carry), f"terms_{level}_{i}_{j}"),
                    register(m, a_carry, f"carries_{level}_{i}_{j}"),
                )
                for i, ((a, a_carry), (b, b_carry)) in enumerate(pairs)
            ]
        return nodes[0]

    def _accumulate(self, m, j, term, carry, forward, written):
        """A' as far as the digits of the chunk have come, exact."""
        total = Signal(signed(MASTER.bits + 1 + self._levels), name=f"total_{j}", reset_less=True)
        master = self.master.word_select(j, MASTER.bits).as_signed()
        begun = Mux(self._first | self._loading, 0, total)
        read = Mux(self._first & ~forward, master, 0)
        before = begun | read | written.as_signed()  # one of them, the others 0; a load replaces what was
        m.d.sync += total.eq(add_with_carry(term, before, carry))
        return total

    def _finish(self, m, j, total, low, high):
        """The new weight: shrunk or thresholded, and clipped; and whether MASTER clipped it."""
        negative = total[-1]
        beyond = ~(total[MASTER.bits - 1 :].all() | ~total[MASTER.bits - 1 :].any())
        shrinks, moves, boxed = self._prox[j]

        # A' - (A' >> shift), A' - threshold, or A' + threshold, as an addition of what is subtracted, inverted.
        shift = ~(total >> SHRINK_SHIFT)
        step = self.threshold ^ (~negative).replicate(THRESHOLD_BITS)
        less = Mux(shrinks, shift, Mux(moves, Cat(step, ~negative).as_signed(), 0))
        result = add_with_carry(total, less, shrinks | moves & ~negative)
        value = register(m, result[: MASTER.bits], f"value_{j}")

        coarse = total[MASTER.fraction - BOUND.fraction :].as_signed()
        kind = Signal(Result, name=f"result_{j}", reset_less=True)
        with m.If(beyond):
            m.d.sync += kind.eq(Mux(negative, Result.LEAST, Result.MOST))
        with m.Elif(boxed & (coarse >= high)):
            m.d.sync += kind.eq(Result.HIGH)
        with m.Elif(boxed & (coarse < low)):
            m.d.sync += kind.eq(Result.LOW)
        with m.Elif(moves & (result[-1] != negative)):
            m.d.sync += kind.eq(Result.ZERO)
        with m.Else():
            m.d.sync += kind.eq(Result.SUM)
        up = MASTER.fraction - BOUND.fraction
        updated = Signal(MASTER.bits, name=f"updated_{j}")
        with m.Switch(kind):
            with m.Case(Result.SUM):
                m.d.comb += updated.eq(value)
            with m.Case(Result.HIGH):
                m.d.comb += updated.eq(high << up)
            with m.Case(Result.LOW):
                m.d.comb += updated.eq(low << up)
            with m.Case(Result.LEAST):
                m.d.comb += updated.eq(MASTER.minimum)
            with m.Case(Result.MOST):
                m.d.comb += updated.eq(MASTER.maximum)
        return updated, (kind == Result.LEAST) | (kind == Result.MOST)

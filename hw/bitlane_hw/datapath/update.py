"""The update of the master weights: subtraction of the terms of a group, and the proximal operator after a batch."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import BOUND, MASTER, SHRINK_SHIFT
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Prox
from bitlane_hw.common.expectations import expect
from bitlane_hw.common.fixed_point import add_with_carry, fits, popcount, register
from bitlane_hw.common.payloads import settings_layout
from bitlane_hw.common.staged import Staged, mux, steady, together

from .terms import pass_layout, terms_of

THRESHOLD_BITS = 28  # width of an L1 threshold, in units of MASTER


class UpdateSelect(enum.Enum, shape=3):
    """Source of the new value of a weight."""

    SUM = 0
    ZERO = 1
    LOW = 2  # the bounds of BOX
    HIGH = 3
    MINIMUM = 4  # the limits of MASTER
    MAXIMUM = 5


def _adder_levels(config: AcceleratorConfig) -> int:
    """Return the levels of adders that sum the terms of the rows of a beat."""
    return (config.rows_per_beat - 1).bit_length()


def lanes_latency(config: AcceleratorConfig) -> int:
    """Return the cycles from the last word of a chunk, or from its load, to the write of its weights."""
    return 3 + _adder_levels(config)


@dataclass(frozen=True)
class Sources:
    """What the term of a word is added to, in the stage in which it is added.

    At most one flag is 1; while weights are loaded none is.

    Attributes
    ----------
    adds : Staged
        A' of the word before.
    continues : Staged
        A' of the group before, clipped.
    reads : Staged
        The weight in the memory.
    forwards : Staged
        The weight that is being written.
    written : Staged
        The weights that were written one cycle before, if the term needs them; otherwise 0.
    """

    adds: Staged
    continues: Staged
    reads: Staged
    forwards: Staged
    written: Staged


def _limit(total: Value) -> Value:
    """Return the limit of MASTER on the side of a total beyond it."""
    return Cat((~total[-1]).replicate(MASTER.bits - 1), total[-1])


class UpdateLanes(wiring.Component):
    """Update 32 master weights of a shard at once: A <- prox(saturate(A - t)).

    t is the sum of the terms of a chunk over the rows of a group. With the last word of a chunk, and with A' = A - t:
    L2 subtracts A' >> SHRINK_SHIFT. L1 moves A' towards 0 by `threshold`, but not beyond 0. BOX clips A' to [low, high]
    * 2**(MASTER.fraction - BOUND.fraction). A weight that leaves the range of MASTER becomes its limit instead. Weights
    have format MASTER.

        cycle 0    a beat arrives; the chunk is read. If rows_per_beat > 1: first one cycle for each level of adders
        cycle 1    A - t, one term at a time
        cycle 2    shrink or threshold; comparison with the limits
        cycle 3    write

    Latency: a chunk is read with its first word and written `latency` cycles after its last word. A chunk may return

    - at any time, if its first word `continues`: the lanes still hold A', and clip it before they go on. No other chunk
      may have come in between;
    - two cycles after its last word: new weights that are not in the memory yet are forwarded.

    Throughput: one word a cycle. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build.
    shard : int, default=0
        Index of the shard. Its lanes are lanes ``32 * shard`` and more of a chunk.

    Members
    -------
    settings : settings_layout, in
        Geometry of the run.
    low : BOUND, in
        Lower bound of BOX. Constant during the run.
    high : BOUND, in
        Upper bound of BOX. Constant during the run.
    unpenalized_intercept : 1 bit, in
        The proximal operator skips the last feature.
    threshold : unsigned, in
        Threshold of L1, in units of MASTER. Constant during an epoch.
    passes : stream of pass_layout, in, always ready
        Terms of the rows of a group.
    load : 1 bit, in
        Write a chunk from memory and publish it like an update. Must be 0 in a cycle with a pass.
    load_chunk : unsigned, in
        That chunk.
    loaded : 32 values of format MASTER, in
        Its weights. From the first pass on it must be 0 in every cycle without `load`.
    read_address : unsigned, out
        Chunk to read.
    master : 32 values of format MASTER, in
        Weights of that chunk, one cycle later.
    write : 1 bit, out
        Write a chunk.
    write_address : unsigned, out
        That chunk.
    updated : 32 values of format MASTER, out
        Its new weights.
    publish : 1 bit, out
        With `write`: publish the chunk to the dot products (last group of a batch, or load).
    bank : 1 bit, out
        Bank of the published copy.
    published : 1 bit, out
        High with the first `publish` of a batch.
    epoch_done : 1 bit, out
        High with the last `write` of an epoch.
    load_done : 1 bit, out
        High with the last `write` of a loaded model.
    clipped : 0 to 32, out
        Number of weights clipped to the limits of MASTER, two cycles after their `write`.
    """

    def __init__(self, config: AcceleratorConfig, shard: int = 0):
        self._first_lane = CHUNK * shard
        self._terms = terms_of(config)
        self._levels = _adder_levels(config)
        self.latency = lanes_latency(config)
        # A chunk is read, the terms of the rows are added to it, the operator is applied, and the chunk is written.
        self._stages = range(self._levels, self.latency + 1)
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
        passes = self.passes.valid
        expect(m, platform, ~(passes & self.load), "a chunk is loaded in the cycle of a pass")
        expect(m, platform, ~passes | ~self.loaded.any(), "a loaded weight is not 0 in the cycle of a pass")
        sources, operators = self._control(m)
        clipped = Signal(CHUNK)
        constants = {"low": self.low, "high": self.high, "threshold": self.threshold}
        for j in range(CHUNK):
            if j % 8 == 0:  # constant during an epoch: registers along the lanes shorten the wires
                constants = {name: register(m, value, f"{name}_{j}") for name, value in constants.items()}
            term, carry = self._term(m, j)
            total, beyond = self._accumulate(m, j, term, carry, sources)
            updated, clips = self._finish(m, j, total, beyond, operators[j], **constants)
            m.d.comb += [self.updated.word_select(j, MASTER.bits).eq(updated), clipped[j].eq(clips & self.write)]
        counts = [register(m, popcount(clipped[j : j + 8]), f"clipped_{j}") for j in range(0, CHUNK, 8)]
        m.d.sync += self.clipped.eq(sum(counts))
        return m

    def _control(self, m):
        """Delay flags and addresses along the pipeline, and drive the outputs beside the weights.

        Returns
        -------
        tuple of (Sources, list of list of Staged)
            What a term is added to, and for each lane the flags of the operators.
        """
        words, valid, load = Staged(self.passes.payload, 0), Staged(self.passes.valid, 0), Staged(self.load, 0)
        read, add, finish, write = self._stages
        first = (valid & words["first"]).until(m, read, "first")
        continues = first & words["continues"].until(m, read, "continues_first")
        loading = load.until(m, read, "loading")
        adds = (~first & ~loading).registered(m, "adds")
        continues_later = continues.registered(m, "continues")
        prox = mux(valid & words["last"], words["prox"], Prox.NONE).until(m, add, "prox")
        last_chunk = words["last_chunk"].until(m, add, "last_chunk")
        operators = [self._operators(m, prox, last_chunk, j) for j in range(CHUNK)]

        chunk = mux(load, Staged(self.load_chunk, 0), words["chunk"]).until(m, read, "chunk")
        *_, writes_next, writes = ((valid & words["last"]) | load).valid_until(m, write, "write")
        next_chunk = chunk.until(m, finish, "written_chunk")
        m.d.comb += self.read_address.eq(chunk.at(read))
        self._connect_write(
            m,
            writes,
            loading.until(m, write, "written_load"),
            last_chunk.until(m, write, "written_last_chunk"),
            words["end"].until(m, write, "end"),
            next_chunk,
        )

        returns = first & ~continues
        writes_now, written_chunk, updated = (
            Staged(value, write).seen_in(read) for value in (self.write, self.write_address, self.updated)
        )
        forwards_next = returns & writes_next.seen_in(read) & (next_chunk.seen_in(read) == chunk)
        forwards = returns & writes_now & (written_chunk == chunk) & ~forwards_next
        return Sources(
            adds=adds,
            continues=continues_later,
            forwards=forwards_next.registered(m, "forwards"),
            reads=(returns & ~forwards_next & ~forwards).registered(m, "reads"),
            written=mux(forwards, updated, 0).registered(m, "written"),
        ), operators

    def _connect_write(self, m, writes, load, last_chunk, end, next_chunk):
        """Drive the outputs of the stage that writes, except the weights."""
        *_, stage = self._stages
        load, last_chunk, end = load.at(stage), last_chunk.at(stage), end.at(stage)
        toggle = Signal(init=1)
        batch_written = self.write & ~load & end.batch_last
        with m.If(batch_written & last_chunk):
            m.d.sync += toggle.eq(~toggle)
        m.d.comb += [
            self.write.eq(writes.at(stage)),
            self.write_address.eq(next_chunk.registered(m, "written_chunk_3").at(stage)),
            self.publish.eq(self.write & (load | end.batch_last)),
            self.bank.eq(self.settings.staleness & toggle & ~load),
            self.published.eq(batch_written & (self.write_address == 0)),
            self.epoch_done.eq(self.write & ~load & end.epoch_last & last_chunk),
            self.load_done.eq(self.write & load & (self.write_address == self.settings.chunks - 1)),
        ]

    def _operators(self, m, prox, last_chunk, j):
        """Return flags L2, L1 and BOX: the operators that apply to weight j, in the stage of its A'."""
        lane, last_lane = self._first_lane + j, steady(self.settings.last_lane)
        intercept = steady(self.unpenalized_intercept) & (lane == last_lane)
        applies = ~(last_chunk & ((lane > last_lane) | intercept))
        return [
            (applies & (prox == kind)).registered(m, f"prox_{kind.name}_{j}") for kind in (Prox.L2, Prox.L1, Prox.BOX)
        ]

    def _term(self, m, j):
        """Return -t of one word, summed over the rows, as a value and a carry to add; or a loaded weight."""
        words, lane = Staged(self.passes.payload, 0), self._first_lane + j
        member = Staged(self.passes.valid, 0) & (~words["last_chunk"] | (lane <= steady(self.settings.last_lane)))
        nodes = []
        for i, row in enumerate(self.passes.payload.rows):
            negated, carry = (Staged(each, 0) for each in self._terms.negated(row, j))
            value = mux(member, negated, 0)
            carry = carry & member
            if i == 0:
                value = value | Staged(self.loaded.word_select(j, MASTER.bits).as_signed(), 0)
            nodes.append((value.registered(m, f"term_{i}_{j}"), carry.registered(m, f"carry_{i}_{j}")))
        for level in range(self._levels):
            pairs = zip(nodes[::2], nodes[1::2], strict=True)
            nodes = [
                (
                    together(add_with_carry, a, b, b_carry).registered(m, f"terms_{level}_{i}_{j}"),
                    a_carry.registered(m, f"carries_{level}_{i}_{j}"),
                )
                for i, ((a, a_carry), (b, b_carry)) in enumerate(pairs)
            ]
        return nodes[0]

    def _accumulate(self, m, j, term, carry, sources):
        """Return A' after the words of the chunk so far, exact, and 1 if it is beyond the limits of MASTER."""
        _, add, finish, write = self._stages
        accumulator = Signal(signed(MASTER.bits + 1 + self._levels), name=f"total_{j}", reset_less=True)
        total = Staged(accumulator, finish)
        beyond = ~together(fits, total, MASTER.bits)
        before, was_beyond = total.seen_in(add), beyond.seen_in(add)
        master = Staged(self.master.word_select(j, MASTER.bits), add)
        updated = Staged(self.updated.word_select(j, MASTER.bits), write).seen_in(add)
        accumulated = mux(sources.adds | (sources.continues & ~was_beyond), before, 0)
        limit = together(_limit, before)
        returned = mux(sources.reads, master, 0) | mux(sources.forwards, updated, 0)
        returned |= together(lambda written: written.word_select(j, MASTER.bits), sources.written)
        returned |= mux(sources.continues & was_beyond, limit, 0)
        base = accumulated | together(Value.as_signed, returned)  # one of them is 0; a load replaces the old weight
        m.d.sync += accumulator.eq(together(add_with_carry, term, base, carry).at(add))
        return total, beyond

    def _finish(self, m, j, total, beyond, operators, *, low, high, threshold):
        """Return the new weight, and 1 if it was clipped to the limits of MASTER."""
        finish = self._stages[2]
        total, beyond = total.at(finish), beyond.at(finish)
        negative = total[-1]
        shrinks, thresholds, clips_to_box = (flag.at(finish) for flag in operators)

        # A' - (A' >> shift), A' - threshold, or A' + threshold: a subtraction adds the inverted operand and a carry.
        shift = ~(total >> SHRINK_SHIFT)
        step = threshold ^ (~negative).replicate(THRESHOLD_BITS)
        adjustment = Mux(shrinks, shift, Mux(thresholds, Cat(step, ~negative).as_signed(), 0))
        result = add_with_carry(total, adjustment, shrinks | thresholds & ~negative)
        value = register(m, result[: MASTER.bits], f"value_{j}")

        bound_units = total[MASTER.fraction - BOUND.fraction :].as_signed()
        select = Signal(UpdateSelect, name=f"select_{j}", reset_less=True)
        with m.If(beyond):
            m.d.sync += select.eq(Mux(negative, UpdateSelect.MINIMUM, UpdateSelect.MAXIMUM))
        with m.Elif(clips_to_box & (bound_units >= high)):
            m.d.sync += select.eq(UpdateSelect.HIGH)
        with m.Elif(clips_to_box & (bound_units < low)):
            m.d.sync += select.eq(UpdateSelect.LOW)
        with m.Elif(thresholds & (result[-1] != negative)):
            m.d.sync += select.eq(UpdateSelect.ZERO)
        with m.Else():
            m.d.sync += select.eq(UpdateSelect.SUM)
        shift_up = MASTER.fraction - BOUND.fraction
        updated = Signal(MASTER.bits, name=f"updated_{j}")
        with m.Switch(select):
            with m.Case(UpdateSelect.SUM):
                m.d.comb += updated.eq(value)
            with m.Case(UpdateSelect.HIGH):
                m.d.comb += updated.eq(high << shift_up)
            with m.Case(UpdateSelect.LOW):
                m.d.comb += updated.eq(low << shift_up)
            with m.Case(UpdateSelect.MINIMUM):
                m.d.comb += updated.eq(MASTER.minimum)
            with m.Case(UpdateSelect.MAXIMUM):
                m.d.comb += updated.eq(MASTER.maximum)
        return updated, (select == UpdateSelect.MINIMUM) | (select == UpdateSelect.MAXIMUM)

"""The update of the master weights: subtraction of the terms of a group, and the proximal operator after a batch."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import BOUND, MASTER, SHRINK_SHIFT
from bitlane.contract.layout import CHUNK
from bitlane.contract.modes import Prox
from bitlane_hw.common.fixed_point import add_with_carry, delay, delay_valid, fits, popcount, register
from bitlane_hw.common.payloads import GroupEnd, settings_layout

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
        written = self._control_pipeline(m)
        clipped = Signal(CHUNK)
        constants = {"low": self.low, "high": self.high, "threshold": self.threshold}
        for j in range(CHUNK):
            if j % 8 == 0:  # constant during an epoch: registers along the lanes shorten the wires
                constants = {name: register(m, value, f"{name}_{j}") for name, value in constants.items()}
            term, carry = self._term(m, j)
            total, beyond = self._accumulate(m, j, term, carry, written.word_select(j, MASTER.bits))
            updated, clips = self._finish(m, j, total, beyond, **constants)
            m.d.comb += [self.updated.word_select(j, MASTER.bits).eq(updated), clipped[j].eq(clips & self.write)]
        counts = [register(m, popcount(clipped[j : j + 8]), f"clipped_{j}") for j in range(0, CHUNK, 8)]
        m.d.sync += self.clipped.eq(sum(counts))
        return m

    def _control_pipeline(self, m):
        """Delay flags and addresses along the pipeline.

        The flags that select the value to which a term is added are valid with the term: `_adds`, `_continues`,
        `_reads`, `_forwards`; none of them while weights are loaded.

        Returns
        -------
        Value
            The weights that were written one cycle before the term, if it needs them; otherwise 0.
        """
        words, levels = self.passes.payload, self._levels
        first = delay(m, self.passes.valid & words.first, levels, "first")
        continues = first & delay(m, words.continues, levels, "continues_first")
        loading = delay(m, self.load, levels, "loading")
        self._adds = register(m, ~first & ~loading, "adds")
        self._continues = register(m, continues, "continues")
        prox = delay(m, Mux(self.passes.valid & words.last, words.prox, Prox.NONE), levels + 1, "prox")
        last_chunk = delay(m, words.last_chunk, levels + 1, "last_chunk")
        self._prox_of_lane = [self._prox_flags(m, prox, last_chunk, j) for j in range(CHUNK)]

        chunk = delay(m, Mux(self.load, self.load_chunk, words.chunk), levels, "chunk")
        writes_next, write = delay_valid(m, (self.passes.valid & words.last) | self.load, self.latency, "write")[-2:]
        next_chunk = delay(m, chunk, 2, "written_chunk")
        load = delay(m, loading, 3, "written_load")
        last_chunk = delay(m, last_chunk, 2, "written_last_chunk")
        end = GroupEnd(delay(m, words.end.as_value(), self.latency, "end"))
        toggle = Signal(init=1)
        batch_written = self.write & ~load & end.batch_last
        with m.If(batch_written & last_chunk):
            m.d.sync += toggle.eq(~toggle)
        m.d.comb += [
            self.read_address.eq(chunk),
            self.write.eq(write),
            self.write_address.eq(register(m, next_chunk, "written_chunk_3")),
            self.publish.eq(self.write & (load | end.batch_last)),
            self.bank.eq(self.settings.staleness & toggle & ~load),
            self.published.eq(batch_written & (self.write_address == 0)),
            self.epoch_done.eq(self.write & ~load & end.epoch_last & last_chunk),
            self.load_done.eq(self.write & load & (self.write_address == self.settings.chunks - 1)),
        ]

        returns = first & ~continues
        forwards_next = returns & writes_next & (next_chunk == chunk)
        forwards = returns & self.write & (self.write_address == chunk) & ~forwards_next
        self._forwards = register(m, forwards_next, "forwards")
        self._reads = register(m, returns & ~forwards_next & ~forwards, "reads")
        return register(m, Mux(forwards, self.updated, 0), "written")

    def _prox_flags(self, m, prox, last_chunk, j):
        """Return flags L2, L1 and BOX: the operators that apply to weight j, in the cycle of its A'."""
        lane, last_lane = self._first_lane + j, self.settings.last_lane
        applies = ~(last_chunk & ((lane > last_lane) | (self.unpenalized_intercept & (lane == last_lane))))
        return [register(m, applies & (prox == kind), f"prox_{kind.name}_{j}") for kind in (Prox.L2, Prox.L1, Prox.BOX)]

    def _term(self, m, j):
        """Return -t of one cycle, summed over the rows, as a value and a carry to add; or a loaded weight."""
        words, lane = self.passes.payload, self._first_lane + j
        member = self.passes.valid & (~words.last_chunk | (lane <= self.settings.last_lane))
        nodes = []
        for i, row in enumerate(words.rows):
            negated, carry = self._terms.negated(row, j)
            value = Mux(member, negated, 0)
            carry = carry & member
            if i == 0:
                value = value | self.loaded.word_select(j, MASTER.bits).as_signed()
            nodes.append((register(m, value, f"term_{i}_{j}"), register(m, carry, f"carry_{i}_{j}")))
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

    def _accumulate(self, m, j, term, carry, written):
        """Return A' after the words of the chunk so far, exact, and 1 if it is beyond the limits of MASTER."""
        total = Signal(signed(MASTER.bits + 1 + self._levels), name=f"total_{j}", reset_less=True)
        beyond = ~fits(total, MASTER.bits)
        master, updated = (weights.word_select(j, MASTER.bits) for weights in (self.master, self.updated))
        accumulated = Mux(self._adds | (self._continues & ~beyond), total, 0)
        limit = Cat((~total[-1]).replicate(MASTER.bits - 1), total[-1])
        returned = Mux(self._reads, master, 0) | Mux(self._forwards, updated, 0) | written
        returned |= Mux(self._continues & beyond, limit, 0)
        base = accumulated | returned.as_signed()  # only one of them is not 0; a load replaces the old weight
        m.d.sync += total.eq(add_with_carry(term, base, carry))
        return total, beyond

    def _finish(self, m, j, total, beyond, *, low, high, threshold):
        """Return the new weight, and 1 if it was clipped to the limits of MASTER."""
        negative = total[-1]
        shrinks, thresholds, clips_to_box = self._prox_of_lane[j]

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

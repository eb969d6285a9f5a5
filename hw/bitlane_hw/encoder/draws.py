"""The random words of draws, and the draws: `bitlane.contract.draws` in hardware."""

from __future__ import annotations

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.draws import DRAW_ROUNDS, FEATURE_STEP, GROUP_SETS, STRATUM_BITS
from bitlane.contract.encoding import ENCODER_LANES, ROW_WORD_CYCLES
from bitlane.contract.layout import CHUNK, DIGIT_BITS
from bitlane.contract.prng import INDEX_STEP, ROUND_KEYS, SEED_BITS, lane_offset
from bitlane_hw.common.fixed_point import register

from .payloads import UNIFORM_BITS, position_layout

ROW_OFFSET = lane_offset(64)  # no lane of random rounding
EARLY_ROUNDS = 3  # rounds of a feature word in the first cycle
DRAW_LEAD = 3  # cycles from the start of the words of a part to its positions
DRAW_LATENCY = DRAW_LEAD + 1


def mixed_once(word: Value, key: Value | int) -> Value:
    """Return a word after one round of the network of `bitlane.contract.prng`."""
    low, high = word[:UNIFORM_BITS], word[UNIFORM_BITS:]
    return Cat(high, low ^ high.rotate_left(1) & high.rotate_left(8) ^ high.rotate_left(2) ^ key)


class RowWord(wiring.Component):
    """Compute the random word of each row for a group of draw sets, one round a cycle.

        word = 8 rounds of (seed + row * INDEX_STEP) ^ lane_offset(64)

    Latency: `ROW_WORD_CYCLES` from `begin` or `take` to `next_valid`. Throughput: one row in as many cycles.
    Backpressure: a word stays until it is taken.

    Parameters
    ----------
    row : int, default=0
        Index of the row among those of a group, whose words lie side by side in a beat.
    rows : int, default=1
        Rows of a group.

    Members
    -------
    seed : 32 bits, in
        Seed of the group of draw sets, plus INDEX_STEP for each row before the first. Constant while `begin` is high.
    step : 32 bits, in
        INDEX_STEP for each row of a group: see `GroupRows`. Only with several rows.
    begin : 1 bit, in
        Start with the first group of rows. A word is ready `ROW_WORD_CYCLES` after the last cycle of `begin`.
    take : 1 bit, in
        Go on with the row of the next group.
    next_valid : 1 bit, out
        The word of the next row is complete.
    word : 32 bits, out
        The word of the row that was taken last; from the cycle after `take` on.
    """

    def __init__(self, row: int = 0, rows: int = 1):
        self._row, self._rows = row, rows
        super().__init__(
            {
                "seed": In(SEED_BITS),
                **({"step": In(SEED_BITS)} if rows > 1 else {}),
                "begin": In(1),
                "take": In(1),
                "next_valid": Out(1),
                "word": Out(SEED_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        counted = Signal(SEED_BITS)
        state = Signal(SEED_BITS)
        round_ = Signal(range(len(ROUND_KEYS) + 1))
        before = self._row * INDEX_STEP % (1 << SEED_BITS)  # rows of the group in front of it
        first = Mux(self.begin, self.seed + before if before else self.seed, counted)[:SEED_BITS]
        m.d.comb += self.next_valid.eq(round_ == len(ROUND_KEYS))
        step = self.step if self._rows > 1 else INDEX_STEP
        with m.If(self.take):
            m.d.sync += self.word.eq(state)
        with m.If(self.begin | self.take):
            m.d.sync += [state.eq(first ^ ROW_OFFSET), counted.eq(first + step), round_.eq(0)]
        with m.Elif(~self.next_valid):
            keys = Array(Const(key, UNIFORM_BITS) for key in ROUND_KEYS)
            m.d.sync += [state.eq(mixed_once(state, keys[round_[:3]])), round_.eq(round_ + 1)]
        return m


class DrawLanes(wiring.Component):
    """Draw both ends of the intervals of the four values of a part, for several draw sets of a group.

        word = 5 rounds of (row word + feature * FEATURE_STEP), with the bits of the mask of the set inverted
        u    = 1 if 16 bits of the word < inside + round_up         high half: u1, low half: u2

    The comparison is the carry of `inside + ~bits + round_up`.

    Latency: `DRAW_LATENCY` from `start`, one cycle from `positions`, which follow `start` by `DRAW_LEAD`. Throughput:
    one part a cycle. No backpressure.

    Parameters
    ----------
    base_bits : int
        Base bits of a position, at most.
    sets : int
        Draw sets.
    shards : int, default=1
        Shards of a row: behind a chunk come those of the other shards.

    Members
    -------
    first_set : 4 bits, in
        Number of the first set in its group; the others follow, modulo 16. Constant from three cycles before `start`.
    start : 1 bit, in
        The words of a part begin; parts in the order of a row.
    row_first : 1 bit, in
        It is the first part of a row.
    chunk_last : 1 bit, in
        It is the last part of a chunk. Only with shards.
    row_word : 32 bits, in
        Word of the row, plus FEATURE_STEP for each feature before the first one of the shard; with the first part.
    positions : array of 4 position_layout, in
        Positions of the part.
    digits : array of 8 bits, out
        Draw digits of the part, of each set.
    """

    def __init__(self, base_bits: int, sets: int, shards: int = 1):
        self._shards = shards
        super().__init__(
            {
                "first_set": In(range(GROUP_SETS)),
                "start": In(1),
                "row_first": In(1),
                **({"chunk_last": In(1)} if shards > 1 else {}),
                "row_word": In(SEED_BITS),
                "positions": In(position_layout(base_bits)).array(ENCODER_LANES),
                "digits": Out(ENCODER_LANES * DIGIT_BITS).array(sets),
            }
        )

    def elaborate(self, platform):
        m = Module()
        following = Signal(SEED_BITS)
        count = Mux(self.row_first, self.row_word, following)
        step = feature_steps(ENCODER_LANES)
        if self._shards > 1:
            step = Mux(self.chunk_last, feature_steps(ENCODER_LANES + CHUNK * (self._shards - 1)), step)
        with m.If(self.start):
            m.d.sync += following.eq(step + count)
        words = []
        for lane in range(ENCODER_LANES):
            word = register(m, (feature_steps(lane) + count)[:SEED_BITS], f"count_{lane}")
            for key in ROUND_KEYS[:EARLY_ROUNDS]:
                word = mixed_once(word, key)
            word = register(m, word, f"word_{lane}")
            for key in ROUND_KEYS[EARLY_ROUNDS:DRAW_ROUNDS]:
                word = mixed_once(word, key)
            words.append(register(m, word, f"mixed_{lane}"))
        for i, digits in enumerate(self.digits):
            number = register(m, (self.first_set + i)[: len(self.first_set)], f"number_{i}")
            drawn = []
            for word, position in zip(words, self.positions, strict=True):
                bits = word ^ _mask(number)
                drawn += [_is_below(bits.word_select(half, UNIFORM_BITS), position) for half in (0, 1)]
            m.d.sync += digits.eq(Cat(drawn))
        return m


def feature_steps(features: int) -> Const:
    """Return the step of the counter of feature words over some features."""
    return Const(features * FEATURE_STEP & (1 << SEED_BITS) - 1, SEED_BITS)


def _mask(number: Value) -> Value:
    """Return the bits of a word that the draw set with this number in its group inverts."""
    inverted = {bit: number[i] for i, bit in enumerate(STRATUM_BITS)}
    return Cat(inverted.get(bit, Const(0, 1)) for bit in range(SEED_BITS))


def _is_below(bits: Value, position: Value) -> Value:
    """Return 1 if a random number is below the threshold of a position."""
    total = Cat(Const(1, 1), position.inside) + Cat(position.round_up, ~bits)
    return total[-1]


assert len(ROUND_KEYS) + 1 == ROW_WORD_CYCLES

"""Random rounding: of the model that dot products read, and of the scaled_gradients that make the gradient.

End-to-end low precision (ZipML, eq. 2): both are unbiased, with as many bits as a run asks for.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER, SCALED_GRADIENT
from bitlane.contract.latencies import PUBLISH_LATENCY, SCALED_GRADIENT_LATENCY
from bitlane.contract.layout import CHUNK
from bitlane.contract.prng import PLACE_STEP, ROUND_KEYS, SEED_BITS, SEED_STEP, lane_offset
from bitlane_hw.common.fixed_point import delay, delay_valid, register, saturate
from bitlane_hw.common.payloads import GroupEnd, ScaledGradients

CUT = range(32)
RANDOM_SETTINGS = {"model_cut": CUT, "scaled_gradient_cut": CUT, "seed": SEED_BITS}  # of a run
HALF = SEED_BITS // 2
STAGE_ROUNDS = len(ROUND_KEYS) // 2  # a cycle
WORD_LATENCY = 2  # of `random_word`


def random_word(m: Module, count: Value, lane: int, name: str) -> Value:
    """The lane's word of a count, `bitlane.contract.prng`, two cycles later."""
    mixed = Signal(SEED_BITS, name=f"{name}_count")
    m.d.comb += mixed.eq(count ^ lane_offset(lane))
    for first in range(0, len(ROUND_KEYS), STAGE_ROUNDS):
        low, high = mixed[:HALF], mixed[HALF:]
        for i, key in enumerate(ROUND_KEYS[first : first + STAGE_ROUNDS]):
            turned = Signal(HALF, name=f"{name}_round_{first + i}")
            m.d.comb += turned.eq(low ^ high.rotate_left(1) & high.rotate_left(8) ^ high.rotate_left(2) ^ key)
            low, high = high, turned
        mixed = register(m, Cat(low, high), f"{name}_{first}")
    return mixed


def kept_mask(m: Module, cut: Value, name: str) -> Value:
    """A 1 for every bit of a 32-bit number that a cut leaves."""
    return register(m, (Const(-1, signed(MASTER.bits)) << cut)[: MASTER.bits], name)


def _rounded(value: Value, word: Value, kept: Value) -> Value:
    """`bitlane.contract.fixed_point.round_at_random` of a signed value of 32 bits: 33 bits, signed."""
    total = (value + Cat(word & ~kept, Const(0, 1)).as_signed())[: len(kept) + 1]
    return (total & Cat(kept, Const(1, 1))).as_signed()


class ModelRounding(wiring.Component):
    """Rounds a chunk's weights on their way to the published copy; `PUBLISH_LATENCY` cycles, a chunk a cycle.

    The low `cut` bits are left out, up with the probability of what they stand for; what would leave MASTER is its
    largest value. Every batch's words are those of a seed of its own, the initial model's those of the first.

    Members
    -------
    begin: In(1), until a run's registers are there. cut, seed: In, its registers.
    publish, address, bank, masters: In, a chunk of 32 weights, chunk after chunk from 0 on.
    published, epoch_done, load_done: In(1), of the update lanes.
    rounded_...: Out, all of them when the chunk is rounded.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        moved = {
            "publish": 1,
            "address": range(config.max_chunks),
            "bank": 1,
            "masters": MASTER.bits * CHUNK,
            "published": 1,
            "epoch_done": 1,
            "load_done": 1,
        }
        super().__init__(
            {
                "begin": In(1),
                "cut": In(CUT),
                "seed": In(SEED_BITS),
                **{name: In(shape) for name, shape in moved.items()},
                **{f"rounded_{name}": Out(shape) for name, shape in moved.items()},
            }
        )

    def elaborate(self, platform):
        m = Module()
        seed = Signal(SEED_BITS)
        count = Signal(SEED_BITS)
        loading = Signal(init=1)
        next_seed = Signal(SEED_BITS)
        m.d.comb += next_seed.eq(Mux(loading, seed, seed + SEED_STEP))
        now = Mux(self.address == 0, next_seed, count)
        with m.If(self.begin):
            m.d.sync += seed.eq(self.seed)
        with m.If(self.publish):
            m.d.sync += count.eq(now + PLACE_STEP)
            with m.If(self.address == 0):
                m.d.sync += seed.eq(next_seed)
        with m.If(self.load_done):
            m.d.sync += loading.eq(0)

        kept = kept_mask(m, self.cut, "kept")
        for j in range(CHUNK):
            word = random_word(m, now, j, f"word_{j}")
            master = delay(m, self.masters.word_select(j, MASTER.bits), WORD_LATENCY, f"master_{j}")
            value, _ = saturate(_rounded(master.as_signed(), word, kept), MASTER)
            m.d.sync += self.rounded_masters.word_select(j, MASTER.bits).eq(value)
        for name in ("address", "bank"):
            m.d.comb += getattr(self, f"rounded_{name}").eq(delay(m, getattr(self, name), PUBLISH_LATENCY, name))
        for name in ("publish", "published", "epoch_done", "load_done"):
            late = delay_valid(m, getattr(self, name), PUBLISH_LATENCY, name)[-1]
            m.d.comb += getattr(self, f"rounded_{name}").eq(late)
        return m


class ScaledGradientRounding(wiring.Component):
    """Rounds both scaled_gradients of each column's row, `COEFFICIENT_LATENCY` cycles later.

    The low `cut` bits are left out, up with the probability of what they stand for, and clipped to COEFFICIENT.

    Members
    -------
    begin: In(1), until a run's registers are there. cut, seed: In, its registers.
    due: In(1), a group's scaled_gradients come `AHEAD` cycles later. end: In, with it.
    scaled_gradients: In, of each column's row.
    rounded: Out, likewise; they stay until the next group's.
    clipped: Out, two flags a column, with the rounded ones.
    seed_now: Out, after the batches so far.
    """

    AHEAD = WORD_LATENCY

    def __init__(self, config: AcceleratorConfig):
        self._columns = config.rows_per_beat
        super().__init__(
            {
                "begin": In(1),
                "cut": In(CUT),
                "seed": In(SEED_BITS),
                "due": In(1),
                "end": In(GroupEnd),
                "scaled_gradients": In(ScaledGradients).array(config.rows_per_beat),
                "rounded": Out(ScaledGradients).array(config.rows_per_beat),
                "clipped": Out(2 * config.rows_per_beat),
                "seed_now": Out(SEED_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        count = Signal(SEED_BITS)
        first = Signal(init=1)
        now = Mux(first, self.seed_now, count)
        with m.If(self.begin):
            m.d.sync += self.seed_now.eq(self.seed)
        with m.If(self.due):
            m.d.sync += [count.eq(now + PLACE_STEP), first.eq(self.end.batch_last)]
            with m.If(self.end.batch_last):
                m.d.sync += self.seed_now.eq(self.seed_now + SEED_STEP)

        valid = delay_valid(m, self.due, self.AHEAD, "due")[-1]
        kept = kept_mask(m, self.cut, "kept")
        for column, (given, rounded) in enumerate(zip(self.scaled_gradients, self.rounded, strict=True)):
            for i, name in enumerate(("total", "difference")):
                lane = 2 * column + i
                word = random_word(m, now, CHUNK + lane, f"word_{lane}")
                value, clipped = saturate(_rounded(given[name], word, kept), SCALED_GRADIENT)
                m.d.sync += self.clipped[lane].eq(valid & clipped)
                with m.If(valid):
                    m.d.sync += rounded[name].eq(value)
        return m


assert SCALED_GRADIENT_LATENCY == 1 and PUBLISH_LATENCY == WORD_LATENCY + 1

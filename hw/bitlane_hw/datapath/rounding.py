"""Random rounding of the published model and of the scaled gradients (end-to-end low precision: ZipML, eq. 2).

Both are unbiased and keep as many bits as the run asks for.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import MASTER, SCALED_GRADIENT
from bitlane.contract.latencies import PUBLISH_LATENCY, SCALED_GRADIENT_LATENCY
from bitlane.contract.layout import CHUNK
from bitlane.contract.prng import INDEX_STEP, ROUND_KEYS, SEED_BITS, SEED_STEP, lane_offset
from bitlane_hw.common.fixed_point import delay, delay_valid, register, saturate
from bitlane_hw.common.payloads import GroupEnd, ScaledGradients
from bitlane_hw.common.signatures import PublishedChunk, UpdateEvents

CUT = range(32)
RANDOM_SETTINGS = {"model_cut": CUT, "scaled_gradient_cut": CUT, "seed": SEED_BITS}  # registers of a run
HALF = SEED_BITS // 2
STAGE_ROUNDS = len(ROUND_KEYS) // 2  # rounds in a cycle
WORD_LATENCY = 2  # cycles of `random_word`


def random_word(m: Module, count: Value, lane: int, name: str) -> Value:
    """Return the random word of a lane for a count (`bitlane.contract.prng`), two cycles later.

    Parameters
    ----------
    m : Module
        Module that receives the logic.
    count : Value
        Seed of the batch plus INDEX_STEP for each earlier chunk or group of the batch.
    lane : int
        Index of the lane.
    name : str
        Prefix of the names of the signals.
    """
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


def cut_mask(m: Module, cut: Value, name: str) -> Value:
    """Return a mask of the bits of a 32-bit number that remain after a cut, one cycle later."""
    return register(m, (Const(-1, signed(MASTER.bits)) << cut)[: MASTER.bits], name)


def _rounded(value: Value, word: Value, mask: Value) -> Value:
    """Return `bitlane.contract.fixed_point.round_at_random` of a signed 32-bit value, as a signed 33-bit value."""
    total = (value + Cat(word & ~mask, Const(0, 1)).as_signed())[: len(mask) + 1]
    return (total & Cat(mask, Const(1, 1))).as_signed()


class ModelRounding(wiring.Component):
    """Round the weights of a shard of a chunk at random on their way to the published copy.

    The low `cut` bits are removed. A weight is rounded up with the probability that makes the result unbiased; a result
    above the range of MASTER becomes its maximum. Each batch uses the random words of its own seed, and the initial
    model those of the seed of the run. The words of a shard are those of its first chunk without shards, and of every
    `shards`-th chunk from there: its seed is that of the run plus INDEX_STEP for each earlier shard.

    Latency: `PUBLISH_LATENCY` cycles. Throughput: one chunk a cycle. No backpressure.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with random rounding.

    Members
    -------
    begin : 1 bit, in
        High until the registers of the run are valid: take the seed.
    cut : 0 to 31, in
        Bits to remove.
    seed : 32 bits, in
        Seed of the run.
    chunk : PublishedChunk, in
        A chunk of the model. The chunks of a model come in order, starting with chunk 0.
    events : UpdateEvents, in
        Events beside the chunk.
    rounded : PublishedChunk, out
        The chunk with rounded weights.
    rounded_events : UpdateEvents, out
        The events, delayed like the chunk.
    """

    def __init__(self, config: AcceleratorConfig):
        self._config = config
        super().__init__(
            {
                "begin": In(1),
                "cut": In(CUT),
                "seed": In(SEED_BITS),
                "chunk": In(PublishedChunk(config)),
                "events": In(UpdateEvents()),
                "rounded": Out(PublishedChunk(config)),
                "rounded_events": Out(UpdateEvents()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        chunk, events, rounded = self.chunk, self.events, self.rounded
        seed = Signal(SEED_BITS)
        count = Signal(SEED_BITS)
        loading = Signal(init=1)
        next_seed = Signal(SEED_BITS)
        m.d.comb += next_seed.eq(Mux(loading, seed, seed + SEED_STEP))
        count_now = Mux(chunk.address == 0, next_seed, count)
        with m.If(self.begin):
            m.d.sync += seed.eq(self.seed)
        with m.If(chunk.publish):
            m.d.sync += count.eq(count_now + INDEX_STEP * self._config.shards)
            with m.If(chunk.address == 0):
                m.d.sync += seed.eq(next_seed)
        with m.If(events.load_done):
            m.d.sync += loading.eq(0)

        mask = cut_mask(m, self.cut, "retained")
        for j in range(CHUNK):
            word = random_word(m, count_now, j, f"word_{j}")
            master = delay(m, chunk.masters.word_select(j, MASTER.bits), WORD_LATENCY, f"master_{j}")
            value, _ = saturate(_rounded(master.as_signed(), word, mask), MASTER)
            m.d.sync += rounded.masters.word_select(j, MASTER.bits).eq(value)
        late = self.rounded_events
        m.d.comb += [
            rounded.address.eq(delay(m, chunk.address, PUBLISH_LATENCY, "address")),
            rounded.bank.eq(delay(m, chunk.bank, PUBLISH_LATENCY, "bank")),
            rounded.publish.eq(delay_valid(m, chunk.publish, PUBLISH_LATENCY, "publish")[-1]),
            late.published.eq(delay_valid(m, events.published, PUBLISH_LATENCY, "published")[-1]),
            late.epoch_done.eq(delay_valid(m, events.epoch_done, PUBLISH_LATENCY, "epoch_done")[-1]),
            late.load_done.eq(delay_valid(m, events.load_done, PUBLISH_LATENCY, "load_done")[-1]),
        ]
        return m


class ScaledGradientRounding(wiring.Component):
    """Round both scaled gradients of each row of a group at random.

    The low `cut` bits are removed. A value is rounded up with the probability that makes the result unbiased, and the
    result is clipped to SCALED_GRADIENT. The random words depend on the seed of the batch and the index of the group.

    Latency: `SCALED_GRADIENT_LATENCY` cycles from `scaled_gradients`, which follow `due` by `LEAD_CYCLES` cycles.
    Throughput: one group a cycle. No backpressure; the results stay until those of the next group.

    Parameters
    ----------
    config : AcceleratorConfig
        Sizes of the build; with random rounding.

    Members
    -------
    begin : 1 bit, in
        High until the registers of the run are valid: take the seed.
    cut : 0 to 31, in
        Bits to remove.
    seed : 32 bits, in
        Seed of the run.
    due : 1 bit, in
        The scaled gradients of a group will be valid `LEAD_CYCLES` cycles later.
    end : GroupEnd, in
        Facts about the group. Valid with `due`.
    scaled_gradients : array of rows_per_beat ScaledGradients, in
        Scaled gradients of each row of the group.
    rounded : array of rows_per_beat ScaledGradients, out
        Their rounded values.
    clipped : 2 * rows_per_beat bits, out
        For each row, flags of clipped values: total, difference. Valid when `rounded` changes.
    seed_now : 32 bits, out
        Seed after the batches so far.
    """

    LEAD_CYCLES = WORD_LATENCY

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
        count_now = Mux(first, self.seed_now, count)
        with m.If(self.begin):
            m.d.sync += self.seed_now.eq(self.seed)
        with m.If(self.due):
            m.d.sync += [count.eq(count_now + INDEX_STEP), first.eq(self.end.batch_last)]
            with m.If(self.end.batch_last):
                m.d.sync += self.seed_now.eq(self.seed_now + SEED_STEP)

        valid = delay_valid(m, self.due, self.LEAD_CYCLES, "due")[-1]
        mask = cut_mask(m, self.cut, "retained")
        for row, (given, rounded) in enumerate(zip(self.scaled_gradients, self.rounded, strict=True)):
            for i, name in enumerate(("total", "difference")):
                lane = 2 * row + i
                word = random_word(m, count_now, CHUNK + lane, f"word_{lane}")
                value, clipped = saturate(_rounded(given[name], word, mask), SCALED_GRADIENT)
                m.d.sync += self.clipped[lane].eq(valid & clipped)
                with m.If(valid):
                    m.d.sync += rounded[name].eq(value)
        return m


assert SCALED_GRADIENT_LATENCY == 1 and PUBLISH_LATENCY == WORD_LATENCY + 1

"""The rows of each group of an encoding: a group at the end of a batch may have fewer than a beat has words for."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitlane.contract.prng import INDEX_STEP, SEED_BITS
from bitlane_hw.common.fixed_point import register

from .payloads import GROUP_BITS


class GroupRows(wiring.Component):
    """Count the rows of each group, from the first group on.

        rows(group) = epoch_tail for the last group, batch_tail for the last one of a batch, else `rows`

    Latency: one cycle from `take` to `present`. Throughput: one group a cycle. No backpressure.

    Parameters
    ----------
    rows : int
        Rows of a full group, 2 to 8.

    Members
    -------
    groups, batch_groups : 24 bits, in
        Groups of the encoding and of a batch. Constant from one cycle before the last cycle of `begin` on.
    batch_tail, epoch_tail : unsigned, in
        Rows in the last group of a batch and in the last group, likewise constant.
    begin : 1 bit, in
        Start with the first group.
    take : 1 bit, in
        A group is taken. The first one is taken after `begin`.
    step : 32 bits, out
        Steps of the counter of random words over the rows of a group: of the first one while `begin` is high, and with
        `take` of the one behind the group that is taken. Behind the last group it has no meaning.
    present : bits, out
        A bit for each word of a row in a beat: whether the group that was taken last has this row.
    """

    def __init__(self, rows: int):
        self._rows = rows
        super().__init__(
            {
                "groups": In(GROUP_BITS),
                "batch_groups": In(GROUP_BITS),
                "batch_tail": In(range(rows + 1)),
                "epoch_tail": In(range(rows + 1)),
                "begin": In(1),
                "take": In(1),
                "step": Out(SEED_BITS),
                "present": Out(rows),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left, batch_left = Signal(GROUP_BITS), Signal(GROUP_BITS)  # groups behind the next one
        upcoming = Signal(range(self._rows + 1))  # rows of the next group
        ends = Mux(self.begin, self.groups == 1, left == 0)
        batch_ends = Mux(self.begin, self.batch_groups == 1, batch_left == 0)
        full = Const(self._rows * INDEX_STEP % (1 << SEED_BITS), SEED_BITS)
        short = register(m, (self.batch_tail * INDEX_STEP)[:SEED_BITS], "short")
        m.d.comb += self.step.eq(Mux(batch_ends, short, full))  # nothing follows the end of the epoch
        with m.If(self.begin | self.take):
            m.d.sync += [
                upcoming.eq(Mux(ends, self.epoch_tail, Mux(batch_ends, self.batch_tail, self._rows))),
                left.eq(Mux(self.begin, self.groups - 2, left - 1)),
                batch_left.eq(
                    Mux(batch_ends, self.batch_groups, Mux(self.begin, self.batch_groups - 1, batch_left)) - 1
                ),
            ]
        with m.If(self.take):
            m.d.sync += self.present.eq(Cat(row < upcoming for row in range(self._rows)))
        return m

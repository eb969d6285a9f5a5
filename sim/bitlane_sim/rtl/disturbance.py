"""What goes wrong on the buses of a simulated accelerator: stalls, limits, orders and errors."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

from .dram import DRAMS, DramTicks

CHANNELS = ("ar", "r", "aw", "w", "b", "lite")
WriteOrder = Literal["any", "together", "data first", "address first"]  # in the order of cpp/axi.h
WRITE_ORDERS: tuple[WriteOrder, ...] = get_args(WriteOrder)
FULL_RATE = 1 << 16  # a beat per cycle
RESPONSES = {"slave": 2, "decode": 3}


@dataclass(frozen=True)
class Disturbance:
    """Stalls, limits and errors of the buses; the default has none.

    Parameters
    ----------
    seed : int
        Seed of all random choices. Each channel has a separate generator.
    stall_ar, stall_r, stall_aw, stall_w, stall_b : float
        Probability in each cycle, from 0 to below 1, that the memory stalls this channel.
    stall_r_cycles : float or None
        Mean cycles of a stall of R, at least ``1 / (1 - stall_r)``. By default each cycle is drawn alone.
    stall_lite : float
        The same for each signal with which the host drives the register port.
    read_rate : float
        Read beats per cycle on average: above 0, at most 1.
    outstanding : int
        Bursts in each direction that the memory accepts before it answers the first.
    read_error_burst, read_error_beat, write_error_burst : int or None
        Number, from 0, of the burst or beat that is answered with an error, at each port.
    error : {"slave", "decode"}
        The response to it: SLVERR or DECERR.
    skew : int
        Cycles by which each further port answers reads later than the one before it.
    write_order : {"any", "together", "data first", "address first"}
        Which ready signals of a write wait: none; both until address and data are offered; AWREADY until the last beat
        of its burst is accepted; WREADY until the address is accepted. AXI allows all of them.
    interleave, outlives_reset : bool
        Read beats of different IDs in any order, which AXI allows. The memory port goes on with its bursts after a
        reset of the design, as on a Zynq-7000.
    dram : DramTicks or None
        The DRAM behind each port; by default a memory that has each beat in its cycle.
    alone : int or None
        The only port, modulo their number, with stalls, a lower read rate and errors; None for all ports.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    seed: int = 0
    stall_ar: float = 0.0
    stall_r: float = 0.0
    stall_aw: float = 0.0
    stall_w: float = 0.0
    stall_b: float = 0.0
    stall_lite: float = 0.0
    read_rate: float = 1.0
    outstanding: int = 64
    read_error_burst: int | None = None
    read_error_beat: int | None = None
    write_error_burst: int | None = None
    error: Literal["slave", "decode"] = "slave"
    skew: int = 0
    write_order: WriteOrder = "any"
    interleave: bool = False
    outlives_reset: bool = False
    alone: int | None = None
    dram: DramTicks | None = None
    stall_r_cycles: float | None = None

    def __post_init__(self) -> None:
        for channel in CHANNELS:
            if not 0 <= self.stall(channel) < 1:
                raise ValueError(f"stall_{channel}={self.stall(channel)} must be at least 0 and below 1")
        if self.stall_r_cycles is not None and self.stall_r_cycles * (1 - self.stall_r) < 1:
            raise ValueError(
                f"stall_r_cycles={self.stall_r_cycles} must be at least 1 / (1 - stall_r) = {1 / (1 - self.stall_r):g}"
            )
        if not 1 / FULL_RATE <= self.read_rate <= 1:
            raise ValueError(f"read_rate={self.read_rate} must be from 2**-16 to 1")
        if self.outstanding < 1:
            raise ValueError(f"outstanding={self.outstanding} must be at least 1")
        if self.skew < 0:
            raise ValueError(f"skew={self.skew} must not be negative")
        if self.error not in RESPONSES:
            raise ValueError(f'error={self.error!r} must be "slave" or "decode"')
        if self.write_order not in WRITE_ORDERS:
            raise ValueError(f"write_order={self.write_order!r} must be one of {', '.join(map(repr, WRITE_ORDERS))}")

    def stall(self, channel: str) -> float:
        """Return the probability for one of `CHANNELS`."""
        return float(getattr(self, f"stall_{channel}"))

    @property
    def read_stalls(self) -> tuple[float, float]:
        """Probabilities of a stall of R in a cycle after one without a stall, and after one with a stall."""
        if self.stall_r_cycles is None:
            return self.stall_r, self.stall_r
        return self.stall_r / (self.stall_r_cycles * (1 - self.stall_r)), 1 - 1 / self.stall_r_cycles

    @classmethod
    def arbitrary(cls, seed: int) -> Disturbance:
        """Return a random disturbance without errors: some channels free, some nearly blocked, in any legal order."""
        chosen = random.Random(seed)
        ar, r, aw, w, b, lite = (chosen.choice((0.0, 0.1, 0.5, 0.9)) for _ in CHANNELS)
        rate, outstanding = chosen.choice((1.0, 0.6, 0.15)), chosen.choice((1, 2, 5, 64))
        skew = chosen.choice((0, 1, 40))
        order, interleave = chosen.choice(WRITE_ORDERS), chosen.random() < 0.5
        alone = chosen.choice((None, chosen.randrange(8)))
        dram = chosen.choice((None, *DRAMS))
        return cls(
            *(seed, ar, r, aw, w, b, lite, rate, outstanding),
            skew=skew,
            write_order=order,
            interleave=interleave,
            alone=alone,
            dram=None if dram is None else dram.ticks(chosen.choice((100e6, 300e6)), chosen.choice((8, 64))),
        )

"""Plans of bits: few while the rate is so large that its noise is lost anyway, more when draws hold the loss up.

A plan is made before a training, from the moments of its table (`moments.TableMoments`): how many bits each epoch
needs. Noise of early epochs is forgotten while the learning rate decays, so that these epochs can have few bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from bitlane.contract.precision import FULL_BITS
from bitlane.errors import DataError
from bitlane.policies.choices import check_choices

from .forecast import Forecast
from .moments import Spread

BLOCKS = 20  # into which the epochs of a plan are cut
NEAR = 1.001  # losses this close count as equal where none is low enough


@dataclass(frozen=True)
class BitPlan:
    """How bits are planned: `bits="adaptive"`.

    The plan reaches the loss of 32 bits in the fewest cycles with bits that never fall, and then takes the fewest bits
    that bring the loss a little nearer, because forecasts err, and hold it there.

    Parameters
    ----------
    choices : sequence of int, default=(2, 4, 6, 8)
        The allowed bits, even and ascending.
    reach, hold : float, default=1.01, 1.005
        Losses to reach first and to hold then, over that of 32 bits.
    """

    choices: tuple[int, ...] = (2, 4, 6, 8)
    reach: float = 1.01
    hold: float = 1.005

    def __post_init__(self) -> None:
        check_choices(self.choices)
        if not self.reach >= self.hold > 1:
            raise DataError(f"reach and hold must be above 1, and reach not below hold; got {self.reach}, {self.hold}")


def plan_bits(plan: BitPlan, forecast: Forecast) -> tuple[int, ...]:
    """Return the bits of each epoch.

    Where no choice reaches the loss of 32 bits in time, all epochs have the most bits.

    Parameters
    ----------
    plan : BitPlan
    forecast : Forecast
    """
    full = forecast.losses(FULL_BITS)[-1]
    goal = plan.reach * full
    fixed = {}
    for bits in plan.choices:
        reached = [epoch for epoch, loss in enumerate(forecast.losses(bits)) if loss <= goal]
        if reached:
            fixed[bits] = (reached[0] + 1) * forecast.cycles[bits]
    if not fixed:
        return (plan.choices[-1],) * forecast.epochs
    best = min(fixed, key=lambda bits: fixed[bits])
    epochs = fixed[best] // forecast.cycles[best]
    search = _Search(plan, forecast, goal, block=-(-epochs // BLOCKS), most=fixed[best])
    search.visit(forecast.moments.start(), ())
    return _held(plan, forecast, plan.hold * full, search.best or (best,) * epochs)


class _Search:
    """A search, depth first, for the bits that reach the goal in the fewest cycles. Bits never fall.

    Parameters
    ----------
    plan, forecast, goal
    block : int
        Epochs that share their bits.
    most : int
        A plan must take fewer cycles than these.
    """

    def __init__(self, plan: BitPlan, forecast: Forecast, goal: float, block: int, most: float):
        self._plan = plan
        self._forecast = forecast
        self._goal = goal
        self._block = block
        self._least = most
        self.best: tuple[int, ...] = ()

    def visit(self, spread: Spread, bits_so_far: tuple[int, ...], spent: float = 0.0) -> None:
        """Try all bits for the epochs after those so far, which took `spent` cycles."""
        forecast, first = self._forecast, len(bits_so_far)
        for bits in self._plan.choices:
            if first and bits < bits_so_far[-1]:
                continue
            cycles = spent + self._block * forecast.cycles[bits]
            if first and bits > bits_so_far[-1]:
                cycles += forecast.start_cycles
            if first >= forecast.epochs or cycles >= self._least:
                return
            reached = forecast.after(spread, bits, first, self._block)
            taken = (*bits_so_far, *(bits,) * self._block)
            if forecast.moments.loss(reached) <= self._goal:
                self._least, self.best = cycles, taken[: forecast.epochs]
            else:
                self.visit(reached, taken, cycles)


def _held(plan: BitPlan, forecast: Forecast, goal: float, taken: tuple[int, ...]) -> tuple[int, ...]:
    """Return bits for all epochs: those taken, and then the fewest that end at the goal, or as near as any."""
    spread = forecast.moments.start()
    for epoch, bits in enumerate(taken):
        spread = forecast.after(spread, bits, epoch)
    for epoch in range(len(taken), forecast.epochs):
        ways = [(bits, forecast.after(spread, bits, epoch)) for bits in plan.choices]
        enough = max(goal, NEAR * min(forecast.moments.loss(reached) for _, reached in ways))
        bits, spread = next(way for way in ways if forecast.moments.loss(way[1]) <= enough)
        taken = (*taken, bits)
    return taken

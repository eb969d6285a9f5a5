"""The settings of a training, tuned for each task, and its learning rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import cos, pi

from bitlane.errors import BitlaneError

WEIGHT_DECAY = 0.1  # of AdamW


@dataclass(frozen=True)
class LocalRecipe:
    """The settings of a training.

    Attributes
    ----------
    batch : int
        Examples per rank and step.
    rate : float
        Largest learning rate of AdamW, the inner optimizer, with plain DDP and alone.
    local_rate : float
        The same with DiLoCo.
    outer_rate, outer_momentum : float
        Learning rate and Nesterov momentum of DiLoCo's outer optimizer.
    steps : int
        Inner steps, a multiple of `every`, because DiLoCo drops the steps after its last round.
    every : int
        Inner steps between two rounds.

    Raises
    ------
    BitlaneError
        If `steps` is not a multiple of `every`.
    """

    batch: int
    rate: float
    local_rate: float
    outer_rate: float
    outer_momentum: float
    steps: int = 1008
    every: int = 28

    def __post_init__(self) -> None:
        if min(self.steps, self.every) < 1 or self.steps % self.every:
            raise BitlaneError(
                f"--steps must be a multiple of --every, 1 or more, because DiLoCo drops the steps after its last "
                f"round; got {self.steps} and {self.every}"
            )

    def longer(self) -> LocalRecipe:
        """Return the recipe with as many rounds, each with a third as many steps again, rounded down."""
        every = self.every * 4 // 3
        return replace(self, every=every, steps=self.steps // self.every * every)

    def factor(self, step: int) -> float:
        """Return the share of the largest rate in a step, from 0: linear over the first tenth, then a cosine to 0."""
        rise = max(1, self.steps // 10)
        if step < rise:
            return (step + 1) / rise
        return (1 + cos(pi * (step - rise) / (self.steps - rise))) / 2


TUNED = {
    "images": LocalRecipe(batch=32, rate=4e-3, local_rate=2e-3, outer_rate=0.7, outer_momentum=0.7),
    "text": LocalRecipe(batch=32, rate=1.5e-2, local_rate=1.5e-2, outer_rate=0.8, outer_momentum=0.4),
}

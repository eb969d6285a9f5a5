"""MQGrad (Cui et al., 2018): SARSA learns during training how many bits to use.

A decision follows each period of `period` steps. The state consists of the bits and the smoothed losses of the period
(equation 1). The actions are to keep the bits or to increase them. The reward is the slope of the smoothed losses
divided by the time of the period (equation 2).

The paper leaves some points open or contradicts itself. This implementation decides them as follows:

1. The network has one output for each choice of bits, and there are two actions. Keeping choice n has the value of
   output n; increasing has the value of output n + 1. At the last choice the only action is to keep.
2. n in the state follows the greedy action, even if the other action was taken (equation 3). Bits that were increased
   for exploration therefore fall back. A tie keeps the bits.
3. The other action is taken with probability epsilon instead of epsilon / 2. The draw is a function of seed and period.
4. The first period uses the fewest bits; the first decision follows it. The first smoothed loss is the first loss.
5. A decreasing loss is rewarded; equation 2 has the sign of the slope.
6. Losses are divided by the first loss and times by that of the first period, so that the reward does not depend on
   their units. Rewards are clipped to +-1 and states to +-2.
7. Values are discounted by 0.9. Without a discount they would grow while the loss decreases.
8. The step along the gradient of the network is limited to avoid overshooting (`QNetwork.update_value`). With the
   clipped reward this keeps values within about 1 / (1 - discount).
9. The loss is the mean over ranks, and the time is that of the slowest rank. A period with a non-finite loss changes
   nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from bitlane.errors import DataError
from bitlane.support.hashing import derive_seed

from .choices import BIT_CHOICES, check_choices, check_period, check_state
from .period import Period
from .protocol import AllGather, Observation
from .qnetwork import Floats, QNetwork

HIDDEN = 10
_CLIPPED_STATE, _CLIPPED_REWARD = 2.0, 1.0


@dataclass(frozen=True)
class MQGrad:
    """A bit policy that learns from losses and step times (Cui et al., 2018).

    The defaults are those of the paper, except for the discount.

    Parameters
    ----------
    choices : sequence of int, default: 2 to 8
        The allowed bits, ascending.
    period : int, default: 5
        Steps between decisions (T), and number of losses in the state; 2 or more.
    exploration : float, default: 0.1
        Probability of the action that is not greedy (epsilon).
    rate : float, default: 0.1
        Learning rate of the network (eta).
    smoothing : float, default: 0.01
        Weight of a new loss in the moving average (alpha).
    scale : float, default: 300.0
        Scale of the reward (gamma).
    discount : float, default: 0.9
        Discount of later rewards.
    seed : int, default: 0
        Seed of the initial weights and of exploration.

    Examples
    --------
    >>> from bitlane.compress import QSGD, MQGrad
    >>> compressor = QSGD(bits=MQGrad(seed=1))  # doctest: +SKIP
    """

    choices: Sequence[int] = BIT_CHOICES
    period: int = 5
    exploration: float = 0.1
    rate: float = 0.1
    smoothing: float = 0.01
    scale: float = 300.0
    discount: float = 0.9
    seed: int = 0
    observes_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choices(self.choices)
        check_period(self.period, 2)
        for name, most in (("exploration", 1.0), ("rate", 1.0), ("smoothing", 1.0), ("discount", 1.0)):
            if not 0 <= getattr(self, name) <= most:
                raise DataError(f"{name} must be from 0 to {most:g}; got {getattr(self, name)!r}")
        if not (isfinite(self.scale) and self.scale > 0):
            raise DataError(f"scale must be finite and above 0; got {self.scale!r}")

    def start(self) -> MQGradChooser:
        """Return a chooser for the first step."""
        return MQGradChooser(self)


class MQGradChooser:
    """The chooser of `MQGrad`. All ranks compute the same choices. Internally a choice is its index in `choices`."""

    def __init__(self, mqgrad: MQGrad):
        self.settings = mqgrad
        self._period = Period(mqgrad.period)
        self._network = QNetwork(mqgrad.period, HIDDEN, len(mqgrad.choices), derive_seed(mqgrad.seed))
        self._numbers = {"periods": 0.0, "smoothed": 0.0, "loss_unit": 0.0, "seconds_unit": 0.0}
        self._greedy_choice = 0  # n of the next state
        self._taken = 0  # the choice of the current period, and the output that its reward updates
        self._state: Floats | None = None  # the state in which it was taken; None before the first decision

    @property
    def bits(self) -> int:
        return self.settings.choices[self._taken]

    def after(self, observed: Observation, all_gather: AllGather) -> None:
        self._period.add(observed)
        if self._period.complete:
            self._choose(*self._period.exchange(all_gather))

    def _choose(self, losses: Sequence[float], seconds: float) -> None:
        """Choose the bits of the next period (algorithm 2) from the losses and the time of the last one."""
        numbers = self._numbers
        numbers["periods"] += 1
        if not all(map(isfinite, losses)):
            return
        if not numbers["loss_unit"]:
            numbers.update(smoothed=losses[0], loss_unit=abs(losses[0]) or 1.0, seconds_unit=seconds or 1.0)
        smoothed = self._smooth(losses)
        reward = self._reward(smoothed, seconds)
        state = np.clip(smoothed / numbers["loss_unit"], -_CLIPPED_STATE, _CLIPPED_STATE)
        values, now = self._network.values(state), self._greedy_choice
        greedy = self._greedy(values, now)
        taken = self._other(greedy, now) if self._explores() else greedy
        if self._state is not None:
            target = reward + self.settings.discount * float(values[taken])
            error = target - float(self._network.values(self._state)[self._taken])
            self._network.update_value(self._state, self._taken, self.settings.rate * error)
        self._state = state
        self._taken = taken
        self._greedy_choice = greedy

    def _smooth(self, losses: Sequence[float]) -> Floats:
        """Return the moving average of the losses (equation 1), continued from the previous period."""
        new, smoothed = self.settings.smoothing, []
        for loss in losses:
            self._numbers["smoothed"] = new * loss + (1 - new) * self._numbers["smoothed"]
            smoothed.append(self._numbers["smoothed"])
        return np.array(smoothed)

    def _reward(self, smoothed: Floats, seconds: float) -> float:
        """Return the reward (equation 2) with the negative slope of the least-squares line."""
        x = np.arange(len(smoothed)) - (len(smoothed) - 1) / 2
        slope = float(sum((x * smoothed).tolist()) / sum((x**2).tolist())) / self._numbers["loss_unit"]
        time = seconds / self._numbers["seconds_unit"] or 1.0
        return min(max(-slope / time * self.settings.scale, -_CLIPPED_REWARD), _CLIPPED_REWARD)

    def _greedy(self, values: Floats, now: int) -> int:
        return now + 1 if now + 1 < len(values) and values[now + 1] > values[now] else now

    def _other(self, greedy: int, now: int) -> int:
        return min(now + 1, len(self.settings.choices) - 1) if greedy == now else now

    def _explores(self) -> bool:
        drawn = derive_seed(self.settings.seed, 1, int(self._numbers["periods"]))
        return drawn < self.settings.exploration * 2**32

    def state_dict(self) -> dict[str, Any]:
        state = np.full(self.settings.period, np.nan) if self._state is None else self._state.copy()
        own = {"confident": self._greedy_choice, "taken": self._taken, "state": state}
        return {**self._numbers, **own, **self._period.state_dict(), **self._network.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict())
        self._network.load_state_dict(state)
        self._period.load_state_dict(state)
        self._numbers = {name: float(state[name]) for name in self._numbers}
        self._greedy_choice, self._taken = int(state["confident"]), int(state["taken"])
        saved = np.array(state["state"], np.float64)
        self._state = None if np.isnan(saved).any() else saved

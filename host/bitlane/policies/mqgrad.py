"""MQGrad (Cui et al., 2018): a Markov decision process, learned by SARSA during the training, chooses the bits.

After each period of `period` steps the state is the bits and the smoothed losses of the period (equation 1). The
actions are to keep the bits and to raise them. The reward is the slope of the smoothed losses over time (equation 2).

Where the paper is silent or contradicts itself, this implementation decides:

1. The network has one output for each choice of bits, and there are two actions: to keep n bits has the value of output
   n, to raise them the value of the next output. With the most bits, keeping is the only action.
2. n in the state follows the greedy action, not the action taken (equation 3): bits that were raised to explore fall
   back. A tie keeps the bits.
3. The action that is not greedy is taken with probability epsilon, not epsilon / 2. The draw is a function of seed and
   period.
4. The first period has the fewest bits; the first choice follows it. The first smoothed loss is the first loss.
5. A falling loss is rewarded: the sign of the slope in equation 2 is reversed.
6. Losses are in units of the first loss, and times in units of the time of the first period, so that the reward does
   not depend on the units. Reward and state are clipped to +-1 and +-2.
7. Values are discounted by 0.9. Without a discount they grow as long as the loss falls.
8. The step along the gradient of the network is shortened if it would overshoot (`QNetwork.move`). With a clipped
   reward, this keeps values within about 1 / (1 - discount).
9. The loss is the mean over ranks, and the time is that of the slowest rank. A period with a loss that is not finite
   changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

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
    """The MQGrad policy. The defaults are those of the paper, except for the discount.

    Parameters
    ----------
    choices : sequence of int
        Bits that the policy may choose, in ascending order.
    period : int
        Steps between two choices, T; also the number of losses that the network sees.
    exploration : float
        Probability of the action that is not greedy, epsilon.
    rate : float
        Learning rate, eta.
    smoothing : float
        Weight of a new loss in the moving average, alpha.
    scale : float
        Factor on the reward, gamma.
    discount : float
        Discount of later rewards.
    seed : int
        Seed of the first weights of the network and of exploration.
    """

    choices: Sequence[int] = BIT_CHOICES
    period: int = 5
    exploration: float = 0.1
    rate: float = 0.1
    smoothing: float = 0.01
    scale: float = 300.0
    discount: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self.choices)
        check_period(self.period, 2)
        for name, most in (("exploration", 1.0), ("rate", 1.0), ("smoothing", 1.0), ("discount", 1.0)):
            if not 0 <= getattr(self, name) <= most:
                raise DataError(f"{name}={getattr(self, name)!r}: it must be from 0 to {most:g}")
        if not (isfinite(self.scale) and self.scale > 0):
            raise DataError(f"scale={self.scale!r}: it must be above 0")

    def start(self) -> MQGradChooser:
        return MQGradChooser(self)


class MQGradChooser:
    """Learns and chooses; all ranks compute the same. Inside, choices are represented by their indices."""

    def __init__(self, settings: MQGrad):
        self.settings = settings
        self._period = Period(settings.period)
        self._network = QNetwork(settings.period, HIDDEN, len(settings.choices), derive_seed(settings.seed))
        self._numbers = {"periods": 0.0, "smoothed": 0.0, "loss_unit": 0.0, "seconds_unit": 0.0}
        self._confident = 0  # n of the state to come
        self._taken = 0  # what the period that runs has, and the output that its reward is for
        self._state: Floats | None = None  # that it was taken in; None before the first choice

    @property
    def bits(self) -> int:
        return self.settings.choices[self._taken]

    def after(self, observed: Observation, share: AllGather) -> None:
        self._period.add(observed)
        if self._period.complete:
            self._choose(*self._period.exchange(share))

    def _choose(self, losses: Sequence[float], seconds: float) -> None:
        """Run algorithm 2 with the losses and the time of the period that ended."""
        numbers = self._numbers
        numbers["periods"] += 1
        if not all(map(isfinite, losses)):
            return
        if not numbers["loss_unit"]:
            numbers.update(smoothed=losses[0], loss_unit=abs(losses[0]) or 1.0, seconds_unit=seconds or 1.0)
        smoothed = self._smooth(losses)
        reward = self._reward(smoothed, seconds)
        state = np.clip(smoothed / numbers["loss_unit"], -_CLIPPED_STATE, _CLIPPED_STATE)
        values, now = self._network.values(state), self._confident
        greedy = self._greedy(values, now)
        taken = self._other(greedy, now) if self._explores() else greedy
        if self._state is not None:
            target = reward + self.settings.discount * float(values[taken])
            error = target - float(self._network.values(self._state)[self._taken])
            self._network.move(self._state, self._taken, self.settings.rate * error)
        self._state, self._taken, self._confident = state, taken, greedy

    def _smooth(self, losses: Sequence[float]) -> Floats:
        """Smooth the losses (equation 1), continuing from the period before."""
        new, smoothed = self.settings.smoothing, []
        for loss in losses:
            self._numbers["smoothed"] = new * loss + (1 - new) * self._numbers["smoothed"]
            smoothed.append(self._numbers["smoothed"])
        return np.array(smoothed)

    def _reward(self, smoothed: Floats, seconds: float) -> float:
        """Return the reward (equation 2): the negative slope of a least-squares fit."""
        places = np.arange(len(smoothed)) - (len(smoothed) - 1) / 2
        slope = float(sum((places * smoothed).tolist()) / sum((places**2).tolist())) / self._numbers["loss_unit"]
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
        own = {"confident": self._confident, "taken": self._taken, "state": state}
        return {**self._numbers, **own, **self._period.state_dict(), **self._network.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict())
        self._network.load_state_dict(state)
        self._period.load_state_dict(state)
        self._numbers = {name: float(state[name]) for name in self._numbers}
        self._confident, self._taken = int(state["confident"]), int(state["taken"])
        seen = np.array(state["state"], np.float64)
        self._state = None if np.isnan(seen).any() else seen

"""MQGrad (Cui et al., 2018): bits chosen by a Markov decision process that SARSA learns while a training runs.

After each period of `period` steps the state is the bits and the period's losses, smoothed (equation 1); the actions
are to keep the bits and to raise them; the reward is the slope of the smoothed losses over the time taken (equation 2).

Where the paper is silent, or says two things, this is decided:

1. The network has an output for each choice of bits, and there are two actions: keeping n bits has the value of output
   n, raising them that of the next. With the most bits there is only keeping.
2. n in the state follows the greedy action, whatever was taken (equation 3): bits that were raised to explore fall
   back. A tie keeps.
3. The other action is taken with probability epsilon, not epsilon / 2. The draw is a function of seed and period.
4. The first period has the least bits, and is followed by the first choice. The first smoothed loss is the first loss.
5. A falling loss is rewarded: equation 2 has the sign of the slope.
6. Losses count in units of the first loss, time in units of the first period's: the reward does not depend on what
   they are measured in. Reward and state are clipped to +-1 and +-2.
7. Values are discounted, by 0.9: without, they grow for as long as the loss falls.
8. The step along the network's gradient is shortened where it would overshoot (`QNetwork.move`); a clipped reward and
   this keep values within about 1 / (1 - discount).
9. The loss is the mean over ranks, the time that of the slowest rank. A period with a loss that is not finite teaches
   nothing and changes nothing.
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
    """Settings; the defaults are the paper's, but for the discount.

    Parameters
    ----------
    choices: the bits that it may choose, ascending.
    period: steps between choices, T; also the losses that the network sees.
    exploration: probability of the action that is not the greedy one, epsilon.
    rate: of learning, eta.
    smoothing: weight of a new loss in the moving average, alpha.
    scale: of the reward, gamma.
    discount: of later rewards.
    seed: of the network's first weights and of exploration.
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
    """Learns and chooses; every rank's computes the same. Numbers of choices stand for bits inside."""

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
        """Algorithm 2, with the losses and the time of the period that ended."""
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
        """Equation 1; goes on from the period before."""
        new, smoothed = self.settings.smoothing, []
        for loss in losses:
            self._numbers["smoothed"] = new * loss + (1 - new) * self._numbers["smoothed"]
            smoothed.append(self._numbers["smoothed"])
        return np.array(smoothed)

    def _reward(self, smoothed: Floats, seconds: float) -> float:
        """Equation 2, with the slope of the least squares fit, and its sign turned."""
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

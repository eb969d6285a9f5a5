"""A second implementation of MQGrad in plain loops, from algorithm 2 and the decisions that the module lists."""

from __future__ import annotations

import math


class Textbook:
    """Values, choices and weights as lists. `explored` has a flag for each decision."""

    def __init__(self, weights, explored, choices, alpha, scale, discount, eta):
        self.inward = [list(row) for row in weights["into_hidden"]]
        self.inward_bias = list(weights["hidden_bias"])
        self.outward = [list(row) for row in weights["into_outputs"]]
        self.outward_bias = list(weights["output_bias"])
        self.explored = explored
        self.choices, self.alpha, self.scale, self.discount, self.eta = choices, alpha, scale, discount, eta
        self.smoothed = self.unit = self.first_time = None
        self.n = self.used = 0
        self.previous = None

    def value(self, state, output):
        hidden = self.hidden(state)
        return sum(w * h for w, h in zip(self.outward[output], hidden, strict=True)) + self.outward_bias[output]

    def hidden(self, state):
        columns = zip(*self.inward, strict=True)
        sums = (sum(w * x for w, x in zip(column, state, strict=True)) for column in columns)
        return [max(total + bias, 0.0) for total, bias in zip(sums, self.inward_bias, strict=True)]

    def period(self, number, losses, seconds):
        """Return the bits of the next period."""
        if self.unit is None:
            self.smoothed, self.unit, self.first_time = losses[0], abs(losses[0]), seconds
        smoothed = []
        for loss in losses:
            self.smoothed = self.alpha * loss + (1 - self.alpha) * self.smoothed
            smoothed.append(self.smoothed)
        count = len(smoothed)
        mean_i, mean_l = (count + 1) / 2, sum(smoothed) / count
        slope = sum((i + 1 - mean_i) * (loss - mean_l) for i, loss in enumerate(smoothed))
        slope /= sum((i + 1 - mean_i) ** 2 for i in range(count))
        reward = -(slope / self.unit) / (seconds / self.first_time) * self.scale
        reward = max(-1.0, min(1.0, reward))
        state = [max(-2.0, min(2.0, each / self.unit)) for each in smoothed]
        top = self.n == len(self.choices) - 1
        raises = not top and self.value(state, self.n + 1) > self.value(state, self.n)
        taken = raises if not self.explored[number] or top else not raises
        if self.previous is not None:
            error = reward + self.discount * self.value(state, self.n + taken) - self.value(*self.previous)
            self.learn(*self.previous, self.eta * error)
        self.previous = state, self.n + taken
        self.used = self.n + taken
        self.n += raises
        return self.choices[self.used]

    def learn(self, state, output, change):
        hidden = self.hidden(state)
        inward = [w if h > 0 else 0.0 for w, h in zip(self.outward[output], hidden, strict=True)]
        length = 1 + sum(h * h for h in hidden) + sum(g * g for g in inward)
        length += sum((g * x) ** 2 for g in inward for x in state)
        step = change / max(1.0, length)
        assert math.isfinite(step)
        for unit, gradient in enumerate(inward):
            self.outward[output][unit] += step * hidden[unit]
            self.inward_bias[unit] += step * gradient
            for place, x in enumerate(state):
                self.inward[place][unit] += step * gradient * x
        self.outward_bias[output] += step

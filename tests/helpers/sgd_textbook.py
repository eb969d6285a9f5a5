"""The accelerator's arithmetic, row by row in Python integers: slow, and as near to the design as can be.

It shares no code with the package, so that it can judge `bitlane.reference.machine`; the numbers of the contract are
written out on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log1p


def round_half_up(x: int, n: int) -> int:
    return x if n == 0 else (x + 2 ** (n - 1)) >> n


def round_dot(dot: int, bits: int, weight_exponent: int) -> int:
    return dot << weight_exponent - bits if weight_exponent > bits else round_half_up(dot, bits - weight_exponent)


def random_word(seed: int, place: int, lane: int) -> int:
    """Of random rounding: eight rounds of x, y -> y ^ (x<<<1 & x<<<8) ^ x<<<2 ^ key, x on the halves of a count."""
    mixed = (lane + 1) * 0x85EBCA6B % 2**32
    start = (seed + place * 0x85EBCA6B) % 2**32 ^ (mixed ^ mixed >> 15) * 0xC2B2AE35 % 2**32
    x, y = divmod(start, 2**16)
    for i in range(8):
        turned = [(x * 2**n | x // 2 ** (16 - n)) % 2**16 for n in (1, 8, 2)]
        x, y = y ^ turned[0] & turned[1] ^ turned[2] ^ (i + 1) * 0x9E3779B9 // 2**16 % 2**16, x
    return x * 2**16 + y


def round_at_random(x: int, word: int, cut: int) -> int:
    return (x + word % 2**cut) // 2**cut * 2**cut


@dataclass
class Textbook:
    """A run of one output: set the registers, then call `epoch` for each epoch.

    base_digits: b / 2. draws: whether double sampling. rows_per_beat: rows of a group.
    step, step_negative, penalty_step:
    (mantissa, exponent). loss: "squares", "hinge" or "logistic". prox: "none", "l2", "l1" or "box".
    master: stored weights, one for each feature. levels: of table lanes, for each feature its own; None without.
    weight_exponent: weights count 2**weight_exponent times. model_cut, scaled_gradient_cut, seed: of random rounding.
    """

    base_digits: int
    draws: bool
    batch: int
    rows_per_beat: int
    step: tuple[int, int]
    step_negative: tuple[int, int]
    penalty_step: tuple[int, int]
    decay: int
    phase: int
    loss: str
    prox: str
    bounds: tuple[int, int]
    unpenalized_intercept: bool
    staleness: int
    master: list[int]
    levels: list[list[int]] | None = None
    weight_exponent: int = 0
    model_cut: int = 0
    scaled_gradient_cut: int = 0
    seed: int = 0
    saturations: int = 0
    seen: set[str] = field(default_factory=set)  # which values were ever clipped, and what a prox ever changed

    def clip(self, x: int, bits: int, name: str) -> int:
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if low <= x <= high:
            return x
        if name:
            self.saturations += 1
            self.seen.add(name)
        return low if x < low else high

    def read(self) -> list[int]:
        words = [random_word(self.seed, j // 32, j % 32) for j in range(len(self.master))]
        rounded = [round_at_random(a, word, self.model_cut) for a, word in zip(self.master, words, strict=True)]
        return [self.clip(a, 32, "") >> 8 for a in rounded]

    def epoch(self, codes: list[list[int]], draws: list[list[int]], labels: list[int]) -> int:
        """One epoch over base codes, draw codes (ignored without draws) and labels; the loss."""
        rows = list(zip(codes, draws, labels, strict=True))
        loss = 0
        models = [self.read()] * (1 + self.staleness)  # as of after each batch, and before the first
        for start in range(0, len(rows), self.batch):
            batch = rows[start : start + self.batch]
            weights = models[-1 - self.staleness]
            penalty_step32 = (self.penalty_step[0] << 16) >> self.penalty_step[1]
            self.phase += penalty_step32
            carries = self.phase >= 2**32
            self.phase %= 2**32
            for first in range(0, len(batch), self.rows_per_beat):
                group = batch[first : first + self.rows_per_beat]
                taken = [0] * len(weights)
                for column, row in enumerate(group):
                    lanes = [32 + 2 * column, 33 + 2 * column]
                    words = [random_word(self.seed, first // self.rows_per_beat, lane) for lane in lanes]
                    row_loss, t = self.row(*row, weights, words)
                    loss += row_loss
                    taken = [a + b for a, b in zip(taken, t, strict=True)]
                last = first + self.rows_per_beat >= len(batch)
                for j, t in enumerate(taken):
                    a = self.master[j] - t
                    clipped = self.clip(a, 32, "w")
                    spared = self.unpenalized_intercept and j == len(taken) - 1
                    if last and clipped == a and not spared:
                        self.master[j] = self.after_prox(a, carries, penalty_step32 >> 4)
                        if self.master[j] != a:
                            self.seen.add(self.prox)
                    else:
                        self.master[j] = clipped
            self.seed = (self.seed + 0x9E3779B9) % 2**32
            models.append(self.read())
        halvings = self.decayed(self.step)[1] - self.step[1]
        if self.step[0]:
            self.scaled_gradient_cut = max(0, self.scaled_gradient_cut - halvings)
        self.step = self.decayed(self.step)
        self.step_negative = self.decayed(self.step_negative)
        self.penalty_step = self.decayed(self.penalty_step)
        return loss

    def after_prox(self, a: int, carries: bool, tau: int) -> int:
        if self.prox == "l2" and carries:
            return a - (a >> 6)
        if self.prox == "l1":
            return a - tau if a > tau else a + tau if a < -tau else 0
        if self.prox == "box":
            low, high = self.bounds
            return high << 16 if a >> 16 >= high else low << 16 if a >> 16 < low else a
        return a

    def decayed(self, number: tuple[int, int]) -> tuple[int, int]:
        mantissa, exponent = number
        p = mantissa * self.decay
        if p >= 2**31:
            return p >> 16, exponent
        if exponent < 31:
            return p >> 15, exponent + 1
        return p >> 16, exponent

    def row(
        self, code: list[int], draw: list[int], label: int, weights: list[int], words: list[int]
    ) -> tuple[int, list[int]]:
        """The row's loss, and what it takes from each weight."""
        chosen = None
        if self.levels is None:
            dots = self.dots_of_digits(code, draw, weights)
        else:
            chosen = [
                [levels[i + (u >> 1)] for levels, i, u in zip(self.levels, code, draw, strict=True)],
                [levels[i + (u & 1)] for levels, i, u in zip(self.levels, code, draw, strict=True)],
            ]
            sums = [sum(a * x for a, x in zip(copy, weights, strict=True)) for copy in chosen]
            dots = [round_dot(dot, 16, self.weight_exponent) for dot in sums]
        if self.loss == "squares":
            (r1, loss1), (r2, loss2) = (self.residual(dot, label) for dot in dots)
            loss = round_half_up(r1 * r2, 8)
        else:
            slope = self.hinge if self.loss == "hinge" else self.logistic
            (r1, loss1), (r2, loss2) = (slope(self.clip(dot, 24, ""), label >= 0) for dot in dots)
            loss = (loss1 + loss2) << 11
        mantissa, exponent = self.step if label >= 0 else self.step_negative
        s = self.clip(round_half_up((r1 + r2) * mantissa, exponent + 4), 32, "s")
        d = self.clip(round_half_up((r2 - r1) * mantissa, exponent + 4), 32, "d")
        s, d = (
            self.clip(round_at_random(x, word, self.scaled_gradient_cut), 32, "rounded")
            for x, word in zip((s, d), words, strict=True)
        )
        if chosen is not None:
            c1 = self.clip(round_half_up(s - d, 6), 25, "c")
            c2 = self.clip(round_half_up(s + d, 6), 25, "c")
            return loss, [
                round_half_up(a1 * c2, 13) + round_half_up(a2 * c1, 13) for a1, a2 in zip(*chosen, strict=True)
            ]
        taken = []
        for j in range(len(weights)):
            t = 0
            for k in range(self.base_digits):
                digit = code[j] // 4 ** (self.base_digits - 1 - k) % 4
                t += self.pick(digit, round_half_up(3 * s, 2 * k + 4), round_half_up(s, 2 * k + 4))
            if self.draws:
                k = self.base_digits
                t += self.pick(draw[j], round_half_up(s, 2 * k + 2), round_half_up(d, 2 * k + 2))
            taken.append(t)
        return loss, taken

    def dots_of_digits(self, code: list[int], draw: list[int], weights: list[int]) -> list[int]:
        """Both copies' dot products with odd integers, rounded."""
        b = 2 * self.base_digits
        dot = sum((2 * i + 1 - 2**b) * x for i, x in zip(code, weights, strict=True))
        dots = [dot, dot]
        if self.draws:
            dots[0] += sum((1 if u & 2 else -1) * x for u, x in zip(draw, weights, strict=True))
            dots[1] += sum((1 if u & 1 else -1) * x for u, x in zip(draw, weights, strict=True))
        return [round_dot(dot, b, self.weight_exponent) for dot in dots]

    def residual(self, dot: int, label: int) -> tuple[int, int]:
        return self.clip(self.clip(dot, 24, "z") - (label << 5), 24, "r"), 0

    @staticmethod
    def hinge(z: int, positive: bool) -> tuple[int, int]:
        v = 2**20 - (z if positive else -z)
        return (-(2**20) if positive else 2**20) if v > 0 else 0, max(v, 0)

    @staticmethod
    def logistic(z: int, positive: bool) -> tuple[int, int]:
        u = z if z >= 0 else ~z
        middle = ((u >> 13) + 0.5) / 128
        q = round(2**18 / (1 + exp(middle))) << 2
        sigma = 2**20 - q if z >= 0 else q
        value = max(-z if positive else z, 0) + (round(2**18 * log1p(exp(-middle))) << 2)
        return sigma - 2**20 if positive else sigma, value

    @staticmethod
    def pick(digit: int, p: int, m: int) -> int:
        high, low = digit >> 1, digit & 1
        return (p if high == low else m) * (1 if high else -1)


def parts(register):
    """Return the mantissa and the exponent of a register."""
    return register & 0xFFFF, register >> 16


def textbooks(geometry, settings, master, levels=None):
    """Return one textbook model for each output."""
    return [
        Textbook(
            base_digits=geometry.base_digits,
            draws=geometry.draws,
            batch=geometry.batch,
            rows_per_beat=geometry.rows_per_beat,
            step=parts(settings.step),
            step_negative=parts(settings.step_negative),
            penalty_step=parts(settings.penalty_step),
            decay=settings.decay,
            phase=settings.phase,
            loss=settings.loss.name.lower(),
            prox=settings.prox.name.lower(),
            bounds=settings.bounds,
            unpenalized_intercept=settings.unpenalized_intercept,
            staleness=settings.staleness,
            master=of_output,
            model_cut=settings.model_cut,
            scaled_gradient_cut=settings.scaled_gradient_cut,
            seed=settings.seed,
            weight_exponent=settings.weight_exponent,
            levels=None if levels is None else levels.T.tolist(),
        )
        for of_output in master.tolist()
    ]

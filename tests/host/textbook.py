"""The accelerator's arithmetic, row by row in Python integers: slow, and as near to the design as can be.

It shares no code with the package, so that it can judge `bitlane.reference`; the numbers of the contract are
written out on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field


def round_half_up(x: int, n: int) -> int:
    return x if n == 0 else (x + 2 ** (n - 1)) >> n


@dataclass
class Textbook:
    """A run: set the registers, then call `epoch` for each epoch.

    base_digits: b / 2. draws: whether double sampling. step, rate: (mantissa, exponent). shift: of a shrink.
    master: stored weights, one for each feature.
    """

    base_digits: int
    draws: bool
    batch: int
    step: tuple[int, int]
    rate: tuple[int, int]
    decay: int
    shift: int
    phase: int
    master: list[int]
    saturations: int = 0
    seen: set[str] = field(default_factory=set)  # which values were ever clipped

    def clip(self, x: int, bits: int, name: str) -> int:
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if low <= x <= high:
            return x
        self.saturations += 1
        self.seen.add(name)
        return low if x < low else high

    def epoch(self, codes: list[list[int]], draws: list[list[int]], labels: list[int]) -> int:
        """One epoch over base codes, draw codes (ignored without draws) and labels; the loss."""
        loss = 0
        weights = [a >> 8 for a in self.master]
        for row, (code, draw, label) in enumerate(zip(codes, draws, labels, strict=True)):
            last = row == len(codes) - 1 or row % self.batch == self.batch - 1
            shrinks = False
            if last:
                self.phase += (self.rate[0] << 16) >> self.rate[1]
                shrinks = self.phase >= 2**32
                self.phase %= 2**32
            loss += self.row(code, draw, label, weights, shrinks)
            if last:
                weights = [a >> 8 for a in self.master]
        self.step = self.decayed(self.step)
        self.rate = self.decayed(self.rate)
        return loss

    def decayed(self, number: tuple[int, int]) -> tuple[int, int]:
        mantissa, exponent = number
        p = mantissa * self.decay
        if p >= 2**31:
            return p >> 16, exponent
        if exponent < 31:
            return p >> 15, exponent + 1
        return p >> 16, exponent

    def row(self, code: list[int], draw: list[int], label: int, weights: list[int], shrinks: bool) -> int:
        b = 2 * self.base_digits
        dot = sum((2 * i + 1 - 2**b) * x for i, x in zip(code, weights, strict=True))
        dots = [dot, dot]
        if self.draws:
            dots[0] += sum((1 if u & 2 else -1) * x for u, x in zip(draw, weights, strict=True))
            dots[1] += sum((1 if u & 1 else -1) * x for u, x in zip(draw, weights, strict=True))
        z = [self.clip(round_half_up(dot, b), 24, "z") for dot in dots]
        r1, r2 = (self.clip(value - (label << 5), 24, "r") for value in z)
        mantissa, exponent = self.step
        s = self.clip(round_half_up((r1 + r2) * mantissa, exponent + 4), 32, "s")
        d = self.clip(round_half_up((r2 - r1) * mantissa, exponent + 4), 32, "d")
        for j, a in enumerate(self.master):
            t = 0
            for k in range(self.base_digits):
                digit = code[j] // 4 ** (self.base_digits - 1 - k) % 4
                t += self.pick(digit, round_half_up(3 * s, 2 * k + 4), round_half_up(s, 2 * k + 4))
            if self.draws:
                k = self.base_digits
                t += self.pick(draw[j], round_half_up(s, 2 * k + 2), round_half_up(d, 2 * k + 2))
            if shrinks:
                t += a >> self.shift
            self.master[j] = self.clip(a - t, 32, "w")
        return round_half_up(r1 * r2, 8)

    @staticmethod
    def pick(digit: int, p: int, m: int) -> int:
        high, low = digit >> 1, digit & 1
        return (p if high == low else m) * (1 if high else -1)

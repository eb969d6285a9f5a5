"""LR, FM and FFM with their optimizers as textbooks write them: float64, one number at a time, no code of bitlane."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

MASK = (1 << 64) - 1


# --- optimizers, one weight each
@dataclass
class TextbookFTRL:
    alpha: float
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    z: float = 0.0
    n: float = 0.0

    def start_at(self, weight: float) -> None:
        if weight:
            self.z = -weight * (self.beta / self.alpha + self.l2) - math.copysign(self.l1, weight)

    @property
    def weight(self) -> float:
        if abs(self.z) <= self.l1:
            return 0.0
        sign = 1.0 if self.z > 0 else -1.0
        return -(self.z - sign * self.l1) / ((self.beta + math.sqrt(self.n)) / self.alpha + self.l2)

    def step(self, g: float, rows_seen: int = 0) -> None:
        sigma = (math.sqrt(self.n + g * g) - math.sqrt(self.n)) / self.alpha
        self.z += g - sigma * self.weight
        self.n += g * g


@dataclass
class TextbookAdaGrad:
    learning_rate: float
    initial_accumulator: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    weight: float = 0.0
    total: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.total = self.initial_accumulator

    def start_at(self, weight: float) -> None:
        self.weight = weight

    def step(self, g: float, rows_seen: int = 0) -> None:
        if g == 0:
            return
        g += self.l2 * self.weight
        self.total += g * g
        rate = self.learning_rate / math.sqrt(self.total)
        self.weight = soft_threshold(self.weight - rate * g, rate * self.l1)


@dataclass
class TextbookSGD:
    learning_rate: float
    decay: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    weight: float = 0.0

    def start_at(self, weight: float) -> None:
        self.weight = weight

    def step(self, g: float, rows_seen: int = 0) -> None:
        if g == 0:
            return
        rate = self.learning_rate / (1 + self.decay * rows_seen)
        self.weight = soft_threshold(self.weight - rate * (g + self.l2 * self.weight), rate * self.l1)


def soft_threshold(x: float, threshold: float) -> float:
    return math.copysign(max(abs(x) - threshold, 0.0), x)


BOOKS = {"ftrl": TextbookFTRL, "adagrad": TextbookAdaGrad, "sgd": TextbookSGD}


# --- scores and gradients of one row; `rows` are the weights of its features: [linear, factors...]
def lr_score(bias, rows, fields, x):
    """b + sum w_i x_i"""
    return bias + sum(row[0] * each for row, each in zip(rows, x, strict=True))


def fm_score(bias, rows, fields, x):
    """b + sum w_i x_i + sum_{i<j} <v_i, v_j> x_i x_j, pair by pair"""
    pairs = sum(
        float(np.dot(rows[i][1:], rows[j][1:])) * x[i] * x[j] for i in range(len(x)) for j in range(i + 1, len(x))
    )
    return lr_score(bias, rows, fields, x) + pairs


def ffm_score(rows, fields, x, dim, normalise=True):
    """sum_{i<j} <v_{i, f_j}, v_{j, f_i}> x_i x_j, over sum x^2 if `normalise`; rows without linear weights"""
    total = 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            mine = rows[i][fields[j] * dim : (fields[j] + 1) * dim]
            other = rows[j][fields[i] * dim : (fields[i] + 1) * dim]
            total += float(np.dot(mine, other)) * x[i] * x[j]
    return total / sum(each * each for each in x) if normalise and len(x) else total


def fm_gradient(rows, fields, x):
    """Derivatives of `fm_score` by the weights of each row."""
    gradients = []
    for i in range(len(x)):
        others = sum((rows[j][1:] * x[j] for j in range(len(x)) if j != i), np.zeros(len(rows[i]) - 1))
        gradients.append(np.concatenate([[x[i]], x[i] * others]))
    return gradients


def loss_of(loss: str, score: float, label: float) -> float:
    if loss == "squared_error":
        return (score - label) ** 2 / 2
    return math.log1p(math.exp(-abs(score))) + max(score, 0.0) - label * score


def slope_of(loss: str, score: float, label: float) -> float:
    if loss == "squared_error":
        return score - label
    return 1 / (1 + math.exp(-score)) - label if score > -700 else -label


# --- online training
class Textbook:
    """A model that learns row by row.

    Parameters
    ----------
    kind : {"lr", "fm", "ffm"}
    dim : int
    linear, factors, dense : tuple
        Name of the optimizer and its settings; `linear` is None for an FFM, `dense` without intercept.
    first : callable
        From a key to its first weights, float64 [values].
    """

    def __init__(self, kind, dim, linear, factors, dense, first, loss="log_loss", normalise=True):
        self.kind, self.dim, self.loss, self.first, self.normalise = kind, dim, loss, first, normalise
        self.linear, self.factors = linear, factors
        self.bias = None if dense is None else BOOKS[dense[0]](**dense[1])
        self.rows: dict[int, list] = {}
        self.seen = 0

    def _row(self, key):
        if key not in self.rows:
            weights = self.first(key)
            kinds = [self.linear] * (self.linear is not None)
            kinds += [self.factors] * (len(weights) - len(kinds))
            row = [BOOKS[name](**settings) for name, settings in kinds]
            for each, weight in zip(row, weights, strict=True):
                each.start_at(float(weight))
            self.rows[key] = row
        return self.rows[key]

    def learn(self, keys, fields, x, label) -> float:
        """Learn one row; return its score before."""
        rows = [self._row(key) for key in keys]
        weights = [np.array([each.weight for each in row]) for row in rows]
        bias = 0.0 if self.bias is None else self.bias.weight
        if self.kind == "ffm":
            first = int(self.linear is not None)
            factors = [each[first:] for each in weights]
            score = bias + ffm_score(factors, fields, x, self.dim, self.normalise)
            gradients = [[] for _ in x]
            if self.linear is not None:
                score += sum(each[0] * value for each, value in zip(weights, x, strict=True))
                gradients = [[value] for value in x]
        elif self.kind == "fm":
            score, gradients = fm_score(bias, weights, fields, x), fm_gradient(weights, fields, x)
        else:
            score, gradients = lr_score(bias, weights, fields, x), [[each] for each in x]
        slope = slope_of(self.loss, score, label)
        for row, gradient in zip(rows, gradients, strict=True):
            for each, g in zip(row, gradient, strict=self.kind != "ffm"):
                each.step(slope * float(g), self.seen)
        if self.kind == "ffm":
            self._learn_pairs([row[self.linear is not None :] for row in rows], fields, x, slope)
        if self.bias is not None:
            self.bias.step(slope, self.seen)
        self.seen += 1
        return score

    def _learn_pairs(self, rows, fields, x, slope):
        """Algorithm 1 of Juan et al. (2016): the two factors of each pair take their steps before the next pair."""
        scale = slope / sum(each * each for each in x) if self.normalise and len(x) else slope
        for i in range(len(x)):
            for j in range(i + 1, len(x)):
                for d in range(self.dim):
                    mine, other = rows[i][fields[j] * self.dim + d], rows[j][fields[i] * self.dim + d]
                    weights = mine.weight, other.weight
                    mine.step(scale * x[i] * x[j] * weights[1], self.seen)
                    other.step(scale * x[i] * x[j] * weights[0], self.seen)

    def epoch(self, batch) -> float:
        """Learn all rows of a batch; return the mean loss before each row."""
        total = 0.0
        for r in range(batch.rows):
            part = slice(batch.offsets[r], batch.offsets[r + 1])
            keys, fields = batch.keys[part].tolist(), batch.fields[part].tolist()
            label = float(batch.labels[r])
            total += loss_of(self.loss, self.learn(keys, fields, batch.values[part].tolist(), label), label)
        return total / batch.rows


# --- first weights
def mixed(word: int) -> int:
    """The finalizer of splitmix64 (Steele, Lea and Flood, 2014)."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def first_weight(seed: int, key: int, place: int, scale: float, initial: str) -> float:
    """First weight of `key` at `place` among a row's weights, in float64."""
    word = mixed((mixed(key ^ mixed(seed)) + (place + 1) * 0x9E3779B97F4A7C15) & MASK)
    if initial == "uniform":
        return scale * (word >> 40) / 2**24
    parts = sum((word >> shift) & 0xFFFF for shift in (0, 16, 32, 48))
    return scale * (parts - 4 * 65535 / 2) / math.sqrt(4 * (2**32 - 1) / 12)

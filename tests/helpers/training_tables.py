"""Tables and a textbook SGD for the tests of training."""

import numpy as np

from bitlane.contract.precision import Precision

FULL = Precision(32, "full")


def table(seed, rows=701, n=40, targets=1):
    """A noisy linear table; y is [rows], or [rows, targets] of several."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3, 2, (rows, n))
    y = X @ rng.normal(size=(n, targets)) + rng.normal(0, 0.3, (rows, targets))
    return X, y[:, 0] if targets == 1 else y


def signs(y):
    """The targets as classes, -1 and 1, about as many of each."""
    return np.where(y > np.median(y, axis=0), 1.0, -1.0)


def scaled(run):
    """The weights [n] and intercept of a run of margins, as `textbook` gives them."""
    return np.append(run.weights, run.intercept + run.coef @ run.scaling.center)

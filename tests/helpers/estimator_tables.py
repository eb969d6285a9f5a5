"""Tables and short names for the tests of the estimators."""

import numpy as np
from tests.helpers.emulators import FASTEST

from bitlane import SGDClassifier, SGDRegressor

BOTH = [SGDRegressor, SGDClassifier]


def table(seed, rows=200, n=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n)) * 10.0 ** np.arange(n)
    return X, X @ (rng.normal(1, 0.3, n) / 10.0 ** np.arange(n)) + 5


def regressor(**parameters):
    return SGDRegressor(**{"device": FASTEST, "random_state": 0, "learning_rate": 0.3} | parameters)


def classifier(**parameters):
    return SGDClassifier(**{"device": FASTEST, "random_state": 0, "learning_rate": 0.3} | parameters)


class Frame:
    """As much of a DataFrame as is looked at."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)

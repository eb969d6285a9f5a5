"""Linear models with scikit-learn's conventions."""

from .sgd import SGDClassifier, SGDRegressor

__all__ = ["SGDClassifier", "SGDRegressor"]

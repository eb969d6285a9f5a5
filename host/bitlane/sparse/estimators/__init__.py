"""Sparse models with scikit-learn's conventions."""

from .classifiers import (
    DeepFMClassifier,
    DNNClassifier,
    FFMClassifier,
    FMClassifier,
    LRClassifier,
    WideDeepClassifier,
)
from .regressors import FMRegressor, LRRegressor

__all__ = [
    "DNNClassifier",
    "DeepFMClassifier",
    "FFMClassifier",
    "FMClassifier",
    "FMRegressor",
    "LRClassifier",
    "LRRegressor",
    "WideDeepClassifier",
]

"""scikit-learn's own tests of SGD, from the installed package, with bitlane's estimators under its names."""

from __future__ import annotations

import inspect
from importlib.util import find_spec, module_from_spec
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import sklearn.linear_model
import sklearn.utils._testing  # before the marks are replaced

import bitlane

TESTS = "sklearn.linear_model.tests.test_sgd"


class Absent(NotImplementedError):
    """A class of scikit-learn that bitlane has not."""


class _Adapter:
    """Parameters by scikit-learn's names and defaults; 32 bits, one row a batch."""

    bits, sampling, levels, draws, batch_size, device = 32, "full", "uniform", 8, 1, "cpu"
    bounds, staleness, model_bits, gradient_bits, average_every, on_device_failure = None, 0, None, None, 1, "raise"
    early_stopping: Any
    max_iter: int
    eta0: float
    learning_rate: Any
    tol: Any

    @property
    def epochs(self) -> int:
        return self.max_iter

    @property
    def decay(self) -> float:
        return 1.0 if self.learning_rate == "constant" else 0.9

    def _options(self, *arguments: Any, **named: Any) -> Any:
        """Options of bitlane, whose learning rate is a number or "auto"."""
        asked, self.learning_rate = self.learning_rate, self.eta0 if self.learning_rate == "constant" else "auto"
        try:
            return super()._options(*arguments, **named)  # type: ignore[misc]
        finally:
            self.learning_rate = asked

    def _stopping(self, *arguments: Any) -> Any:
        """What ends a fit, with scikit-learn's meaning of None beside early stopping: no plateau."""
        asked = self.tol
        self.tol = None if asked in (None, -np.inf) else asked
        if self.early_stopping and self.tol is None:
            self.tol = -1e300
        try:
            return super()._stopping(*arguments)  # type: ignore[misc]
        finally:
            self.tol = asked

    def fit(self, X: Any, y: Any, coef_init: Any = None, intercept_init: Any = None, sample_weight: Any = None) -> Any:
        given = {"coef_init": coef_init, "intercept_init": intercept_init, "sample_weight": sample_weight}
        return super().fit(X, y, **given)  # type: ignore[misc]


def _parameters_of(name: str) -> Any:
    """Return an `__init__` with the parameters and defaults of scikit-learn's estimator of this name."""
    signature = inspect.signature(vars(sklearn.linear_model)[name].__init__)

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        bound = signature.bind(self, *given, **named)
        bound.apply_defaults()
        vars(self).update({each: value for each, value in bound.arguments.items() if each != "self"})

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


class SGDRegressor(_Adapter, bitlane.SGDRegressor):
    """bitlane's regressor with scikit-learn's parameters."""

    __init__ = _parameters_of("SGDRegressor")


class SGDClassifier(_Adapter, bitlane.SGDClassifier):
    """bitlane's classifier with scikit-learn's parameters."""

    __init__ = _parameters_of("SGDClassifier")


class SGDOneClassSVM:
    """A model that bitlane has not."""

    def __init__(self, **parameters: Any):
        raise Absent("SGDOneClassSVM")


class _Marks:
    """The marks of pytest that change how a test runs; scikit-learn's own leave a test as it is."""

    parametrize = pytest.mark.parametrize

    def __getattr__(self, name: str) -> Any:
        return lambda test: test


def adapted_tests() -> ModuleType:
    """Return a fresh copy of scikit-learn's module of tests, whose estimators are those above."""
    ours = {each.__name__: each for each in (SGDClassifier, SGDRegressor, SGDOneClassSVM)}
    spec = find_spec(TESTS)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    with mock.patch.multiple(sklearn.linear_model, **ours), mock.patch.object(pytest, "mark", _Marks()):
        spec.loader.exec_module(module)
    theirs = {name: getattr(sklearn.linear_model, name) for name in sklearn.linear_model.__all__}
    module.linear_model = SimpleNamespace(**theirs | ours)  # type: ignore[attr-defined]
    return module

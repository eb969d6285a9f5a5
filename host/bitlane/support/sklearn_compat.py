"""scikit-learn's base classes and exceptions if it is installed; small stand-ins if not, as on a board."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from bitlane.errors import DataError

if TYPE_CHECKING:

    class BaseEstimator:
        """scikit-learn's class of this name, as far as bitlane uses it."""

        def __sklearn_tags__(self) -> Any: ...

    class RegressorMixin:
        """scikit-learn's class of this name."""

    class ClassifierMixin:
        """scikit-learn's class of this name."""

    class _NotFitted(ValueError, AttributeError): ...

    class DataConversionWarning(UserWarning):
        """scikit-learn's class of this name."""

    class ConvergenceWarning(UserWarning):
        """scikit-learn's class of this name."""

else:
    try:
        from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
        from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
        from sklearn.exceptions import NotFittedError as _NotFitted
    except ImportError:

        class BaseEstimator:
            """An estimator whose parameters are those of its constructor."""

            def get_params(self, deep: bool = True) -> dict[str, Any]:
                """Return the parameters by name. `deep` is scikit-learn's, and changes nothing here."""
                return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

            def set_params(self, **params: Any) -> BaseEstimator:
                """Set parameters by name, and return the estimator."""
                known = inspect.signature(type(self)).parameters
                for name, value in params.items():
                    if name not in known:
                        raise DataError(
                            f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {list(known)!r}."
                        )
                    setattr(self, name, value)
                return self

            def __repr__(self) -> str:
                defaults = {name: p.default for name, p in inspect.signature(type(self)).parameters.items()}
                changed = {name: value for name, value in self.get_params().items() if value != defaults[name]}
                return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

        class RegressorMixin:
            """Marks a regressor."""

        class ClassifierMixin:
            """Marks a classifier."""

        class _NotFitted(ValueError, AttributeError):
            pass

        class DataConversionWarning(UserWarning):
            """An array was given in another shape than expected."""

        class ConvergenceWarning(UserWarning):
            """A training ended before it had converged."""


class NotFittedError(DataError, _NotFitted):
    """A method that needs a fitted estimator was called before fit. It is scikit-learn's error of this name, too."""


def not_fitted(estimator: str) -> NotFittedError:
    """Return the error for a method of `estimator` that needs fit first."""
    return NotFittedError(f"this {estimator} is not fitted: call fit first")

"""Methods that an estimator has with some parameters only, as scikit-learn's `available_if` makes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any


class available_unless:
    """Decorator of a method that an object has unless there is a reason against it.

    The method keeps its name and its documentation, which scikit-learn's tools read.

    Parameters
    ----------
    reason : callable
        Returns why the object has no such method, or "".
    """

    def __init__(self, reason: Callable[[Any], str]):
        self._reason = reason

    def __call__(self, method: Callable[..., Any]) -> Any:
        return _Available(method, self._reason)


class _Available:
    """A descriptor; AttributeError for objects that lack the method."""

    def __init__(self, method: Callable[..., Any], reason: Callable[[Any], str]):
        self._method, self._reason = method, reason
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method
        if reason := self._reason(instance):
            message = f"this {type(instance).__name__!r} has no attribute {self._name!r}: {reason}"
            raise AttributeError(message) from AttributeError(reason)
        return MethodType(self._method, instance)

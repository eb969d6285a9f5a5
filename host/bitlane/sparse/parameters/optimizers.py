"""The settings of the optimizers: FTRL, AdaGrad, SGD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from bitlane.errors import DataError
from bitlane.support.scalars import as_number

SETTINGS = 5  # numbers that a kernel takes: two of the optimizer's own, l1, l2, the accumulator at the start


@dataclass(frozen=True)
class Optimizer:
    """FTRL, AdaGrad or SGD.

    Attributes
    ----------
    name : str
    code : int
        By which kernels know it.
    floats : int
        Stored for each value.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    floats: ClassVar[int]

    def settings(self) -> tuple[float, ...]:
        """Return the numbers that the kernels take."""
        raise NotImplementedError


@dataclass(frozen=True)
class FTRL(Optimizer):
    """FTRL-proximal, as in McMahan et al., "Ad click prediction: a view from the trenches" (2013), algorithm 1.

    Each weight has two numbers, z and n, and follows from them::

        w = 0                                                            where |z| <= l1
        w = -(z - sgn(z) l1) / ((beta + sqrt(n)) / alpha + l2)           elsewhere

    A step with the gradient g: ``sigma = (sqrt(n + g^2) - sqrt(n)) / alpha``, ``z += g - sigma w``, ``n += g^2``.

    Parameters
    ----------
    alpha : float, default=0.1
        Learning rate.
    beta : float, default=1.0
        Above 0. Slows the first steps.
    l1, l2 : float, default=0.0
        Penalties. With `l1`, weights that carry little are exactly 0.
    """

    alpha: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    name: ClassVar[str] = "ftrl"
    code: ClassVar[int] = 0
    floats: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check(self, positive=("alpha", "beta"), at_least_0=("l1", "l2"))

    def settings(self) -> tuple[float, ...]:
        """Return the numbers that the kernels take."""
        return (self.alpha, self.beta, self.l1, self.l2, 0.0)


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    """AdaGrad: each weight's rate falls with the sum of its squared gradients, G.

    A step with the gradient g: ``g += l2 w``, ``G += g^2``, ``rate = learning_rate / sqrt(G)``, ``w -= rate g``; then
    the soft threshold: `w` moves by ``rate l1`` towards 0 and stops there. Where g is 0, nothing changes.

    Parameters
    ----------
    learning_rate : float, default=0.1
    initial_accumulator : float, default=1.0
        G at the start, above 0. 1 is libffm's.
    l1, l2 : float, default=0.0
        Penalties.
    """

    learning_rate: float = 0.1
    initial_accumulator: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    name: ClassVar[str] = "adagrad"
    code: ClassVar[int] = 1
    floats: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _check(self, positive=("learning_rate", "initial_accumulator"), at_least_0=("l1", "l2"))

    def settings(self) -> tuple[float, ...]:
        """Return the numbers that the kernels take."""
        return (self.learning_rate, 0.0, self.l1, self.l2, self.initial_accumulator)


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent without momentum.

    A step with the gradient g: ``rate = learning_rate / (1 + decay t)`` with the number t of rows that the model has
    learned before, or their weight, ``w -= rate (g + l2 w)``; then the soft threshold: `w` moves by ``rate l1`` towards
    0 and stops there. Where g is 0, nothing changes.

    Parameters
    ----------
    learning_rate : float, default=0.1
    decay : float, default=0.0
    l1, l2 : float, default=0.0
        Penalties.
    """

    learning_rate: float = 0.1
    decay: float = 0.0
    l1: float = 0.0
    l2: float = 0.0

    name: ClassVar[str] = "sgd"
    code: ClassVar[int] = 2
    floats: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check(self, positive=("learning_rate",), at_least_0=("decay", "l1", "l2"))

    def settings(self) -> tuple[float, ...]:
        """Return the numbers that the kernels take."""
        return (self.learning_rate, self.decay, self.l1, self.l2, 0.0)


OPTIMIZERS: dict[str, type[FTRL] | type[AdaGrad] | type[SGD]] = {each.name: each for each in (FTRL, AdaGrad, SGD)}


def optimizer_to_json(optimizer: Optimizer) -> dict[str, Any]:
    """Return the name and the settings of `optimizer`."""
    return {"name": optimizer.name, **asdict(optimizer)}


def optimizer_from_json(record: Mapping[str, Any]) -> Optimizer:
    """Return the optimizer of a record of `optimizer_to_json`.

    Raises
    ------
    DataError
        An unknown name, an unknown setting or a bad value.
    """
    given = dict(record)
    name = given.pop("name", None)
    if name not in OPTIMIZERS:
        raise DataError(f"optimizer {name!r} is unknown; choose one of {', '.join(OPTIMIZERS)}")
    try:
        return OPTIMIZERS[name](**given)
    except TypeError as error:
        raise DataError(f"optimizer {name} has no such settings: {', '.join(map(str, given))}") from error


def _check(settings: Optimizer, positive: tuple[str, ...], at_least_0: tuple[str, ...]) -> None:
    for name in positive + at_least_0:
        value = as_number(f"{name} of {settings.name}", getattr(settings, name))
        if value < 0 or (value == 0 and name in positive):
            raise DataError(
                f"{name} of {settings.name} must be {'above' if name in positive else 'at least'} 0; got {value}"
            )
        object.__setattr__(settings, name, value)

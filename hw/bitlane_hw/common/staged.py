"""Values that carry their stage of a pipeline, and refuse to meet a value of another stage."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from amaranth.hdl import Const, Module, Mux, Shape, Value, ValueCastable
from amaranth.lib import data

from .fixed_point import delay, delay_valid, register

__all__ = ["StageError", "Staged", "follow", "mux", "steady", "together"]


class StageError(ValueError):
    """Values of different stages meet, or a value is used in a stage in which it is not valid."""


def _operator(function: Callable[..., Any]) -> Callable[..., Staged]:
    """Return a method of `Staged` that applies an operator to values of one stage."""
    return lambda *operands: together(function, *operands)


class Staged:
    """A value of one item in a pipeline, and the stage in which it is valid.

    An item is in stage s in the s-th cycle after it entered the block. Operators, `together` and `mux` combine values
    of one stage; values of different stages raise `StageError`, so that the registers of a path cannot be miscounted.
    `at` returns the plain value for a statement, and names the stage that the statement belongs to.

    Parameters
    ----------
    value : Value, View or constant
        The value.
    stage : int or None
        Its stage; None if it is the same in all stages (`steady`).

    Attributes
    ----------
    stage : int or None
        As the parameter.
    """

    def __init__(self, value: Any, stage: int | None):
        self._value = value
        self.stage = stage

    def __repr__(self) -> str:
        return f"{self._value!r} of {'all stages' if self.stage is None else f'stage {self.stage}'}"

    def __getitem__(self, key: Any) -> Staged:
        return Staged(self._value[key], self.stage)

    __invert__ = _operator(operator.invert)
    __and__ = _operator(operator.and_)
    __or__ = _operator(operator.or_)
    __xor__ = _operator(operator.xor)
    __add__ = _operator(operator.add)
    __sub__ = _operator(operator.sub)
    __mul__ = _operator(operator.mul)
    __lshift__ = _operator(operator.lshift)
    __rshift__ = _operator(operator.rshift)
    __lt__ = _operator(operator.lt)
    __le__ = _operator(operator.le)
    __gt__ = _operator(operator.gt)
    __ge__ = _operator(operator.ge)
    __eq__ = _operator(operator.eq)
    __ne__ = _operator(operator.ne)
    __hash__ = None  # type: ignore[assignment]  # == makes a circuit

    def __radd__(self, other: int) -> Staged:
        return together(operator.add, other, self)

    def at(self, stage: int) -> Any:
        """Return the plain value, for use in a stage.

        Raises
        ------
        StageError
            The value is valid in another stage.
        """
        if self.stage not in (None, stage):
            raise StageError(f"{self!r} is used in stage {stage}; delay it with until(), or mend the count")
        return self._value

    def seen_in(self, stage: int) -> Staged:
        """Return this value for another item, which is in `stage` in the same cycle.

        So an item uses the results of an earlier one. No register is added.
        """
        self._own_stage()
        return Staged(self._value, stage)

    def registered(self, m: Module, name: str) -> Staged:
        """Return the value one stage later. The register has no reset."""
        stage = self._own_stage() + 1
        return Staged(self._like(register(m, Value.cast(self._value), name)), stage)

    def until(self, m: Module, stage: int, name: str) -> Staged:
        """Return the value in `stage`, its own or a later one. The registers have no reset.

        Raises
        ------
        StageError
            The value is valid after `stage` only, or in all stages.
        """
        return Staged(self._like(delay(m, Value.cast(self._value), self._cycles_to(stage), name)), stage)

    def valid_until(self, m: Module, stage: int, name: str) -> list[Staged]:
        """Return a valid bit in each stage from its own one to `stage`. The registers have a reset.

        Raises
        ------
        StageError
            As `until`.
        """
        own = self._own_stage()
        bits = delay_valid(m, Value.cast(self._value), self._cycles_to(stage), name)
        return [self, *(Staged(bit, own + cycles) for cycles, bit in enumerate(bits, 1))]

    def _like(self, value: Value) -> Any:
        """Return a value in the shape of this one: a view of the same layout, if this one is a view."""
        shape = self._value.shape()
        return value if isinstance(shape, Shape) else shape(value)

    def _own_stage(self) -> int:
        if self.stage is None:
            raise StageError(f"{self!r} needs no register: it is the same in all stages")
        return self.stage

    def _cycles_to(self, stage: int) -> int:
        cycles = stage - self._own_stage()
        if cycles < 0:
            raise StageError(f"{self!r} is needed in stage {stage}, before it is valid")
        return cycles


def steady(value: Any) -> Staged:
    """Return a value that stays the same while items are in the pipeline: a setting of the run or of an epoch."""
    return Staged(value, None)


def together(function: Callable[..., Any], *operands: Any) -> Staged:
    """Return `function` of values of one stage; integers and constants belong to all stages.

    Raises
    ------
    StageError
        The operands are of different stages.
    TypeError
        An operand is a plain value, of which the stage is unknown.
    """
    stages = set()
    for operand in operands:
        if isinstance(operand, Value | ValueCastable) and not isinstance(operand, Const | data.Const):
            raise TypeError(f"{operand!r} has no stage; say Staged(value, stage), or steady(value) if it never changes")
        if isinstance(operand, Staged) and operand.stage is not None:
            stages.add(operand.stage)
    if len(stages) > 1:
        meeting = ", ".join(repr(operand) for operand in operands)
        raise StageError(f"values of different stages meet: {meeting}")
    plain = (operand._value if isinstance(operand, Staged) else operand for operand in operands)
    return Staged(function(*plain), *(stages or (None,)))


def mux(select: Staged, one: Any, zero: Any) -> Staged:
    """Return `Mux` of values of one stage."""
    return together(Mux, select, one, zero)


def follow(m: Module, given: Any, result: Any, latency: int) -> list[Any]:
    """Return statements that drive `valid` and `payload.end` of a stream with those of another, `latency` cycles later.

    Parameters
    ----------
    m : Module
        Module that receives the registers.
    given, result : stream
        Streams that are always ready, whose payloads have a member `end`.
    latency : int
        Cycles from `given` to `result`.
    """
    *_, valid = Staged(given.valid, 0).valid_until(m, latency, "valid")
    end = Staged(given.payload.end, 0).until(m, latency, "end")
    return [result.valid.eq(valid.at(latency)), result.payload.end.eq(end.at(latency))]

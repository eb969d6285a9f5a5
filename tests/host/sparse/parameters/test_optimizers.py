"""The settings of the optimizers: checked, and carried by JSON."""

from __future__ import annotations

import json

import pytest

from bitlane.errors import DataError
from bitlane.sparse.parameters.optimizers import (
    FTRL,
    OPTIMIZERS,
    SGD,
    AdaGrad,
    optimizer_from_json,
    optimizer_to_json,
)


@pytest.mark.parametrize("kind", [FTRL, AdaGrad, SGD])
@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf"), "0.1", None])
def test_a_bad_value_is_named(kind, value) -> None:
    name = "alpha" if kind is FTRL else "learning_rate"
    with pytest.raises(DataError, match=rf"{name} of {kind.name}.*{str(value).strip('-')}"):
        kind(**{name: value})
    with pytest.raises(DataError, match=f"l1 of {kind.name}"):
        kind(l1=value)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (FTRL, "alpha"),
        (FTRL, "beta"),
        (AdaGrad, "learning_rate"),
        (AdaGrad, "initial_accumulator"),
        (SGD, "learning_rate"),
    ],
)
def test_zero_is_refused_where_it_divides_or_stops(kind, name: str) -> None:
    with pytest.raises(DataError, match=f"{name} of {kind.name} must be above 0; got 0"):
        kind(**{name: 0})


def test_penalties_and_decay_may_be_zero() -> None:
    assert SGD(decay=0, l1=0, l2=0).settings() == (0.1, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("optimizer", [FTRL(0.3, 2, 0.5, 4), AdaGrad(0.3, 2, 0.5, 4), SGD(0.3, 2, 0.5, 4)])
def test_json_carries_every_setting(optimizer) -> None:
    record = json.loads(json.dumps(optimizer_to_json(optimizer)))
    assert len(record) == 5
    assert optimizer_from_json(record) == optimizer


def test_an_unknown_name_or_setting_is_refused() -> None:
    with pytest.raises(DataError, match="optimizer 'adam' is unknown; choose one of ftrl, adagrad, sgd"):
        optimizer_from_json({"name": "adam"})
    with pytest.raises(DataError, match="optimizer sgd has no such settings: momentum"):
        optimizer_from_json({"name": "sgd", "momentum": 0.9})


def test_codes_are_distinct() -> None:
    assert len({each.code for each in OPTIMIZERS.values()}) == 3

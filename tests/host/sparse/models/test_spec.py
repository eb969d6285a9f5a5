"""The description of a model: defaults, checks, JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.models.spec import KINDS, NETWORKS, ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad


def make(kind: str, **settings) -> ModelSpec:
    needed = {"fields": 3} if kind == "ffm" or kind in NETWORKS else {}
    needed |= {"batch_rows": 64, "hidden": (8,)} if kind in NETWORKS else {}
    return ModelSpec(kind, **{**needed, **settings})


@pytest.mark.parametrize("kind", KINDS)
def test_json_carries_everything(kind: str) -> None:
    spec = make(kind, dim=5, linear=FTRL(0.2, l1=1), dense=AdaGrad(0.3), seed=2**64 - 1, sightings=3, halve_every=100)
    assert ModelSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("lr", [1]),
        ("fm", [1, 8]),
        ("ffm", [4, 4, 4]),
        ("dnn", [8]),
        ("widedeep", [1, 8]),
        ("deepfm", [1, 8]),
    ],
)
def test_a_row_has_the_blocks_of_its_kind(kind: str, sizes: list[int]) -> None:
    assert [block.size for block in make(kind).blocks()] == sizes


def test_an_ffm_is_libffms_with_an_intercept() -> None:
    plain, more = make("ffm"), make("ffm", linear=SGD(), dim=9)
    assert (plain.linear, plain.intercept, plain.factors) == (None, True, AdaGrad(0.2, 1.0, l2=2e-5))
    assert [block.initial for block in plain.blocks()] == ["uniform"] * 3 and plain.initial_scale == 0.5
    assert [block.size for block in more.blocks()] == [1, 9, 9, 9] and more.initial_scale == pytest.approx(1 / 3)


@pytest.mark.parametrize(("kind", "online"), [("lr", SGD(0.01)), ("fm", SGD(0.01)), ("ffm", AdaGrad(0.1))])
def test_an_intercept_has_another_optimizer_in_minibatches(kind: str, online: SGD | AdaGrad) -> None:
    assert make(kind).dense == online and make(kind, batch_rows=2).dense == AdaGrad(0.1)
    assert make(kind, batch_rows=2, dense=SGD(0.2)).dense == SGD(0.2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "svm"}, "kind must be one of lr, fm, ffm, dnn, widedeep, deepfm; got 'svm'"),
        ({"loss": "hinge"}, "loss must be one of log_loss, squared_error; got 'hinge'"),
        ({"dim": 0}, "dim=0: it must be an integer of at least 1"),
        ({"dim": 2.5}, "dim=2.5"),
        ({"batch_rows": 0}, "batch_rows=0"),
        ({"seed": -1}, "seed=-1: it must be an integer from 0 to 18446744073709551615"),
        ({"sightings": 256}, "sightings=256: it must be an integer from 1 to 255"),
        ({"sketch_cells": 1}, "sketch_cells=1"),
        ({"halve_every": 0}, "halve_every=0"),
        ({"kind": "ffm"}, "fields=0: it must be an integer from 1 to 65536"),
        ({"kind": "ffm", "fields": 65537}, "fields=65537"),
        ({"kind": "dnn", "fields": 2}, "batch_rows=1: dnn learns in minibatches"),
        ({"hidden": (8, 0)}, "hidden=0"),
        ({"factors": 0.1}, "factors must be FTRL, AdaGrad or SGD; got 0.1"),
        ({"initial_scale": -1}, "initial_scale must be at least 0; got -1"),
        ({"initial_scale": math.inf}, "initial_scale=inf"),
    ],
)
def test_a_bad_setting_is_named(settings: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ModelSpec(**{"kind": "fm", **settings})


def test_numbers_of_numpy_become_pythons() -> None:
    spec = ModelSpec("fm", dim=np.int64(3), initial_scale=np.float32(0.5))
    assert json.loads(json.dumps(spec.to_json()))["dim"] == 3 and type(spec.dim) is int


def test_an_unknown_setting_in_json_is_refused() -> None:
    with pytest.raises(DataError, match="not the description of a model: layers"):
        ModelSpec.from_json({"kind": "lr", "layers": 3})
    with pytest.raises(DataError, match="no kind"):
        ModelSpec.from_json({})

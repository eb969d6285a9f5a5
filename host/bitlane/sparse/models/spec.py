"""The description of a sparse model: kind, loss, sizes, optimizers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.models.recipes import RECIPES
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import Optimizer, optimizer_from_json, optimizer_to_json
from bitlane.sparse.tables.sketch import Admission
from bitlane.support.scalars import as_integer, as_number

KINDS = tuple(RECIPES)
NETWORKS = ("dnn", "widedeep", "deepfm")
LOSSES = ("log_loss", "squared_error")
_OPTIMIZERS = ("linear", "factors", "dense")


@dataclass(frozen=True)
class ModelSpec:
    """What defines a model, its training rows apart. Defaults that depend on the kind are in `models.recipes`.

    Parameters
    ----------
    kind : {"lr", "fm", "ffm", "dnn", "widedeep", "deepfm"}
    loss : {"log_loss", "squared_error"}, default="log_loss"
    dim : int, optional
        Length of a factor or an embedding. Default: by kind, 4 or 8.
    fields : int, default=0
        Number of fields, for ``"ffm"`` and the networks; a feature's field must be below.
    linear : FTRL, AdaGrad or SGD, optional
        Of the linear weights. Default: by kind; ``"ffm"`` has linear weights only if this is given, ``"dnn"`` has none.
    factors : FTRL, AdaGrad or SGD, optional
        Of the factors or embeddings. Default: by kind.
    dense : FTRL, AdaGrad or SGD, optional
        Of the intercept and of the networks' layers. Default: by kind, and another one where each row is a step.
    hidden : tuple of int, default=()
        Sizes of the hidden layers of a network.
    intercept : bool, default=True
    normalise : bool, default=True
        Divide an FFM's sum over pairs by the row's sum of squared values, as libffm does.
    initial_scale : float, optional
        Scale of the first factors: the standard deviation of a bell around 0 (default 0.01), or for ``"ffm"`` the end
        of the uniform interval from 0 (default 1 / sqrt(dim), as in libffm).
    batch_rows : int, default=1
        Rows of a minibatch. 1: online; each row updates the model before the next is scored.
    seed : int, default=0
    sightings : int, default=1
        A key enters the table when it is seen for the `sightings`-th time, at most 255.
    sketch_cells : int, default=4,194,304
        Bytes of the sketch that counts the keys before; some for each key that waits. Unused with one sighting.
    halve_every : int, optional
        Halve the sketch's counts whenever this many sightings have been counted.
    track_age : bool, default=False
        Store with each key when it was last seen, for expiry.
    """

    kind: str
    loss: str = "log_loss"
    dim: int | None = None
    fields: int = 0
    linear: Optimizer | None = None
    factors: Optimizer | None = None
    dense: Optimizer | None = None
    hidden: tuple[int, ...] = ()
    intercept: bool = True
    normalise: bool = True
    initial_scale: float | None = None
    batch_rows: int = 1
    seed: int = 0
    sightings: int = 1
    sketch_cells: int = 1 << 22
    halve_every: int | None = None
    track_age: bool = False

    def __post_init__(self) -> None:
        _choice("kind", self.kind, KINDS)
        _choice("loss", self.loss, LOSSES)
        ffm = self.kind == "ffm"
        recipe = RECIPES[self.kind]
        if self.batch_rows == 1 and recipe.online is not None:
            recipe = replace(recipe, dense=recipe.online)
        for name in ("dim", *_OPTIMIZERS):
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(recipe, name))
        object.__setattr__(self, "dim", as_integer("dim", self.dim, 1))
        if self.initial_scale is None:
            object.__setattr__(self, "initial_scale", 1 / math.sqrt(self.size) if ffm else 0.01)
        self._check()

    def _check(self) -> None:
        limits = {
            "fields": (1 if self.kind == "ffm" or self.kind in NETWORKS else 0, 1 << 16),
            "batch_rows": (1, None),
            "seed": (0, (1 << 64) - 1),
            "sightings": (1, 255),
            "sketch_cells": (4, (1 << 32) - 1),
        }
        for name, (least, most) in limits.items():
            object.__setattr__(self, name, as_integer(name, getattr(self, name), least, most))
        if self.kind in NETWORKS and self.batch_rows == 1:
            raise DataError(f"batch_rows=1: {self.kind} learns in minibatches; use at least 2 rows, for example 256")
        if self.halve_every is not None:
            object.__setattr__(self, "halve_every", as_integer("halve_every", self.halve_every, 1))
        object.__setattr__(self, "hidden", tuple(as_integer("hidden", size, 1) for size in self.hidden))
        for name in _OPTIMIZERS:
            if not isinstance(getattr(self, name), Optimizer | None):
                raise DataError(f"{name} must be FTRL, AdaGrad or SGD; got {getattr(self, name)!r}")
        scale = as_number("initial_scale", self.initial_scale)
        if scale < 0:
            raise DataError(f"initial_scale must be at least 0; got {scale}")
        object.__setattr__(self, "initial_scale", scale)

    @property
    def size(self) -> int:
        """Length of a factor or an embedding, `dim`."""
        assert self.dim is not None
        return self.dim

    @property
    def dense_optimizer(self) -> Optimizer:
        """Optimizer of the intercept and of the networks' layers, `dense`."""
        assert self.dense is not None
        return self.dense

    def blocks(self) -> list[ParameterBlock]:
        """Return the layout of a row: the linear weight if there is any, then the factors."""
        blocks = [] if self.linear is None else [ParameterBlock(1, self.linear)]
        if self.kind != "lr":
            assert self.factors is not None and self.initial_scale is not None
            initial = "uniform" if self.kind == "ffm" else "normal"
            block = ParameterBlock(self.size, self.factors, self.initial_scale, initial)
            blocks += [block] * (self.fields if self.kind == "ffm" else 1)
        return blocks

    @property
    def admission(self) -> Admission | None:
        """How keys enter the table; None: at their first sighting."""
        return Admission(self.sightings, self.sketch_cells, self.halve_every) if self.sightings > 1 else None

    def to_json(self) -> dict[str, Any]:
        """Return the description as a record of plain values."""
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        record["hidden"] = list(self.hidden)
        for name in _OPTIMIZERS:
            record[name] = None if record[name] is None else optimizer_to_json(record[name])
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ModelSpec:
        """Return the description of a record of `to_json`.

        Raises
        ------
        DataError
            An unknown name or a bad value.
        """
        given = dict(record)
        unknown = set(given) - {each.name for each in fields(cls)}
        if unknown or "kind" not in given:
            raise DataError(f"not the description of a model: {', '.join(sorted(unknown)) or 'no kind'}")
        for name in _OPTIMIZERS:
            if given.get(name) is not None:
                given[name] = optimizer_from_json(given[name])
        return cls(**given)


def _choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DataError(f"{name} must be one of {', '.join(choices)}; got {value!r}")

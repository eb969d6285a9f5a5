"""What the estimators of sparse models share: parameters, training, scores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.support.optional import require_extra
from bitlane.support.pickling import VersionedPickle
from bitlane.support.rng import as_seed
from bitlane.support.scalars import as_boolean, as_integer, as_python
from bitlane.support.sklearn_compat import BaseEstimator, not_fitted

from .encoding import RowEncoder, find_encoder, rows_of
from .validation import weights_a_row

if TYPE_CHECKING:
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.parameters.optimizers import Optimizer

Classes = NDArray[Any] | None  # of a classifier
Weights = NDArray[np.float32] | None  # of rows

MAX_SEED = (1 << 64) - 1
PIECE_ROWS = 1 << 14  # learned in one call, rounded up to minibatches
COUNTS = ("epochs", "batch_rows", "threads", "sightings")  # checked by `_check`


@dataclass(eq=False, repr=False)
class SparseEstimator(VersionedPickle, BaseEstimator):
    """Parameters of all estimators."""

    optimizer: Any = None
    epochs: int = 5
    batch_rows: int = 1
    shuffle: bool = True
    fields: Any = None
    fit_intercept: bool = True
    sightings: int = 1
    threads: int = 1
    random_state: Any = None

    _kind: ClassVar[str] = ""
    _loss: ClassVar[str] = ""
    _needs_fields: ClassVar[bool] = False
    _optimizers: ClassVar[tuple[str, ...]] = ("linear",)  # what `optimizer` is the optimizer of
    _shape: ClassVar[tuple[str, ...]] = ()  # parameters that the model's description has under the same name

    # Set by fit.
    model_: Any = field(init=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if "model_" in state:
            state["model_"] = _pack(state["model_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "model_" in state:
            state = {**state, "model_": _unpack(state["model_"], state.get("device") or "cpu")}
        super().__setstate__(state)

    # --- training
    def _fit(self, X: object, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        self._check()
        encoder, weights = self._begin(X, sample_weight)
        batch, classes = self._encoded(encoder, X, y, None, weights)
        if batch.rows == 0:
            raise DataError("X has 0 rows: at least one is needed")
        seed = as_seed(self.random_state, MAX_SEED)
        model = self._new_model(encoder, seed)
        self._warn_of_labels(batch, model)
        for epoch in range(self.epochs):
            order = np.random.default_rng((seed, epoch)).permutation(batch.rows) if self.shuffle else None
            self._learn(model, batch, order)
        self._remember(X, encoder, model, classes)

    def _partial_fit(
        self, X: object, y: ArrayLike | None, sample_weight: ArrayLike | None, classes: Classes = None
    ) -> None:
        self._check()
        fitted = self.__sklearn_is_fitted__()
        encoder, weights = self._begin(X, sample_weight, self._encoder if fitted else None)
        batch, classes = self._encoded(encoder, X, y, classes, weights)
        model = self.model_ if fitted else self._new_model(encoder, as_seed(self.random_state, MAX_SEED))
        self._learn(model, batch, None)
        if not fitted:
            self._remember(X, encoder, model, classes)

    def _begin(
        self, X: object, sample_weight: ArrayLike | None, encoder: RowEncoder | None = None
    ) -> tuple[RowEncoder, Weights]:
        """Return the encoder of X and the rows' weights; those of a batch are its own."""
        if isinstance(X, Batch) and X.weights is not None:
            if sample_weight is not None:
                raise DataError("X has weights, and sample_weight is given too: omit one of them")
            sample_weight = X.weights
        weights = None if sample_weight is None else weights_a_row(sample_weight, rows_of(X))
        counted = None if weights is None else weights > 0
        return encoder or find_encoder(X, self.fields, self._needs_fields, counted), weights

    def _encoded(
        self, encoder: RowEncoder, X: object, y: ArrayLike | None, classes: Classes, weights: Weights
    ) -> tuple[Batch, Classes]:
        """Return X with labels and weights, without rows of weight 0, and the classes that the estimator remembers."""
        if y is None and isinstance(X, Batch):
            y = X.labels if np.any(X.labels % 1) else X.labels.astype(np.int64)
        labels, classes = self._labels(y, rows_of(X), classes)
        batch = replace(encoder.encode(X, type(self).__name__, labels), weights=weights)
        if weights is not None and not weights.all():
            batch = batch.take(np.flatnonzero(weights))
        return batch, classes

    def _labels(self, y: ArrayLike | None, rows: int, classes: Classes) -> tuple[NDArray[np.float32], Classes]:
        """Return the labels for the model, and the classes that the estimator must remember."""
        raise NotImplementedError

    def _warn_of_labels(self, batch: Batch, model: SparseModel) -> None:
        """Warn of labels that the training cannot reach."""

    def _new_model(self, encoder: RowEncoder, seed: int) -> SparseModel:
        from bitlane.sparse.models.model import SparseModel
        from bitlane.sparse.models.spec import ModelSpec

        settings: dict[str, Any] = {name: as_python(getattr(self, name)) for name in self._shape}
        settings |= by_group(self.optimizer, self._optimizers, "optimizer") | self._more()
        spec = ModelSpec(
            self._kind,
            self._loss,
            fields=encoder.fields if self._needs_fields else 0,
            intercept=bool(self.fit_intercept),
            batch_rows=self.batch_rows,
            sightings=self.sightings,
            seed=seed,
            **settings,
        )
        device = getattr(self, "device", None)
        return SparseModel(spec) if device is None else SparseModel(spec, device)

    def _more(self) -> dict[str, Optimizer]:
        """Return the optimizers of further parameter groups."""
        return {}

    def _learn(self, model: SparseModel, batch: Batch, order: NDArray[np.int64] | None) -> None:
        """Let the model learn the rows of a batch once, in their order or in another."""
        model.begin(batch)
        step = -(-PIECE_ROWS // int(self.batch_rows)) * int(self.batch_rows)

        def learn(start: int) -> None:  # a copy of one piece at a time
            stop = start + step
            scores = model.learn(batch.slice(start, stop) if order is None else batch.take(order[start:stop]))
            if not np.isfinite(scores).all():
                raise DataError("the training diverges: lower the learning rate of the optimizer, or scale X and y")

        starts = range(0, batch.rows, step)
        if self.threads == 1:
            for start in starts:
                learn(start)
        else:
            with ThreadPoolExecutor(self.threads, "sparse-fit") as pool:
                for _ in pool.map(learn, starts):
                    pass

    def _check(self) -> None:
        require_extra("numba", type(self).__name__, "'bitlane[sparse]'")
        for name in COUNTS:
            as_integer(name, getattr(self, name), 1)
        for name in ("shuffle", "fit_intercept"):
            as_boolean(name, getattr(self, name))

    def _remember(self, X: object, encoder: RowEncoder, model: SparseModel, classes: Classes) -> None:
        """Set the attributes that fit leaves."""
        self.model_, self._encoder = model, encoder
        for name, value in (("n_features_in_", encoder.columns), ("feature_names_in_", encoder.names)):
            if value is not None:
                setattr(self, name, value)
            elif hasattr(self, name):
                delattr(self, name)
        self._remember_classes(classes)

    def _remember_classes(self, classes: Classes) -> None:
        """Set the attributes that fit leaves of the labels."""

    # --- scores
    def _scores(self, X: object) -> NDArray[np.float64]:
        """Return the model's score of each row, float64 [rows]."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)
        batch = self._encoder.encode(X, type(self).__name__)
        starts = range(0, batch.rows, PIECE_ROWS)
        scores = [self.model_.scores(batch.slice(start, start + PIECE_ROWS)) for start in starts]
        return np.concatenate([np.zeros(0), *scores]).astype(np.float64)


def by_group(optimizer: object, names: tuple[str, ...], name: str) -> dict[str, Optimizer]:
    """Return the optimizer of each of the parameter groups `names` of a model.

    Raises
    ------
    DataError
        Neither an optimizer, nor the name of one, nor as many of them as there are groups.
    """
    if optimizer is None:
        return {}
    from bitlane.sparse.parameters.optimizers import OPTIMIZERS, Optimizer

    given = optimizer if isinstance(optimizer, tuple | list) else (optimizer,) * len(names)
    if len(given) != len(names):
        raise DataError(f"{name}={optimizer!r}: give one, or {len(names)}: of {' and of '.join(names)}")
    optimizers: dict[str, Optimizer] = {}
    for group, each in zip(names, given, strict=True):
        if isinstance(each, str) and each in OPTIMIZERS:
            optimizers[group] = OPTIMIZERS[each]()
        elif isinstance(each, Optimizer):
            optimizers[group] = each
        else:
            known = ", ".join(map(repr, OPTIMIZERS))
            raise DataError(f"{name}={optimizer!r}: give {known}, or settings such as FTRL(alpha=0.05)")
    return optimizers


def _pack(model: SparseModel) -> dict[str, Any]:
    """Return all of a `SparseModel` as names, numbers and arrays."""
    table = model.parameters.table
    with table.frozen():
        return {
            "spec": model.spec.to_json(),
            "rows_seen": model.rows_seen,
            "surplus": model.surplus,
            "rows": list(table.items()),
            "table": table.state(),
            "matrices": {name: matrix.state() for name, matrix in model.matrices.items()},
        }


def _unpack(state: dict[str, Any], device: str) -> SparseModel:
    """Return the model that `_pack` took, with the same bits; `device` as in `SparseModel`."""
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.models.spec import ModelSpec

    model = SparseModel(ModelSpec.from_json(state["spec"]), device)
    model.rows_seen, model.surplus = state["rows_seen"], state.get("surplus", 0.0)
    model.parameters.table.load(state["rows"])
    model.parameters.table.restore(state["table"])
    for name, matrix in model.matrices.items():
        matrix.restore(state["matrices"][name])
    return model

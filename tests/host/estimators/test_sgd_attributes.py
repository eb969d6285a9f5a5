"""What scikit-learn's users find on a fitted model: t_, n_iter_, loss_curve_, sparse coefficients, scores, pickles."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers.estimator_tables import BOTH, classifier, regressor, table

from bitlane import DataError, SGDClassifier, SGDRegressor
from bitlane.sparse import LRRegressor
from bitlane.support import pickling


def labels_of(kind: Any, y: np.ndarray) -> np.ndarray:
    return y if kind is SGDRegressor else np.digitize(y, np.quantile(y, [0.3, 0.6]))


def model_of(kind: Any, **parameters: Any) -> Any:
    return (regressor if kind is SGDRegressor else classifier)(**parameters)


@pytest.mark.parametrize("kind", BOTH)
def test_rows_and_epochs_are_counted(kind: Any, seed: int) -> None:
    """As scikit-learn counts: `t_` is 1 plus the rows learned, `n_iter_` the epochs; a loss for each epoch."""
    rng = np.random.default_rng(seed)
    epochs, rows = int(rng.integers(2, 6)), int(rng.integers(40, 90))
    X, y = table(seed, rows)
    y = labels_of(kind, y)
    model = model_of(kind, epochs=epochs).fit(X, y)
    assert (model.n_iter_, model.t_) == (epochs, 1 + epochs * rows)
    assert model.loss_curve_ == pytest.approx(model.run_.loss.reshape(epochs, -1).mean(axis=1).tolist())
    seen, curve = 1 + epochs * rows, model.loss_curve_
    for part in (1, 7, 20):
        model.partial_fit(X[:part], y[:part])
        seen += part
        assert (model.n_iter_, model.t_, len(model.loss_curve_)) == (1, seen, len(curve) + 1)
        curve = model.loss_curve_
    assert model.set_params(warm_start=True).fit(X, y).t_ == 1 + epochs * rows
    resumed = model_of(kind, epochs=epochs + 3, random_state=0, warm_start=False)
    half = model_of(kind, epochs=epochs).fit(X, y).run_.checkpoint()
    resumed.fit(X, y, resume=half)
    assert (resumed.n_iter_, resumed.t_) == (epochs + 3, 1 + (epochs + 3) * rows) and len(resumed.loss_curve_) == 3


@pytest.mark.parametrize("kind", BOTH)
def test_they_are_counted_as_in_scikit_learn(kind: Any, seed: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = table(seed, 50)
    y = labels_of(kind, y)
    ours = model_of(kind, epochs=4).fit(X, y)
    theirs = getattr(linear_model, kind.__name__)(max_iter=4, tol=None).fit(X, y)
    for part in (3, 20):
        assert ours.t_ == theirs.t_ and ours.n_iter_ == theirs.n_iter_
        ours.partial_fit(X[:part], y[:part])
        theirs.partial_fit(X[:part], y[:part])
    assert ours.t_ == theirs.t_


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("targets", [1, 3])
def test_sparse_coefficients(kind: Any, targets: int, seed: int) -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    X, y = table(seed)
    if kind is SGDRegressor:
        y = y if targets == 1 else np.column_stack([y, -y, 2 * y])
    else:
        y = y > 5 if targets == 1 else labels_of(kind, y)
    settings: dict[str, Any] = {"penalty": "l1", "alpha": 0.05, "warm_start": True, "epochs": 3}
    model, twin = (model_of(kind, **settings).fit(X, y) for _ in range(2))
    before = model.coef_.copy()
    assert model.sparsify() is model and scipy_sparse.issparse(model.coef_)
    assert model.coef_.shape == (targets, 5) and model.coef_.nnz == np.count_nonzero(before)
    for each in (model, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert each.predict(X).tolist() == twin.predict(X).tolist()
        assert each.score(X, y) == twin.score(X, y)
        dense = each.densify().coef_
        assert type(dense) is np.ndarray and dense.shape == before.shape and dense.tolist() == before.tolist()
        assert each.densify().coef_ is dense
    for again in ("fit", "partial_fit"):  # from sparse coefficients as from dense ones, to dense ones
        first, second = (getattr(each, again)(X, y).coef_ for each in (model.sparsify(), twin))
        assert type(first) is np.ndarray and first.tolist() == second.tolist()
    for method in ("sparsify", "densify"):
        with pytest.raises(DataError, match="not fitted"):
            getattr(kind(), method)()


def test_verbose_prints_the_losses(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = table(seed)
    regressor(epochs=3).fit(X, y)
    assert capsys.readouterr().out == ""
    seen: list[float] = []
    for verbose in (True, 1, np.int64(2)):
        seen.clear()
        model = regressor(epochs=3, verbose=verbose).fit(X, y, on_epoch=lambda _, loss: seen.append(loss))
        lines = [f"epoch {i} of 3: loss {loss:.6g}" for i, loss in enumerate(seen, 1)]
        assert capsys.readouterr().out.splitlines() == lines and len(lines) == 3
    model.partial_fit(X, y)
    assert capsys.readouterr().out == f"epoch 1 of 1: loss {model.run_.loss[0]:.6g}\n"
    with pytest.raises(DataError, match="verbose=-1"):
        regressor(verbose=-1).fit(X, y)


@pytest.mark.parametrize("kind", BOTH)
def test_weighted_scores(kind: Any, seed: int) -> None:
    """Weights are repetitions of rows; scikit-learn's metrics agree."""
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    X, y = table(seed)
    y = labels_of(kind, y) if kind is SGDClassifier else np.column_stack([y, rng.normal(size=len(y))])
    model = model_of(kind, epochs=2).fit(X, y)
    counts = rng.integers(0, 4, len(X))
    repeated = model.score(X.repeat(counts, axis=0), y.repeat(counts, axis=0))
    assert model.score(X, y, sample_weight=counts) == pytest.approx(repeated)
    weights = rng.exponential(size=len(X))
    metric = metrics.r2_score if kind is SGDRegressor else metrics.accuracy_score
    assert model.score(X, y, weights) == pytest.approx(metric(y, model.predict(X), sample_weight=weights))
    assert model.score(X, y) == pytest.approx(metric(y, model.predict(X)))
    for bad, message in (
        (-weights, "sample_weight: no weight may be below zero"),
        (0 * weights, "one must be above zero"),
        (weights[1:], r"sample_weight has shape \(199,\), but X has 200 rows"),
        (weights * np.inf, "sample_weight holds 200 NaN or infinite"),
        (["a"] * 200, "sample_weight holds <U1"),
    ):
        with pytest.raises(DataError, match=message):
            model.score(X, y, sample_weight=bad)


@pytest.mark.parametrize("kind", [SGDRegressor, SGDClassifier, LRRegressor])
def test_pickles_know_their_version(kind: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind is LRRegressor:
        pytest.importorskip("numba")
    X, y = table(seed)
    model = (LRRegressor(random_state=0) if kind is LRRegressor else model_of(kind)).fit(X / X.std(), y > 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
            assert same.predict(X).tolist() == model.predict(X).tolist()
            assert not any("version" in name for name in vars(same))
    monkeypatch.setattr(pickling, "version", lambda: "0.0.7")
    old = pickle.dumps(model)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=f"this {kind.__name__} was pickled by bitlane 0.0.7, and read by") as caught:
        again = pickle.loads(old)
    assert caught[0].filename == __file__ and again.predict(X).tolist() == model.predict(X).tolist()
    state = {name: value for name, value in model.__getstate__().items() if "version" not in name}
    with pytest.warns(UserWarning, match="an earlier version"):
        kind().__setstate__(state)

"""The objective of the map and its optimum, against textbook sums and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane_studies.regime import images, tables
from bitlane_studies.regime.cells import CELLS, chosen_cells
from bitlane_studies.regime.optimum import joint, optimum_of
from bitlane_studies.regime.problems import FitProblem, l1_strength, standardise

linear = pytest.importorskip("sklearn.linear_model")


def labels(rows: int, targets: int, loss: str, rng: np.random.Generator) -> np.ndarray:
    y = rng.normal(size=(rows, targets)).astype(np.float32)
    return y if loss == "squared_error" else np.where(y > 0, np.float32(1), np.float32(-1))


@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "hinge"])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_the_objective_is_the_mean_of_the_models(loss: str, penalty: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, folds, targets = int(rng.integers(20, 60)), 4, int(rng.integers(1, 4)), int(rng.integers(1, 4))
    X = (rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-2, 3, columns)).astype(np.float32)
    problem = FitProblem(X, labels(rows, targets, loss, rng), loss, penalty, (0.1, 0.003), folds)
    coef, intercept = rng.normal(size=(folds, 2, targets, columns)), rng.normal(size=(folds, 2, targets))
    total, edges = 0.0, [int(rows * fold / folds) for fold in range(folds + 1)]
    for fold in range(folds):
        out = set(range(edges[fold], edges[fold + 1])) if folds > 1 else set()
        for place, alpha in enumerate(problem.alphas):
            for target in range(targets):
                w, b = coef[fold, place, target], intercept[fold, place, target]
                losses = []
                for row in set(range(rows)) - out:
                    score, y = float(X[row].astype(float) @ w + b), float(problem.y[row, target])
                    losses.append(
                        {
                            "squared_error": (score - y) ** 2 / 2,
                            "log_loss": max(0.0, -y * score) + np.log1p(np.exp(-abs(score))),
                            "hinge": max(0.0, 1 - y * score),
                        }[loss]
                    )
                total += np.mean(losses) + alpha * (np.abs(w).sum() if penalty == "l1" else (w**2).sum() / 2)
    assert problem.objective(coef, intercept) == pytest.approx(total / (folds * 2 * targets), rel=1e-9)


def test_the_optimum_is_that_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = tables.dense(300, 6, "first", seed)
    standardise(X, shifted=True)
    alpha = 10.0 ** rng.uniform(-4, -1)
    models = {
        ("log_loss", "l2"): linear.LogisticRegression(C=1 / (alpha * 300), tol=1e-10, max_iter=10_000),
        ("squared_error", "l2"): linear.Ridge(alpha * 300),
        ("squared_error", "l1"): linear.Lasso(alpha, tol=1e-10),
        ("log_loss", "l1"): linear.LogisticRegression(
            C=1 / (alpha * 300), l1_ratio=1, solver="saga", tol=1e-8, max_iter=20_000
        ),
    }
    for (loss, penalty), model in models.items():
        problem = FitProblem(X, y, loss, penalty, (alpha,))
        least, coef, intercept = optimum_of(problem)
        assert problem.objective(coef, intercept) == least
        model.fit(X.astype(float), y[:, 0])
        other = problem.objective(np.ravel(model.coef_), np.ravel(model.intercept_))
        assert least <= other * (1 + 1e-9) and other <= least * (1 + 1e-4)


def test_the_optimum_of_the_hinge_has_a_small_subgradient(seed: int) -> None:
    """No step along random directions lowers the objective by more than the parabola at the corner may hide."""
    X, y = tables.dense(200, 4, "first", seed)
    standardise(X, shifted=True)
    problem = FitProblem(X, y, "hinge")
    least, coef, intercept = optimum_of(problem)
    rng = np.random.default_rng(seed)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            step = size * rng.normal(size=5)
            moved = problem.objective(coef + step[:4], intercept + step[4])
            assert moved > least - 1e-4


def test_many_logistic_regressions_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(200, 5))
    y = np.where(Z @ rng.normal(size=(5, 3)) + rng.normal(size=(200, 3)) > 1, 1.0, -1.0)
    weights, bias = joint(Z, y, 0.01)
    chance = 1 / (1 + np.exp(y * (Z @ weights.T + bias)))
    assert np.abs(Z.T @ (-y * chance) / 200 + 0.01 * weights.T).max() < 1e-5
    assert np.abs((y * chance).mean(0)).max() < 1e-5


def test_at_the_l1_strength_of_1_nothing_is_chosen(seed: int) -> None:
    for kind in ("numbers", "first"):
        X, y = tables.dense(200, 5, kind, seed)
        standardise(X, shifted=True)
        loss = "squared_error" if kind == "numbers" else "log_loss"
        none = optimum_of(FitProblem(X, y, loss, "l1", (l1_strength(X, y, 1.001),)))[1]
        some = optimum_of(FitProblem(X, y, loss, "l1", (l1_strength(X, y, 0.9),)))[1]
        assert not none.any() and some.any()


@pytest.mark.parametrize("shifted", [True, False])
def test_columns_are_standardised(shifted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(300, 4)) * [1, 100, 0.01, 0] + [5, 100, 0, 3]).astype(np.float32)
    mean, spread = X.mean(0, dtype=float), X.std(0, dtype=float)
    expected = (X - mean * shifted) / np.where(spread > 1e-5, spread, 1)
    standardise(X, shifted)
    np.testing.assert_allclose(X, expected, rtol=1e-5, atol=1e-5)


def test_tables_have_their_shapes_and_learnable_labels(seed: int) -> None:
    X, y = tables.dense(2_000, 12, "numbers", seed)
    assert X.dtype == y.dtype == np.float32 and X.shape == (2_000, 12) and y.shape == (2_000, 1)
    coef = np.linalg.lstsq(np.c_[X, np.ones(2_000)], y, rcond=None)[0]
    assert 0.4 < np.mean((np.c_[X, np.ones(2_000)] @ coef - y) ** 2) / y.var() < 0.6  # half is noise
    assert np.abs(np.corrcoef(X.T) - np.eye(12)).max() > 0.3
    X, y = tables.one_hot(500, 100, "first", seed)
    assert X.shape == (500, 100) and set(np.unique(X)) == {0, 1} and (X.sum(1) == tables.FIELDS).all()
    assert set(np.unique(y)) == {-1, 1}


def test_embeddings_of_a_few_images(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    few = rng.random((20, 3, 32, 32)).astype(np.float32), np.arange(20) % 10
    monkeypatch.setattr(images, "images", lambda: few)
    X, y = images.embeddings(50, 8, "classes", seed)
    assert X.shape == (50, 8) and y.shape == (50, 10) and (y.sum(1) == -8).all() and (X >= 0).all()
    assert np.isfinite(X).all() and (X[:, 4:] >= X[:, :4]).all()  # maxima, means
    assert len(np.unique(X, axis=0)) == 50
    hundred = images.embeddings(400, 8, "hundred", seed)[1]
    assert 10 < hundred.shape[1] <= 100


def test_cells_are_chosen_by_name() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert {cell.size for cell in chosen_cells([], quick=True)} == {"quick"}
    assert "long" not in {cell.size for cell in chosen_cells([], quick=False)}
    assert [cell.name for cell in chosen_cells(["squares-c*a"], quick=False)] == ["squares-cadata", "squares-cod-rna"]

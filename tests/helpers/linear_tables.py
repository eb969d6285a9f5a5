"""Ordinary tables of many kinds for linear models, and their objectives in float64."""

import numpy as np
import pytest

minimize = pytest.importorskip("scipy.optimize").minimize

KINDS = ("normal", "outlier", "rare", "collinear", "scales", "one-hot", "log-normal", "offset", "mostly-0")


def table(random, kind, rows, n):
    """A table of a kind, and a score of its rows that it has to learn."""
    X = random.normal(size=(rows, n))
    if kind == "outlier":
        X[0] *= 1000
    if kind == "collinear":
        X = np.hstack([X, X[:, :1] + 1e-3 * random.normal(size=(rows, 1))])
    if kind == "scales":
        X *= 10.0 ** random.uniform(-4, 4, n)
    if kind == "one-hot":
        X = (random.random((rows, n)) < 10.0 ** random.uniform(-3, -0.3, n)).astype(float)
        X[0] = 1 - X[1]
    if kind == "log-normal":
        X = np.exp(2 * X)
    if kind == "mostly-0":  # with one row of large values
        X *= random.random((rows, n)) < 0.15
        X[0] = 10.0 ** random.uniform(1, 5) * random.normal(size=n)
    if kind == "offset":
        X = X + 1e4 * random.normal(size=n)
    return X, (X - X.mean(0)) / X.std(0) @ random.normal(size=X.shape[1])


def losses(loss, scores, labels):
    """Losses [rows] and their slopes, float64."""
    if loss == "log_loss":
        return np.logaddexp(0, -labels * scores), -labels / (1 + np.exp(np.clip(labels * scores, -700, 700)))
    if loss == "squared_hinge":
        short = np.maximum(1 - labels * scores, 0)
        return short**2, -2 * labels * short
    return 0.5 * (scores - labels) ** 2, scores - labels


def labels_of(random, kind, loss, score):
    """Noisy numbers of rows, or noisy classes -1 and 1, each of which has a row."""
    noisy = score + random.logistic(size=len(score))
    if loss != "squared_error":
        noisy = np.where(noisy > np.quantile(score, 0.97 if kind == "rare" else 0.5), 1.0, -1.0)
    noisy[:2] = 1.0, -1.0
    return noisy


def excess(model, X, labels, weights, alpha):
    """What a model with an L2 penalty is above its optimum in float64, over the optimum or a thousandth of nothing's.

    Returns
    -------
    excess, over_nothing : float
        The latter is its objective over that of coefficients of 0.
    """
    mean, spread = X.mean(0), np.where(np.ptp(X, axis=0) > 0, X.std(0), 1)
    standard, ridge = (X - mean) / spread, np.append(alpha / spread**2, 0)

    def objective(point):
        loss_of_rows, slope = losses(model.loss, standard @ point[:-1] + point[-1], labels)
        slope = weights * slope / weights.sum()
        value = np.average(loss_of_rows, weights=weights) + 0.5 * (ridge * point**2).sum()
        return value, np.append(slope @ standard, slope.sum()) + ridge * point

    coef = model.coef_.reshape(-1)
    ours = np.append(coef * spread, model.intercept_[0] + mean @ coef)
    nothing = np.zeros(len(ours))
    ends = [
        minimize(objective, each, jac=True, method="L-BFGS-B", options={"maxiter": 5000}) for each in (nothing, ours)
    ]
    value, of_nothing = objective(ours)[0], objective(nothing)[0]
    best = min(end.fun for end in ends)
    return (value - best) / max(best, 1e-3 * of_nothing), value / of_nothing

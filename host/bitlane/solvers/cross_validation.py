"""Models for each penalty of a path, on all rows and on folds, and the losses of the rows that the folds hold out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bitlane.encoded.table import EncodedTable
from bitlane.quantization.row_table import dense_pieces, reordered
from bitlane.support.memory import machine_memory

from .by_gram import SINGLES, quickest_rows
from .centered import CenteredFit
from .coded_tables import CodedColumns, encoded, exact_rows, stored_bytes
from .elastic_net import elastic_net
from .exact_path import exact_path
from .held_out import PART_READS, Folds, PathFit, held_out_losses
from .least_squares import CenteredMoments, LeastSquares, ridge_path, squared_errors
from .linear_models import linear_models
from .losses import SmoothLoss
from .moments import Moments, coded_fold_moments, coded_moments, float_moments
from .problem import Problem
from .rounding import product_excess, rounding_excess
from .solution import Floats, Solution
from .solve import chosen_solver, fit_by_passes, shift_of

# Of a path for L2, over the mean variance of a column. With up to a hundred columns the most is not below the sum of
# the variances, so that it halves each direction or more; the least changes none whose variance is not that small.
LEAST, MOST = 1e-6, 1e2
L1_RANGE = 1e-3  # least over largest penalty of a path for L1, as in scikit-learn's LassoCV
MEMORY_SHARE = 4  # models with their numbers of rows take no more than one part of so many of the memory


def solve_path(problem: Problem, alphas: Sequence[float], folds: Folds, solver: str = "auto") -> PathFit:
    """Solve a problem for each penalty, on all rows and on the rows of each fold.

    Parameters
    ----------
    problem : Problem
        Its `alpha` is one of the penalties.
    alphas : sequence of float
        Above 0.
    folds : Folds
        Each with a weight above 0 in both parts.
    solver : {"auto", "gram", "centered"}, default="auto"

    Raises
    ------
    DataError
        The solver is unknown, or cannot solve this problem.
    """
    chosen = chosen_solver(problem, solver, len(folds))
    if chosen == "gram":
        return _path_by_gram(problem, alphas, folds)
    found = exact_path(problem, alphas, folds) if chosen == "newton" else None
    return found or _path_by_passes(problem, np.asarray(alphas, np.float64), folds)


def penalty_path(problem: Problem, count: int) -> Floats:
    """Return penalties for a problem, float64 [count], falling by the same factor, after one read of the table.

    With L1 the first is the least for which all coefficients are 0; without, see `MOST`.
    """
    weights = np.ones((len(problem.table), 1)) if problem.weights is None else problem.weights
    weights = np.asarray(weights / weights.sum(axis=0))
    loss, targets = SmoothLoss(problem.loss), problem.targets
    start = loss.constant((weights * targets).sum(axis=0)) if problem.fit_intercept else np.zeros(targets.shape[1])
    slopes = weights * loss.exact(np.broadcast_to(start, targets.shape), targets)[1]
    if problem.fit_intercept and problem.loss == "hinge":
        slopes = slopes - weights * slopes.sum(axis=0)
    of_rows = weights.mean(axis=1)
    n, first = problem.table.shape[1], 0
    middle, sums, squares, gradients = None, np.zeros(n), np.zeros(n), np.zeros((n, slopes.shape[1]))
    for piece in dense_pieces(problem.table):
        values, span = np.asarray(piece, np.float64), slice(first, first + len(piece))
        first += len(piece)
        middle = values.mean(axis=0) if middle is None else middle
        away = values - middle if problem.fit_intercept else values
        sums += of_rows[span] @ away
        squares += of_rows[span] @ away**2
        gradients += away.T @ slopes[span]
    if problem.l1_ratio:
        largest, ratio = float(np.abs(gradients).max()) / problem.l1_ratio, L1_RANGE
    else:
        spread = squares - sums**2 if problem.fit_intercept else squares
        largest, ratio = MOST * float(np.maximum(spread, 0.0).mean()), LEAST / MOST
    return np.asarray((largest or 1.0) * np.geomspace(1.0, ratio, count))


def _path_by_gram(problem: Problem, alphas: Sequence[float], folds: Folds) -> PathFit:
    """Solve from sums of Gram matrices of parts of the rows. A fit to a fold costs no read."""
    table, rows = problem.table, quickest_rows(problem)
    found = None if rows is table else _from_moments(problem, rows, alphas, folds)
    if found is None and table.size >= SINGLES and not problem.l1_ratio:
        with np.errstate(over="ignore", invalid="ignore"):
            found = _from_moments(problem, table, alphas, folds, np.float32)
    found = found or _from_moments(problem, table, alphas, folds)
    assert found is not None  # of float64 products
    return found


def _from_moments(
    problem: Problem, rows: object, alphas: Sequence[float], folds: Folds, dtype: DTypeLike = np.float64
) -> PathFit | None:
    """Return the path from codes, or from floats by products of a dtype.

    None if codes of floats, or float32 products, are predicted to cost more than the tolerance.
    """
    table, (count, n) = problem.table, (problem.targets.shape[1], problem.table.shape[1])
    codes = rows if isinstance(rows, CodedColumns) else None
    columns = np.arange(n) if codes is None else codes.columns
    errors = None if codes is None else codes.errors
    rounded = errors is not None  # codes are off the values by what a loss shows
    coef, intercept = np.zeros((len(alphas), len(folds) + 1, count, n)), np.zeros((len(alphas), len(folds) + 1, count))
    objective, excess, losses = *np.zeros((2, len(alphas), count)), np.zeros((len(alphas), len(folds), count))
    reads = 0
    for models, weights in problem.by_weights():
        sets, more = _moments(rows, problem.targets[:, models], weights, folds, dtype)
        if errors is not None:
            sets = [errors.moved(each, weights) for each in sets]
        whole, reads = sets[-1], reads + more
        single = dtype == np.float32
        if single and not (np.isfinite(whole.gram).all() and np.isfinite(whole.products).all()):
            return None
        if rounded or (codes is None and not problem.l1_ratio):
            centered = CenteredMoments.of(whole, problem.fit_intercept)
            rough, inverse = centered.ridge(min(alphas) * (1 - problem.l1_ratio) * whole.weight)
            if codes is None:
                over = product_excess(inverse, rough, centered, single)
            else:
                if codes.hide(centered.constant):
                    return None
                over = rounding_excess(inverse, rough, centered, codes, problem.targets[:, models], weights)
            if (rounded or single) and (over > problem.tol).any():
                return None
            excess[:, models] = over
        for fold, train in enumerate([*sets[: len(folds)], whole]):
            for at, (each, gaps) in enumerate(_path(problem, train, alphas)):
                coef[at, fold][np.ix_(models, columns)] = each.coefficients.T
                intercept[at, fold, models] = each.intercepts
                if fold < len(folds):
                    test = sets[len(folds) + fold]
                    losses[at, fold, models] = squared_errors(test, each.coefficients, each.intercepts) / 2
                    continue
                of_path = replace(problem, alpha=alphas[at])
                objective[at, models] = each.squared_errors / 2 + of_path.penalty(each.coefficients)
                excess[at, models] += gaps
    if rounded:
        losses = held_out_losses(problem, folds, coef[:, :-1], intercept[:, :-1])
    excess *= objective
    reads_of_table = rounded + (codes is not None and not isinstance(table, EncodedTable))
    read = stored_bytes(rows) * reads + reads_of_table * stored_bytes(table)
    solutions = [
        Solution(
            "gram",
            coef[at, -1],
            intercept[at, -1],
            objective[at],
            excess[at],
            excess[at] <= problem.tol * objective[at],
            reads,
            reads + reads_of_table,
            read,
        )
        for at in range(len(alphas))
    ]
    return PathFit(losses.mean(axis=2), solutions, coef[:, :-1], intercept[:, :-1], 0)


def _path(problem: Problem, moments: Moments, alphas: Sequence[float]) -> list[tuple[LeastSquares, Floats]]:
    """Return the solution for each penalty, and what it may be above the optimum, over the objective."""
    if not problem.l1_ratio:
        exact = np.zeros(moments.products.shape[1])
        penalties = [alpha * moments.weight for alpha in alphas]
        return [(each, exact) for each in ridge_path(moments, penalties, problem.fit_intercept)]
    centered, found, near = CenteredMoments.of(moments, problem.fit_intercept), [], None
    for alpha in alphas:
        lasso, ridge = alpha * problem.l1_ratio, alpha * (1 - problem.l1_ratio)
        found.append(elastic_net(centered, lasso, ridge, problem.tol / 10, near))
        near = found[-1][0].coefficients
    return found


def _moments(
    rows: object, targets: Floats, weights: Floats | None, folds: Folds, dtype: DTypeLike
) -> tuple[list[Moments], int]:
    """Return the moments of the rows that each fold fits, of those that it holds out, and of all; and the reads."""
    patterns, parts = folds.parts()
    if len(patterns) <= PART_READS * len(folds):
        found = _of_parts(rows, targets, weights, parts, len(patterns), dtype)
        sets = [[found[part] for part in np.flatnonzero(member)] for member in patterns.T]
        return [sum(some[1:], some[0]) for some in [*sets, found]], 1
    masks = [*folds.fitted.T, *folds.held.T, np.ones(len(parts), np.bool_)]
    of_rows = 1.0 if weights is None else weights
    return [_of_rows(rows, targets, mask * of_rows, dtype) for mask in masks], len(masks)


def _of_parts(
    rows: object, targets: Floats, weights: Floats | None, parts: NDArray[np.intp], count: int, dtype: DTypeLike
) -> list[Moments]:
    if isinstance(rows, CodedColumns):
        return coded_fold_moments(rows.coded, targets, parts, weights)
    chosen = [np.flatnonzero(parts == part) for part in range(count)]
    return [
        float_moments(reordered(rows, some), targets[some], None if weights is None else weights[some], dtype=dtype)
        for some in chosen
    ]


def _of_rows(rows: object, targets: Floats, weights: Floats, dtype: DTypeLike) -> Moments:
    if isinstance(rows, CodedColumns):
        return coded_moments(rows.coded, targets, weights)
    return float_moments(rows, targets, weights, dtype=dtype)


def _path_by_passes(problem: Problem, alphas: Floats, folds: Folds) -> PathFit:
    """Solve for all rows, and then from there for the folds: all penalties together, or some if memory is short."""
    table, rows = problem.table, encoded(problem)
    shape = (len(alphas), len(folds) + 1, problem.targets.shape[1])
    masks, weights_of = _masks(problem, folds)
    columns = rows.column_codes.active
    numbers = 1 + (exact_rows(problem, rows) is not None)  # of a row and model: curvatures, and scores of exact rows
    numbers += 2 * (problem.loss == "hinge")  # scores at both ends of a step
    each = shape[1] * shape[2] * len(table) * 4 * numbers
    together = max(1, min(len(alphas), machine_memory() // MEMORY_SHARE // each))
    coef, intercept = np.zeros((*shape, table.shape[1])), np.empty(shape)
    objective, excess, done = np.empty(shape), np.empty(shape), np.empty(shape, np.bool_)
    iterations, passes, read = 0, 1, stored_bytes(table) * (1 if rows is table else 2)
    for some in np.array_split(np.arange(len(alphas)), -(-len(alphas) // together)):
        near = None
        for sides in (slice(-1, None), slice(-1)):
            fit = _fit(problem, rows, alphas[some], masks, weights_of[sides], near)
            found = (len(some), *weights_of[sides].shape)
            coefficients = fit.coefficients.reshape(*found, -1)
            coef[some[0] : some[-1] + 1, sides][..., columns] = coefficients
            intercepts = fit.intercepts.reshape(found)
            near = np.repeat(coefficients, len(folds), axis=1), np.repeat(intercepts, len(folds), axis=1)
            intercept[some, sides] = intercepts + shift_of(problem)
            objective[some, sides] = fit.objectives.reshape(found)
            excess[some, sides] = np.minimum(fit.gaps, fit.estimates).reshape(found)
            done[some, sides] = fit.converged.reshape(found)
            iterations, passes = iterations + fit.iterations, passes + fit.passes + fit.exact_reads
            read += fit.bytes_read + fit.exact_reads * stored_bytes(table)
    of_folds = coef[:, :-1], intercept[:, :-1]
    losses = held_out_losses(problem, folds, *of_folds)
    solutions = [
        Solution(
            "centered",
            coef[at, -1],
            intercept[at, -1],
            objective[at, -1],
            excess[at, -1],
            done[at, -1],
            iterations,
            passes,
            read,
        )
        for at in range(len(alphas))
    ]
    return PathFit(losses.mean(axis=2), solutions, *of_folds, int(np.count_nonzero(~done[:, :-1])))


def _masks(problem: Problem, folds: Folds) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return weights of rows [masks, rows], and which of them each fold, and at last all rows, has for each model."""
    groups, sides = list(problem.by_weights()), len(folds) + 1
    masks = np.empty((sides * len(groups), len(problem.table)), np.float32)
    weights_of = np.zeros((sides, problem.targets.shape[1]), np.intp)
    for at, (models, weights) in enumerate(groups):
        masks[at * sides : (at + 1) * sides] = [*folds.fitted.T, np.ones(masks.shape[1])]
        if weights is not None:
            masks[at * sides : (at + 1) * sides] *= weights.astype(np.float32)
        weights_of[:, models] = at * sides + np.arange(sides)[:, None]
    return masks, weights_of


def _fit(
    problem: Problem,
    rows: EncodedTable,
    alphas: Floats,
    masks: NDArray[np.float32],
    weights_of: NDArray[np.intp],
    near: tuple[Floats, Floats] | None,
) -> CenteredFit:
    """Fit models for penalties, and for each, for the masks and models of `weights_of`."""
    shape = (len(alphas), *weights_of.shape)
    models = linear_models(
        problem.targets - shift_of(problem),
        problem.loss,
        np.repeat(alphas, weights_of.size),
        problem.l1_ratio,
        masks.T,
        np.broadcast_to(np.arange(shape[2]), shape).reshape(-1),
        np.broadcast_to(weights_of, shape).reshape(-1),
        problem.fit_intercept,
    )
    if near is not None:
        models = replace(models, near=(near[0].reshape(len(models), -1), near[1].reshape(-1)))
    return fit_by_passes(problem, rows, models)

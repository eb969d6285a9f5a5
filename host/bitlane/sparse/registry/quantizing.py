"""Levels for the weights of a version, chosen under a bound on the quality that they lose on held-out rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.registry.held_out import score_held_out
from bitlane.sparse.scoring.layers import LayeredTable
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.tables.codebooks import BITS, Codebook, fit_codebook
from bitlane.sparse.tables.frozen import FLOAT_BITS, freeze
from bitlane.sparse.training.windows import Quality

MAX_LOSS = 0.0005
SAMPLED_ROWS = 1 << 17

Floats = NDArray[np.float32]
Losses = dict[str, float]


@dataclass(frozen=True)
class Quantization:
    """The levels of a base.

    Attributes
    ----------
    codebook : Codebook or None
        None: the values stay float32.
    record : dict
        For the manifest: ``bits`` and ``levels``; ``lost``, by metric, what the codes cost on ``held_out_rows`` rows;
        ``max_loss``; ``refused``, what fewer bits would have cost.
    """

    codebook: Codebook | None
    record: Mapping[str, Any]


def choose_levels(
    model: SparseModel,
    batches: Iterable[Batch],
    bits: int | None,
    kind: str = "nearest",
    max_loss: float = MAX_LOSS,
) -> Quantization:
    """Return levels of each column that lose at most `max_loss` on held-out rows.

    Measured are AUC and log loss, each as a difference; for squared error, the growth of its root as a share.

    Parameters
    ----------
    model : SparseModel
    batches : iterable of Batch
    bits : {2, 4, 8} or None
        None: the fewest bits that keep the bound; float32 if even 8 do not.
    kind : {"nearest", "optimal", "uniform"}, default="nearest"
        See `fit_codebook`. The first two weight the values by `SparseParameters.squared_gradients`.
    max_loss : float, default=0.0005

    Raises
    ------
    DataError
        These bits lose more, an argument is out of range, the model has no rows or weights that are not finite, or
        the held-out rows cannot show the loss.
    """
    if not 0 <= max_loss < np.inf:
        raise DataError(f"the bound on the loss must be at least 0; got {max_loss:g}")
    tried = BITS if bits is None else (bits,)
    sample = sample_weights(model)
    codebooks = [fit_codebook(sample[0], each, kind, sample[1]) for each in tried]
    scored = score_held_out([frozen_model(model), *(frozen_model(model, each) for each in codebooks)], batches)
    before = _quality(scored.quality(0))
    refused: dict[str, Losses] = {}
    record = {"levels": kind, "max_loss": max_loss, "held_out_rows": len(scored.labels)}
    for number, codebook in enumerate(codebooks, 1):
        lost = quality_lost(before, _quality(scored.quality(number)))
        if max(lost.values()) <= max_loss:
            return Quantization(codebook, {"bits": codebook.bits, **record, "lost": lost, "refused": refused})
        refused[str(codebook.bits)] = lost
    if bits is None:
        return Quantization(None, {"bits": FLOAT_BITS, **record, "lost": {}, "refused": refused})
    raise DataError(
        f"{bits} bits with {kind} levels lose {losses_text(lost)} on {len(scored.labels):,} held-out rows; "
        f"the bound is {max_loss:g}: use more bits, --bits auto, or a higher --max-loss"
    )


def sample_weights(model: SparseModel, rows: int = SAMPLED_ROWS) -> tuple[Floats, Floats]:
    """Return serving weights for `fit_codebook`, and how much the error of each counts.

    A few keys have most of the squared gradients. So half of the sample are the rows with the largest share of them;
    of the others every k-th counts k times: keys lie in a random order. The extremes of each column are in it.

    Parameters
    ----------
    model : SparseModel
    rows : int, default=131,072
        About so many at most; of a model with fewer rows, all.

    Returns
    -------
    values, weights : float32 [n, width]
    """
    parameters = model.parameters
    total, width = len(parameters.table), parameters.layout.values
    share = min(1.0, rows / total) if total else 1.0
    step = 1 if share == 1 else int(np.ceil(2 / share - 1))  # of the rest: half of the sample
    samples = [(np.zeros((0, width), np.float32), np.zeros((0, width), np.float32))]
    for _, stored, *_ in parameters.table.items():
        values, weights = parameters.weights_of(stored), parameters.squared_gradients(stored)
        if step > 1:
            heavy = (weights / np.maximum(weights.sum(axis=0), np.finfo(np.float32).tiny)).sum(axis=1)
            order = np.argsort(-heavy, kind="stable")
            heaviest = int(len(order) * share / 2)
            extremes = np.concatenate([values.argmin(axis=0), values.argmax(axis=0)])
            chosen = np.unique(np.concatenate([order[:heaviest], extremes]))
            rest = np.setdiff1d(np.arange(len(order)), chosen)[::step]
            weights[rest] *= step
            chosen = np.concatenate([chosen, rest])
            values, weights = values[chosen], weights[chosen]
        samples.append((values, weights))
    values, weights = (np.concatenate(each) for each in zip(*samples, strict=True))
    return values, weights


def frozen_model(model: SparseModel, codebook: Codebook | None = None) -> FrozenModel:
    """Return a model as its version will score: with serving weights, as the nearest levels if a codebook is given."""
    parameters = model.parameters
    table = freeze(parameters.items(), len(parameters.table), parameters.layout.values, codebook)
    return FrozenModel(model.spec, LayeredTable(table), model.pull_dense())


def quality_lost(before: Quality, after: Quality) -> Losses:
    """Return what a model lost, by metric; below 0 where it became better.

    AUC and log loss are differences; the root of the mean squared error is a share.
    """
    if before.rmse is not None and after.rmse is not None:
        return {"rmse": after.rmse / before.rmse - 1 if before.rmse else float(after.rmse > 0)}
    assert before.auc is not None and after.auc is not None
    assert before.log_loss is not None and after.log_loss is not None
    return {"auc": before.auc - after.auc, "log_loss": after.log_loss - before.log_loss}


def losses_text(lost: Losses) -> str:
    """Return losses as text."""
    names = {"auc": "AUC", "log_loss": "log loss", "rmse": "of the RMSE"}
    return " and ".join(f"{value:.5f} {names[name]}" for name, value in lost.items())


def _quality(quality: Quality | None) -> Quality:
    if quality is None:
        raise DataError("a score of a held-out row is not finite: the model cannot be published in few bits")
    if quality.rmse is None and quality.auc is None:
        raise DataError(
            f"the {quality.rows:,} held-out rows have one class only: the loss of few bits cannot be measured"
        )
    return quality

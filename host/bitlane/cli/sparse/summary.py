"""What `bitlane sparse` prints at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bitlane.support.text import stacked_columns
from bitlane.support.user_warnings import warn_user

if TYPE_CHECKING:
    from bitlane.sparse.engines.engine import RayResult
    from bitlane.sparse.training.bookkeeping import SparseTrainingResult
    from bitlane.sparse.training.run_folder import RunFolder
    from bitlane.sparse.training.windows import Quality

    from .models import AnyModel

NONE = "-"
MEASURED = 200  # rows from which on a quality is compared
WORSE = 1.05  # log loss over that of a constant
LISTED = 5  # epochs at most
RATES = ("alpha", "learning_rate")
USUAL = {"beta": 1.0, "initial_accumulator": 1.0, "decay": 0.0, "l1": 0.0, "l2": 0.0}  # settings of optimizers


def quality_table(rows: Sequence[tuple[str, Quality]]) -> str:
    """Return qualities as a table with a row each."""
    regression = all(quality.rmse is not None for _, quality in rows)
    measures = [("RMSE", "rmse", ".4f")] if regression else [("AUC", "auc", ".4f"), ("log loss", "log_loss", ".4f")]
    measures += [("calibration", "calibration", ".3f")]
    cells = [["", "rows", *(title for title, _, _ in measures)]]
    for name, quality in rows:
        values = [getattr(quality, field) for _, field, _ in measures]
        shown = [
            NONE if value is None else format(value, form) for value, (_, _, form) in zip(values, measures, strict=True)
        ]
        cells.append([name, f"{quality.rows:,}", *shown])
    return stacked_columns(cells)


def warn_if_worse_than_constant(quality: Quality | None) -> None:
    """Warn of a model whose log loss is more than 5 % above that of one prediction for all rows."""
    constant = None if quality is None else quality.constant_log_loss
    if quality is None or constant is None or quality.log_loss is None or quality.rows < MEASURED:
        return
    if quality.log_loss > WORSE * constant:
        warn_user(
            f"the model is worse than one prediction for all rows: log loss {quality.log_loss:.4g} instead of "
            f"{constant:.4g}; lower the learning rate, do not use --unscaled, or learn more rows"
        )


def optimizer_text(spec: Mapping[str, Any]) -> str:
    """Return the optimizers of a model in JSON as text: name and rate, and what differs from the defaults."""
    lines = []
    for block in ("linear", "factors"):
        optimizer = spec[block]
        if optimizer is None or (block == "factors" and spec["kind"] == "lr"):
            continue
        rate = next(name for name in RATES if name in optimizer)
        more = [f"{name} {value:g}" for name, value in optimizer.items() if name in USUAL and value != USUAL[name]]
        lines.append(", ".join([f"{block} by {optimizer['name']} {optimizer[rate]:g}", *more]))
    return "; ".join(lines)


def memory_text(model: AnyModel) -> str:
    """Return the memory of a model's table as text."""
    table = model.parameters.table
    return f"{table.nbytes / 1e6:,.1f} MB, {table.nbytes / max(1, table.data_nbytes):.2f} times the data"


def training_summary(
    settings: Mapping[str, Any],
    result: SparseTrainingResult,
    model: AnyModel,
    test: Quality | None,
    name: str,
    run: RunFolder | None,
    notes: Sequence[str] = (),
) -> str:
    """Return the summary of a training; `notes` are further lines."""
    from bitlane.sparse.training.windows import pooled

    spec, table = settings["model"], model.parameters.table
    epochs = sorted({window.epoch for window in result.windows})[-LISTED:]
    rows = [
        (f"epoch {epoch + 1}, before learning", pooled([w.quality for w in result.windows if w.epoch == epoch]))
        for epoch in epochs
    ]
    if result.windows:
        rows.append(("last window, before learning", result.windows[-1].quality))
    if test is not None:
        rows.append(("held-out rows", test))
    speed = sum(window.quality.rows for window in result.windows) / max(1e-9, _seconds(result))
    lines = [
        f"{name}: {spec['kind']}, {result.rows_done:,} rows learned, {optimizer_text(spec)}",
        *(["", quality_table(rows)] if rows else []),
        "",
        f"{len(table):,} keys, {memory_text(model)}; "
        f"{result.seconds:,.1f} s, {speed:,.0f} rows/s, {result.waiting:.1%} of it waiting for the reader",
        *notes,
    ]
    if run is not None:
        lines += ["", f"written to {run.path}: {', '.join(sorted(path.name for path in run.path.iterdir()))}"]
    return "\n".join(lines)


def negatives_text(counts: tuple[int, int], share: float) -> str:
    """Return how many rows of label 0 were kept of how many, as a line."""
    kept, read = counts
    return f"{kept:,} negatives of {read:,} kept, each weighing {1 / share:g}"


def workers_text(result: RayResult) -> str:
    """Return what the workers of a training did, as a line."""
    counts = result.counts
    keys = max(1, counts.hits + counts.misses)
    return (
        f"servers: {result.servers}; workers: {counts.hits / keys:.1%} of the keys in their caches, "
        f"{counts.read_bytes / 1e6:,.1f} MB read, {counts.step_bytes / 1e6:,.1f} MB of steps, "
        f"{counts.waiting:,.1f} s waiting for servers"
    )


def _seconds(result: SparseTrainingResult) -> float:
    """Time of the windows of this training."""
    return sum(window.quality.rows / window.rows_per_second for window in result.windows)

"""Results as records and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compare import Comparison, class_name, losses_of, one_against_rest, run_models
from .estimators import SGDClassifier, SGDRegressor
from .layout import Geometry
from .plots import curve_label
from .quantize import Precision
from .records import Record
from .tables import Table
from .training import Run


# --- one training --------------------------------------------------------------------------------
def run_record(model: SGDRegressor | SGDClassifier, table: Table, task: str, name: str) -> Record:
    """A model fitted with snapshots as a run folder holds it: settings, data, epochs, counters, the model."""
    runs = model.runs_ if isinstance(model, SGDClassifier) else [model.run_]
    classes = [class_name(label) for label in model.classes_] if isinstance(model, SGDClassifier) else []
    first = runs[0]
    header = {
        "device": first.device,
        "settings": {**first.settings, "draws": model.draws, "penalty": model.penalty},
        "data": {
            "name": name,
            "target": table.target,
            "task": task,
            "rows": table.rows,
            "features": table.features,
            "classes": classes,
            "variance": _variance(table, classes),
        },
        "geometry": _geometry(first),
    }
    names = classes if len(runs) > 1 else classes[1:] or [""]
    lines: list[dict[str, Any]] = []
    for run, label in zip(runs, names, strict=True):
        labels = one_against_rest(table.y, label)[0] if label else table.y
        lines += _epochs(run, label, table, labels)
    scores = {"score_train": model.score(table.X, table.y)}
    if table.held_out is not None:
        scores["score_held_out"] = model.score(*table.held_out)
    return Record("run", header, lines, {**_counters(runs), **scores}, _arrays(model, table))


def _variance(table: Table, classes: Sequence[str]) -> float:
    """Mean squared residual of predicting the mean, label units squared; of classes the largest."""
    if not classes:
        return float(np.var(table.y))
    shares = np.unique(table.y, return_counts=True)[1] / table.rows
    return float(np.max(4 * shares * (1 - shares)))  # labels are -1 and +1


def _geometry(run: Run) -> dict[str, Any]:
    precision = Precision(run.settings["bits"], run.settings["sampling"])
    shape = Geometry(run.settings["features"], run.settings["rows"], precision.base_digits, precision.draws)
    return {
        "features": shape.features,
        "chunks": shape.chunks,
        "digits": shape.digits,
        "row_words": shape.row_words,
        "sets": run.settings["sets"],
        "model_bytes": shape.model_bytes,
    }


def _epochs(run: Run, label: str, table: Table, labels: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Lines of a run. `loss` is the device's estimate in the epoch, `true_loss` the model's after it."""
    true = losses_of(table.X, labels, *run_models(run))
    read = run.bytes_read // len(run.loss)
    spent = np.diff(run.epoch_cycles, prepend=0)  # counted from the start of the run
    columns = zip(run.loss.tolist(), true.tolist(), spent.tolist(), strict=True)
    return [
        {
            "kind": "epoch",
            **({"class": label} if label else {}),
            "epoch": epoch,
            "loss": loss,
            "true_loss": exact,
            "cycles": cycles,
            "bytes": read,
        }
        for epoch, (loss, exact, cycles) in enumerate(columns)
    ]


def _counters(runs: Sequence[Run]) -> dict[str, Any]:
    return {
        "models": len(runs),
        "cycles": sum(run.cycles for run in runs),
        "beats": sum(run.beats for run in runs),
        "bytes_read": sum(run.bytes_read for run in runs),
        "stall_memory": sum(run.stalls.memory for run in runs),
        "stall_model": sum(run.stalls.model for run in runs),
        "bound_layout": sum(run.bound.layout for run in runs),
        "bound_raw": sum(run.bound.raw for run in runs),
        "saturations": sum(run.saturations for run in runs),
        "starts": sum(run.starts for run in runs),
        "seconds": sum(run.seconds for run in runs),
    }


def _arrays(model: SGDRegressor | SGDClassifier, table: Table) -> dict[str, Any]:
    scaling = model.run_.scaling
    arrays: dict[str, Any] = {
        "coef": model.coef_,
        "intercept": model.intercept_,
        "feature_names": np.array(table.feature_names, dtype=np.str_),
        "center": scaling.center,
        "scale": scaling.scale,
    }
    if isinstance(model, SGDClassifier):
        arrays["classes"] = model.classes_
    else:
        arrays["label_center"] = np.float64(scaling.label_center)
        arrays["label_scale"] = np.float64(scaling.label_scale)
    return arrays


def run_summary(record: Record) -> str:
    """A training as text: what was trained on what, how well, and what it cost."""
    settings, data, end = record.header["settings"], record.header["data"], record.end
    label = curve_label(settings["sampling"], settings["bits"])
    losses = [line["true_loss"] for line in record.lines]
    share = len(losses) // end["models"]
    final = float(np.mean(losses[share - 1 :: share]))
    kind = "R squared" if data["task"] == "regression" else "accuracy"
    models = f", {end['models']} models (one class against the rest)" if end["models"] > 1 else ""
    scores = f"{end['score_train']:.4f} on the training rows"
    if "score_held_out" in end:
        scores += f", {end['score_held_out']:.4f} on held-out rows"
    pairs = [
        (
            "data",
            f"{data['name']}: {data['rows']:,} rows, {data['features']} features, target {data['target']}",
        ),
        ("task", data["task"] + models),
        ("samples", f"{label} a feature, draws: {settings['draws']}"),
        (
            "schedule",
            f"{settings['epochs']} epochs, batch {settings['batch_size']}, "
            f"learning rate {settings['learning_rate']:g}, decay {settings['decay']:g}, "
            f"seed {settings['seed']}",
        ),
        ("device", record.header["device"]),
        ("loss", f"{final:.5g}, mean squared residual on the training rows, in label units squared"),
        (kind, scores),
        ("read", f"{end['bytes_read']:,} bytes"),
        (
            "time",
            f"{end['cycles']:,} cycles, {end['cycles'] / end['bound_layout']:.3f} of the layout bound, "
            f"{end['cycles'] / end['bound_raw']:.3f} of the raw bound",
        ),
        ("stalls", f"{end['stall_memory']:,} cycles for memory, {end['stall_model']:,} for the model"),
        ("saturations", f"{end['saturations']:,}"),
    ]
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in pairs)


# --- a comparison --------------------------------------------------------------------------------
_HEADINGS = (
    ("", ""),
    ("loss", "residual^2"),
    ("loss over", "full 32"),
    ("read", "bytes/epoch"),
    ("time", "cycles/epoch"),
    ("cycles over", "layout bound"),
    ("cycles over", "raw bound"),
    ("saturations", "in the run"),
)


def comparison_summary(comparison: Comparison) -> str:
    """A comparison as text: what was trained, and a table of results with units."""
    schedule = comparison.schedule
    return "\n".join(
        [
            f"{comparison.title}; {comparison.rows:,} rows, {comparison.features} features; device {comparison.device}",
            f"{schedule.epochs} epochs, batch {schedule.batch_size}, learning rate "
            f"{schedule.learning_rate:g}, decay {schedule.decay:g}, draws: {schedule.draws}, "
            f"seed {schedule.seed}",
            f"loss: mean squared residual of the final model on the unquantized training rows, label units "
            f"squared ({comparison.optimum:.5g} at the optimum, {comparison.variance:.5g} for the mean)",
            "",
            text_table(comparison),
        ]
    )


def text_table(comparison: Comparison) -> str:
    """The results as aligned text, units in the second line."""
    cells = [list(row) for row in zip(*_HEADINGS, strict=True)]
    for result in comparison.results:
        relative = comparison.relative(result)
        cells.append(
            [
                result.label,
                f"{result.loss:.5g}" if np.isfinite(result.loss) else "diverges",
                f"{relative:.4f}" if relative < 100 else f"{relative:.1e}",
                _count(result.bytes_per_epoch),
                _count(result.cycles_per_epoch),
                _ratio(result.over_layout),
                _ratio(result.over_raw),
                _count(result.saturations),
            ]
        )
    return aligned(cells, header=2)


def aligned(cells: Sequence[Sequence[str]], header: int = 1, left: int = 1) -> str:
    """Rows of cells as text: the first `left` columns flush left, the others right; a rule below `header`."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    lines.insert(header, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

"""Results as records and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BITS
from bitlane.contract.precision import Precision
from bitlane.data.tables import Dataset
from bitlane.estimators.saved import model_arrays
from bitlane.estimators.sgd import SGDClassifier, SGDRegressor
from bitlane.evaluation.compare import ComparedModel, Comparison, label_text, one_vs_rest
from bitlane.evaluation.metrics import LOSS_NAMES, LOSS_UNITS, constant_loss, losses_of
from bitlane.quantization.labels import curve_label
from bitlane.support.text import fill_lines, stacked_columns
from bitlane.training.losses import EPSILON_LOSSES
from bitlane.training.result import TrainingResult

from .records import Record


# --- one training --------------------------------------------------------------------------------
def run_record(
    model: SGDRegressor | SGDClassifier,
    table: Dataset,
    task: str,
    name: str,
    earlier: Record | None = None,
    **source: Any,
) -> Record:
    """Return the record of a model that was fitted with snapshots: settings, data, epochs, counters and the model.

    Parameters
    ----------
    model : SGDRegressor or SGDClassifier
    table : Dataset
    task : str
    name : str
        Name of the data set.
    earlier : Record, optional
        Record of the training that this one resumed: its epochs and counters are included.
    **source
        Arguments with which the table was read.
    """
    run = model.run_
    classes = [label_text(label) for label in model.classes_] if isinstance(model, SGDClassifier) else []
    positive = (classes if len(classes) > 2 else classes[1:]) or [""]
    targets = [one_vs_rest(table.y, label)[0] if label else table.y for label in positive]
    loss, epsilon = str(run.settings["loss"]), float(run.settings["epsilon"])
    header = {
        "device": run.device,
        "settings": {**run.settings, "class_weight": getattr(model, "class_weight", None)},
        "data": {
            "name": name,
            "target": table.target,
            "task": task,
            "rows": table.rows,
            "held_out": 0 if table.held_out is None else len(table.held_out[0]),
            "features": table.features,
            "classes": classes,
            "constant": max(constant_loss(y, loss, epsilon) for y in targets),
            "source": source,
        },
        "geometry": _geometry(run),
    }
    lines, end = [*_epochs(run, table, targets)], {"models": len(targets), **_counters(run)}
    if earlier is not None:
        lines = [*map(dict, earlier.lines), *lines]
        end |= {key: end[key] + earlier.end.get(key, 0) for key in _counters(run)}  # early records have fewer
    scores = {"score_train": model.score(table.X, table.y)}
    if table.held_out is not None:
        scores["score_held_out"] = model.score(*table.held_out)
    return Record("run", header, lines, {**end, **scores}, _arrays(model, table, source))


def _port_bits(settings: Mapping[str, Any]) -> int:
    bits: int = WORD_BITS * settings["rows_per_beat"] * settings.get("shards", 1)
    return bits


def _geometry(run: TrainingResult) -> dict[str, Any]:
    asked = run.settings
    precision = Precision(asked["bits"], asked["sampling"], asked["codebook"])
    shape = Geometry(
        asked["features"],
        asked["rows"],
        precision.base_digits,
        precision.draws,
        asked["batch_size"],
        asked["rows_per_beat"],
        asked["outputs"],
        precision.half_digit,
        precision.codebook,
        asked.get("shards", 1),
    )
    return {
        "features": shape.features,
        "chunks": shape.chunks,
        "digits": shape.digits,
        "row_words": shape.row_words,
        "groups": shape.groups,
        "rows_per_beat": shape.rows_per_beat,
        "outputs": shape.outputs,
        "draw_sets": asked["draw_sets"],
        "model_bytes": shape.model_bytes,
    }


def _epochs(run: TrainingResult, table: Dataset, targets: Sequence[NDArray[np.float64]]) -> list[dict[str, Any]]:
    """Return a line for each epoch: `loss` is the device's estimate during the epoch, `true_loss` the loss after it."""
    coefficients, intercepts = run.models()
    if len(targets) == 1:
        coefficients, intercepts = coefficients[:, None], intercepts[:, None]
    loss, epsilon = str(run.settings["loss"]), float(run.settings["epsilon"])
    true = [losses_of(table.X, y, coefficients[:, i], intercepts[:, i], loss, epsilon) for i, y in enumerate(targets)]
    spent = np.diff(run.epoch_cycles, prepend=0)  # counted from the start of the run
    estimates = run.loss.reshape(len(run.loss), -1).tolist()
    names = ("loss", "true_loss", "cycles", "bytes", "bits")
    numbers = (spent.tolist(), run.epoch_bytes.tolist(), run.bits.tolist())
    columns = zip(estimates, np.transpose(true).tolist(), *numbers, strict=True)
    return [
        {"kind": "epoch", "epoch": epoch, **dict(zip(names, values, strict=True))}
        for epoch, values in enumerate(columns, run.first_epoch)
    ]


def _counters(run: TrainingResult) -> dict[str, Any]:
    return {
        "passes": run.passes,
        "cycles": run.cycles,
        "encoding_cycles": run.encoding_cycles,
        "beats": run.beats,
        "bytes_read": run.bytes_read,
        "stall_memory": run.stalls.memory,
        "stall_model": run.stalls.model,
        "bound_layout": run.bound.layout,
        "bound_raw": run.bound.raw,
        "saturations": run.saturations,
        "launches": run.launches,
        "seconds": run.seconds,
    }


def _arrays(model: SGDRegressor | SGDClassifier, table: Dataset, source: Mapping[str, Any]) -> dict[str, Any]:
    scaling, levels = model.run_.scaling, model.run_.levels
    return {
        **model_arrays(model, table.feature_names, table.target, table.means, source),
        "center": scaling.center,
        "scale": scaling.scale,
        "label_center": scaling.label_center,
        "label_scale": scaling.label_scale,
        **({} if levels is None else {"levels": levels}),
    }


def run_summary(record: Record) -> str:
    """Return a training as text: settings, data, quality and cost."""
    settings, data, end = record.header["settings"], record.header["data"], record.end
    encoding = end.get("encoding_cycles", 0)
    label = curve_label(settings["sampling"], settings["bits"], settings["staleness"])
    levels = f", {settings['levels']} levels" if settings["codebook"] else ""
    final = float(np.mean(record.lines[-1]["true_loss"]))
    loss = f"{LOSS_NAMES[settings['loss']]} on the training rows, {LOSS_UNITS[settings['loss']]}"
    kind = "R squared" if data["task"] == "regression" else "accuracy"
    held_out, models = f"; {data['held_out']:,} rows held out" if data.get("held_out") else "", ""
    if end["models"] > 1:
        models = f", {end['models']} models (one class against the rest), {settings['outputs']} in a pass"
    scores = f"{end['score_train']:.4f} on the training rows"
    if "score_held_out" in end:
        scores += f", {end['score_held_out']:.4f} on held-out rows"
    plateau = f", plateau after {settings['plateau']}" if "plateau" in settings else ""
    pairs = [
        (
            "data",
            f"{data['name']}: {data['rows']:,} rows, {data['features']} features, target {data['target']}" + held_out,
        ),
        ("task", data["task"] + models),
        ("samples", f"{label} a feature{levels}, draws: {settings['draws']}"),
        *([("bits", _runs_of(line["bits"] for line in record.lines))] if "bit_policy" in settings else []),
        (
            "schedule",
            f"{settings['epochs']} epochs{plateau}, batch {settings['batch_size']}, "
            f"learning rate {settings['learning_rate']:g}, decay {settings['decay']:g}, "
            f"seed {settings['seed']}",
        ),
        ("objective", _objective(settings)),
        ("device", f"{record.header['device']}, {_port_bits(settings)} bits wide"),
        ("loss", f"{final:.5g}, {loss}"),
        (kind, scores),
        ("read", f"{end['bytes_read']:,} bytes"),
        (
            "time",
            f"{end['cycles']:,} cycles, {end['cycles'] / end['bound_layout']:.3f} of the layout bound, "
            f"{end['cycles'] / end['bound_raw']:.3f} of the raw bound",
        ),
        *([("encoding", f"{encoding:,} cycles of the device's encoder")] if encoding else []),
        ("stalls", f"{end['stall_memory']:,} cycles for memory, {end['stall_model']:,} for the model"),
        ("saturations", f"{end['saturations']:,}"),
    ]
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in pairs)


def _runs_of(bits: Iterable[float]) -> str:
    """Return the bits of all epochs as text, such as "2 (5 epochs), 4 (3 epochs)"."""
    return ", ".join(f"{value:g} ({len(list(alike))} epochs)" for value, alike in groupby(bits))


def _objective(settings: Mapping[str, Any]) -> str:
    text = str(settings["loss"])
    if text in EPSILON_LOSSES:
        text += f", epsilon {settings['epsilon']:g}"
    if settings["penalty"]:
        text += f", penalty {settings['penalty']}, alpha {settings['alpha']:g}"
    if settings["penalty"] == "elasticnet":
        text += f", l1_ratio {settings['l1_ratio']:g}"
    if settings["bounds"]:
        text += ", bounds " + ", ".join("none" if end is None else f"{end:g}" for end in settings["bounds"])
    return text + (f", class weights {settings['class_weight']}" if settings["class_weight"] else "")


# --- a comparison --------------------------------------------------------------------------------
def comparison_record(comparison: Comparison, name: str, unit: str = "label units") -> Record:
    """Return the record of a comparison."""
    header = {
        "title": comparison.title,
        "unit": unit,
        "device": comparison.device,
        "width": comparison.width,
        "settings": asdict(comparison.schedule),
        "data": {
            "name": name,
            "rows": comparison.rows,
            "features": comparison.features,
            "constant": comparison.constant,
            "optimum": comparison.optimum,
        },
    }
    lines = [
        {"kind": "result", **asdict(result), "loss": result.loss, "relative": comparison.relative(result)}
        for result in comparison.results
    ]
    return Record("comparison", header, lines, {"results": len(comparison.results)})


def comparison_summary(comparison: Comparison) -> str:
    """Return a comparison as text: settings, and a table of results with units."""
    schedule = comparison.schedule
    marks = f"{comparison.constant:.5g} for a constant"
    if comparison.optimum is not None:
        marks = f"{comparison.optimum:.5g} at the optimum, {marks}"
    lines = [
        f"{comparison.title}; {comparison.rows:,} rows, {comparison.features} features; "
        f"device {comparison.device}, {comparison.width} bits wide",
        f"{schedule.epochs} epochs, batch {schedule.batch_size}, learning rate "
        f"{schedule.learning_rate:g}, decay {schedule.decay:g}, draws: {schedule.draws}, "
        f"seed {schedule.seed}",
        f"loss: {LOSS_NAMES[schedule.loss]} of the final model on the unquantized training rows, "
        f"{LOSS_UNITS[schedule.loss]} ({marks})",
    ]
    return f"{fill_lines(*lines)}\n\n{text_table(comparison)}"


def text_table(comparison: Comparison) -> str:
    """Return the results as aligned text, quality above cost, with units in the second line and no empty column."""
    short = {"squared_error": "residual^2", "hinge": "hinge", "log_loss": "log loss"}[comparison.schedule.loss]
    label: Column = ("", "", lambda result: result.label)
    quality: list[Column] = [
        ("loss", short, lambda result: f"{result.loss:.5g}" if np.isfinite(result.loss) else "diverges"),
        ("loss over", "full 32", lambda result: _times(comparison.relative(result))),
        ("accuracy", "trained on", lambda result: _share(result.accuracy)),
        ("accuracy", "held out", lambda result: _share(result.held_out)),
    ]
    cost: list[Column] = [
        ("read", "bytes/epoch", lambda result: _count(result.bytes_per_epoch)),
        ("time", "cycles/epoch", lambda result: _count(result.cycles_per_epoch)),
        ("of layout", "bound", lambda result: _ratio(result.over_layout)),
        ("of raw", "bound", lambda result: _ratio(result.over_raw)),
        ("saturations", "in the run", lambda result: _count(result.saturations)),
    ]
    return "\n\n".join(_columns(comparison, [label, *columns]) for columns in (quality, cost))


Column = tuple[str, str, Callable[[ComparedModel], str]]


def _columns(comparison: Comparison, columns: Sequence[Column]) -> str:
    cells = [[name, unit, *map(show, comparison.results)] for name, unit, show in columns]
    filled = [column for column in cells if any(cell != _NOTHING for cell in column[2:])]
    rows = [list(row) for row in zip(*filled, strict=True)]
    shown = [row for number, row in enumerate(rows) if number < 2 or any(cell != _NOTHING for cell in row[1:])]
    return stacked_columns(shown, header=2)


_NOTHING = "-"


def _count(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2%}"


def _times(value: float) -> str:
    return f"{value:.4f}" if value < 100 else f"{value:.1e}"

"""The report of a validation: one HTML page with its plots, which needs nothing else."""

# matplotlib has no types here: mypy takes its classes as Any.

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.models.losses import predictions
from bitlane.sparse.registry.checks import Evidence, ValidationCheck
from bitlane.sparse.registry.held_out import HeldOutScores
from bitlane.sparse.registry.verdict import Validation
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 10  # of predictions, with as many rows each
BARS = 60
POINTS = 500  # of a curve
_COLOURS = ("#0072B2", "#D55E00")  # candidate, current
_METRICS = {"rows": "rows", "auc": "AUC", "log_loss": "log loss", "rmse": "RMSE", "calibration": "calibration"}

Numbers = NDArray[np.floating[Any]]
Named = Sequence[tuple[str, Numbers]]

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem; margin: 1.5rem auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid #ddd; }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.passed {{ color: #2e7d32; }}
.failed {{ color: #c62828; font-weight: 600; }}
figure {{ margin: 1rem 0; }}
img {{ max-width: 100%; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>Registry: {registry}. Time: {time} (UTC). Held-out data: {held_out}. {compared}</p>
<h2>Checks</h2>
<table>
<tr><th>check</th><th>result</th><th class="number">figure</th><th class="number">bound</th><th>detail</th></tr>
{checks}
</table>
<h2>Held-out rows</h2>
{metrics}
{plots}
</body>
</html>
"""


def report_html(validation: Validation, registry: str, evidence: Evidence) -> str:
    """Return the page of a validation.

    Parameters
    ----------
    validation : Validation
    registry : str
        Its URI.
    evidence : Evidence

    Raises
    ------
    BitlaneError
        matplotlib is not installed.
    """
    state = "passed" if validation.passed else "rejected"
    compared = f"The label {validation.label} names no version, so there is no comparison."
    if validation.current is not None:
        compared = f"Compared with version {validation.current}, which the label {validation.label} names."
    return _PAGE.format(
        title=escape(f"Version {validation.version} {state}"),
        registry=escape(registry),
        time=validation.time[:19].replace("T", " "),
        held_out=escape(validation.held_out),
        compared=escape(compared),
        checks="\n".join(_row(check) for check in validation.checks),
        metrics=_metrics(validation),
        plots="\n".join(_plots(validation, evidence)),
    )


def calibration_curve(predicted: Numbers, labels: Numbers, weights: Numbers | None = None) -> tuple[Numbers, Numbers]:
    """Return mean prediction and mean label of bins with as many rows each, float64 [bins] each.

    Parameters
    ----------
    predicted, labels : float [rows]
    weights : float [rows], optional
        By which the means are taken.
    """
    order = np.argsort(predicted, kind="stable")
    groups = [group for group in np.array_split(order, BINS) if len(group)]
    counts = np.ones(len(labels)) if weights is None else weights.astype(np.float64)
    means = [[np.average(each[group], weights=counts[group]) for each in (predicted, labels)] for group in groups]
    first, second = np.array(means, np.float64).T
    return first, second


def roc_curve(scores: Numbers, labels: Numbers, weights: Numbers | None = None) -> tuple[Numbers, Numbers]:
    """Return false and true positive rates, float64 [points] each, from (0, 0) to (1, 1).

    Parameters
    ----------
    scores, labels : float [rows]
        With labels of both classes.
    weights : float [rows], optional
        How many rows each one counts as.
    """
    order = np.argsort(-scores, kind="stable")
    positive = labels[order] > 0
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # of equal scores
    counts = np.ones(len(labels)) if weights is None else weights[order].astype(np.float64)
    true, false = (np.append(0, np.cumsum(counts * each)[last]) for each in (positive, ~positive))
    true, false = true / true[-1], false / false[-1]
    shown = np.unique(np.linspace(0, len(last), POINTS).astype(np.int64))
    return false[shown], true[shown]


def _row(check: ValidationCheck) -> str:
    state = "passed" if check.passed else "failed"
    numbers = (
        f'<td class="number">{"" if each is None else f"{each:.5g}"}</td>' for each in (check.figure, check.bound)
    )
    name, detail = escape(check.name), escape(check.detail)
    return f'<tr><td>{name}</td><td class="{state}">{state}</td>{"".join(numbers)}<td>{detail}</td></tr>'


def _metrics(validation: Validation) -> str:
    shown = [(title, validation.metrics.get(name)) for name, title in _METRICS.items()]
    text = "; ".join(f"{title} {value:,.6g}" for title, value in shown if value is not None)
    return f"<p>{text}.</p>" if text else "<p>The version could not be scored.</p>"


def _plots(validation: Validation, evidence: Evidence) -> list[str]:
    """Return the figures that can be drawn from what the checks have seen."""
    names = [f"version {validation.version}", f"version {validation.current} (current)"]
    figures = []
    scored = [
        (name, each)
        for name, each in zip(names, evidence.scored, strict=False)
        if np.isfinite(each[0].scores[each[1]]).all()
    ]
    if scored and scored[0][0] == names[0]:
        figures += _score_plots(scored)
    weights: Named = list(zip(names, evidence.weights, strict=False))
    if any(len(each) for _, each in weights):
        figures.append(
            _figure("Weights: a sample of each version", lambda axes: _histogram(axes, weights, "weight", log=True))
        )
    times: Named = [(name, each * 1e3) for name, each in zip(names, evidence.seconds, strict=False)]
    if times:
        figures.append(_figure("Recorded requests: share answered within a time", lambda axes: _shares(axes, times)))
    return figures


def _score_plots(scored: Sequence[tuple[str, tuple[HeldOutScores, int]]]) -> list[str]:
    logistic = scored[0][1][0].losses[scored[0][1][1]] == "log_loss"
    values: Named = [(name, each.scores[index]) for name, (each, index) in scored]
    figures = [_figure("Scores of the held-out rows", lambda axes: _histogram(axes, values, "score"))]
    if not logistic:
        return figures
    labels, weights = scored[0][1][0].labels, scored[0][1][0].weights

    def roc(axes: Axes) -> None:
        _lines(axes, [(name, roc_curve(each, labels, weights)) for name, each in values], "-")
        axes.set(xlabel="share of the negative rows above a score", ylabel="share of the positive rows")

    def calibration(axes: Axes) -> None:
        predicted = [(name, predictions("log_loss", each)) for name, each in values]
        _lines(axes, [(name, calibration_curve(each, labels, weights)) for name, each in predicted], "o-")
        axes.set(xlabel="mean prediction", ylabel="mean label")

    if 0 < np.count_nonzero(labels > 0) < len(labels):
        figures.append(_figure("ROC curve of the held-out rows", roc))
    return [*figures, _figure(f"Calibration: {BINS} bins with as many held-out rows each", calibration)]


def _lines(axes: Axes, curves: Sequence[tuple[str, tuple[Numbers, Numbers]]], style: str) -> None:
    for (name, (x, y)), colour in zip(curves, _COLOURS, strict=False):
        axes.plot(x, y, style, color=colour, label=name, markersize=4, linewidth=1.5)
    end = max(float(max(x.max(), y.max())) for _, (x, y) in curves)
    axes.plot([0, end], [0, end], ":", color="#999999", linewidth=1)


def _histogram(axes: Axes, values: Named, title: str, log: bool = False) -> None:
    low = min(float(each.min()) for _, each in values if len(each))
    high = max(float(each.max()) for _, each in values if len(each))
    edges = np.linspace(low, high if high > low else low + 1, BARS + 1)
    for (name, each), colour in zip(values, _COLOURS, strict=False):
        counts = np.histogram(each, edges)[0] / max(1, len(each))
        axes.stairs(counts, edges, color=colour, label=name, linewidth=1.5)
    axes.set(xlabel=title, ylabel="share", yscale="log" if log else "linear")


def _shares(axes: Axes, times: Named) -> None:
    for (name, each), colour in zip(times, _COLOURS, strict=False):
        shares = np.arange(1, len(each) + 1) / len(each)
        axes.step(np.sort(each), shares, where="post", color=colour, label=name, linewidth=1.5)
    axes.set(xlabel="ms", ylabel="share of the requests", xscale="log")


def _figure(title: str, draw: Callable[[Any], None]) -> str:
    """Return a plot as HTML of the page: SVG within the address of its image."""
    figures = require_extra("matplotlib.figure", "a report of a validation")
    figure = figures.Figure(figsize=(7.5, 3.6))
    axes = figure.add_axes((0.1, 0.14, 0.88, 0.83))  # fixed: finding the room takes as long as the plot
    draw(axes)
    axes.legend(frameon=False)
    axes.grid(True, color="#E6E6E6", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    name = escape(title)
    return f'<h2>{name}</h2>\n<figure><img alt="{name}" src="data:image/svg+xml;base64,{data}"></figure>'

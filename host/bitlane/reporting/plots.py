"""Plots of training: loss over epochs, and loss over bytes moved."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.evaluation.metrics import LOSS_NAMES, LOSS_UNITS
from bitlane.quantization.labels import curve_label
from bitlane.support.optional import require_extra

from .loss_curve import draw_losses
from .records import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which people with any colour vision can tell apart; the marker says the same again.
_COLOURS = {"double": "#0072B2", "nearest": "#D55E00", "naive": "#009E73", "full": "#000000"}
_MARKERS = {"double": "o", "nearest": "s", "naive": "^", "full": "D"}
_OTHER = "#777777"
SPREAD = 3.0  # losses that differ by more than this are drawn on a log scale
_DASHES = ("-", "--", ":", "-.")  # one a precision


@dataclass(frozen=True)
class LossCurve:
    """The curve of one training: `loss` float64 [epochs], and `bytes_per_epoch` read from memory."""

    label: str
    sampling: str  # double, nearest, naive or full; anything else is drawn as a grey reference
    bits: int
    loss: NDArray[np.float64]
    bytes_per_epoch: float | None  # None: moves no counted bytes
    staleness: int = 0  # a stale one is drawn fainter


def draw(record: Record, folder: str | Path) -> list[Path]:
    """Draw the plots of `record` as PNGs in `folder`, and return their paths.

    The plots are loss.png and, except for train-ddp, loss-bytes.png.

    Raises
    ------
    DataError
        The record lacks data of a plot.
    """
    if record.kind == "distributed":
        with _complete():
            losses, begun, title = record.end["losses"], int(record.end["begun"]), str(record.header["title"])
        return [draw_losses(losses, begun, Path(folder) / "loss.png", title)]
    curves, ceiling, title, ylabel = _comparison(record) if record.kind == "comparison" else _run(record)
    folder = Path(folder)
    paths = [folder / "loss.png", folder / "loss-bytes.png"]
    loss_plot(curves, paths[0], over="epochs", title=title, ylabel=ylabel, ceiling=ceiling)
    loss_plot(curves, paths[1], over="bytes", title=title, ylabel=ylabel, ceiling=ceiling)
    return paths


def loss_plot(
    curves: Sequence[LossCurve],
    path: str | Path,
    *,
    over: Literal["epochs", "bytes"],
    title: str,
    ylabel: str,
    ceiling: float | None = None,
) -> None:
    """Draw `curves` as a PNG. Points above `ceiling` are crosses at the top edge.

    A loss of at most 0, which an estimate can have, is left out if others are above 0.
    """
    matplotlib = require_extra("matplotlib", "plotting")
    matplotlib.use("Agg")
    pyplot = require_extra("matplotlib.pyplot", "plotting")
    figure, axes = pyplot.subplots(figsize=(9.0, 4.8), dpi=150, layout="constrained")
    try:
        loss_panel(axes, curves, over=over, title=title, ylabel=ylabel, ceiling=ceiling)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=3.2)
        figure.savefig(path, format="png")
    finally:
        pyplot.close(figure)


def loss_panel(
    axes: Axes,
    curves: Sequence[LossCurve],
    *,
    over: Literal["epochs", "bytes"],
    title: str,
    ylabel: str,
    ceiling: float | None = None,
) -> None:
    """Draw `curves` on axes of matplotlib, as `loss_plot` does."""
    shown = [curve for curve in curves if over == "epochs" or curve.bytes_per_epoch is not None]
    dashes = _dashes(shown)
    low, top = _range(shown, ceiling)
    for curve in shown:
        _line(axes, curve, over, dashes[curve.bits], top)
    _axes(axes, over, title, ylabel, low, top)


def _dashes(curves: Sequence[LossCurve]) -> dict[int, str]:
    """Return a dash pattern for each precision; full precision and references are solid."""
    low = sorted({curve.bits for curve in curves if curve.sampling in ("double", "nearest", "naive")})
    order = {bits: _DASHES[(len(low) - 1 - rank) % len(_DASHES)] for rank, bits in enumerate(low)}
    return {curve.bits: order.get(curve.bits, "-") for curve in curves}


def _range(curves: Sequence[LossCurve], ceiling: float | None) -> tuple[float, float]:
    """Return the least loss above 0 that is drawn, and the top edge; (0, 0) if no loss is above 0."""
    values = np.concatenate([curve.loss for curve in curves]) if curves else np.zeros(0)
    drawn = values[np.isfinite(values) & (values > 0)]
    if not len(drawn):
        return 0.0, 0.0
    top = float(drawn.max()) * 1.05
    top = top if ceiling is None else min(ceiling, top)
    return min(float(drawn.min()), top), top


def _line(axes: Axes, curve: LossCurve, over: str, dash: str, top: float) -> None:
    epochs = np.arange(1, len(curve.loss) + 1)
    x = epochs if over == "epochs" else epochs * float(curve.bytes_per_epoch or 0.0)
    away = ~np.isfinite(curve.loss) | (curve.loss > top) if top > 0 else np.zeros(len(x), bool)
    colour = _COLOURS.get(curve.sampling, _OTHER)
    reference = curve.sampling not in _COLOURS
    label = curve.label + (" (diverges)" if away[-1:].any() else "")
    axes.plot(
        x,
        np.where(away, top, np.where((curve.loss > 0) | (top == 0), curve.loss, np.nan)),
        color=colour,
        linestyle=(0, (1, 1)) if reference else dash,
        linewidth=2.6 if reference else 1.6,
        marker=None if reference else _MARKERS[curve.sampling],
        markersize=4.5,
        markerfacecolor="white" if dash != "-" else colour,
        markevery=[int(i) for i in np.flatnonzero(~away) if i % max(1, len(x) // 10) == 0],
        zorder=3 if reference else 2,
        label=label,
        alpha=0.5 if curve.staleness else 1.0,
        clip_on=False,
    )
    if away.any():
        edge = np.full(int(away.sum()), top)
        axes.plot(x[away], edge, "x", color=colour, markersize=6, zorder=4, clip_on=False)


def _axes(axes: Axes, over: str, title: str, ylabel: str, low: float, top: float) -> None:
    ticker = require_extra("matplotlib.ticker", "plotting")
    axes.set_ylabel(ylabel)
    axes.set_title(title, loc="left", fontsize=11, pad=12)
    if top > SPREAD * low:
        _log_scale(axes)
    if top > 0.0:
        axes.set_ylim(top=top)
    if over == "bytes":
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(ticker.EngFormatter(unit="B"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.set_xlabel("sample bytes read from memory")
    else:
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(True, which="both", color="#E6E6E6", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _log_scale(axes: Axes) -> None:
    """Losses on a log scale, labelled with plain numbers."""
    ticker = require_extra("matplotlib.ticker", "plotting")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.3g}"))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


# --- from records --------------------------------------------------------------------------------
_Shown = tuple[list[LossCurve], float | None, str, str]  # curves, the loss to clip at, title, y label


def _run(record: Record) -> _Shown:
    """Return the curves of a training: mean loss of its models after each epoch, and the device's estimate."""
    with _complete():
        data, settings = record.header["data"], record.header["settings"]
        sampling, bits = str(settings["sampling"]), int(settings["bits"])
        epochs, models = int(settings["epochs"]), int(record.end["models"])
        lines = [line for line in record.lines if line["kind"] == "epoch"]

        def curve(label: str, key: str, look: str) -> LossCurve:
            losses = np.array([[_number(value) for value in line[key]] for line in lines]).reshape(epochs, models)
            return LossCurve(label, look, bits, losses.mean(axis=1), float(record.end["bytes_read"]) / epochs)

        curves = [
            curve("estimate by the\ndevice during it", "loss", "estimate"),
            curve("model after\nthe epoch", "true_loss", sampling),
        ]
        ceiling = 4.0 * float(data["constant"]) if data["constant"] else None
        title = f"{data['name']}: training loss, {curve_label(sampling, bits, int(settings['staleness']))}" + (
            f", mean of {models} models" if models > 1 else ""
        )
        return curves, ceiling, title, _axis(settings)


def _comparison(record: Record) -> _Shown:
    """Return the curves of a comparison: losses, or for squared errors the percentage above the optimum."""
    with _complete():
        data, title = record.header["data"], str(record.header["title"])
        constant = float(data["constant"])
        best = None if data["optimum"] is None else float(data["optimum"])
        if best is None or best <= 1e-6 * constant:  # the labels are linear: nothing to take a percentage of
            return [_result(line, 0.0, 1.0) for line in record.lines], constant, title, _axis(record.header["settings"])
        curves = [_result(line, best, 100.0 / best) for line in record.lines]
        ceiling = (constant - best) * 100.0 / best
        return curves, ceiling, title, "training loss above the least-squares optimum (%)"


def _axis(settings: Mapping[str, Any]) -> str:
    """Return the label of the y axis for the loss."""
    name = str(settings["loss"])
    return f"{LOSS_NAMES[name]} ({LOSS_UNITS[name]})"


@contextlib.contextmanager
def _complete() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the run folder lacks what the plots show ({error}): run it again") from error


def _result(line: Mapping[str, Any], zero: float, unit: float) -> LossCurve:
    loss = np.array([_number(value) for value in line["losses"]])
    sampling, bits = str(line["sampling"]), int(line["bits"])
    per_epoch = None if line["bytes_per_epoch"] is None else float(line["bytes_per_epoch"])
    staleness = int(line["staleness"])
    return LossCurve(curve_label(sampling, bits, staleness), sampling, bits, (loss - zero) * unit, per_epoch, staleness)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)

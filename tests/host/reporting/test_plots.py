"""Plots of a run: curves, clipping, and an error for a record that lacks numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.reporting import plots
from bitlane.reporting.plots import LossCurve, draw, loss_plot
from bitlane.reporting.records import Record

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the axes of every figure that is closed."""
    from matplotlib import pyplot

    seen: list[Any] = []
    monkeypatch.setattr(pyplot, "close", lambda figure: seen.append(figure.axes[0]))
    yield seen
    monkeypatch.undo()
    pyplot.close("all")


def curve(sampling: str, bits: int, loss: list[float], read: float | None = 100.0) -> LossCurve:
    return LossCurve(plots.curve_label(sampling, bits), sampling, bits, np.array(loss), read)


def comparison(loss: str = "squared_error", optimum: float | None = 0.5) -> Record:
    settings = [
        ("float64", 64, None),
        ("full", 32, 800),
        ("double", 4, 100),
        ("nearest", 4, 100),
        ("double", 2, 50),
    ]
    lines = [
        {
            "kind": "result",
            "sampling": sampling,
            "bits": bits,
            "staleness": int(bits == 2),
            "bytes_per_epoch": read,
            "losses": [1.0 / epoch + 0.6 for epoch in range(1, 6)] if bits != 2 else [3.0, None, 9.0, 1e30, None],
        }
        for sampling, bits, read in settings
    ]
    header = {"title": "t", "settings": {"loss": loss}, "data": {"name": "t", "constant": 2.0, "optimum": optimum}}
    return Record("comparison", header, lines, {})


def run(models: int = 1, loss: float = 1.0, name: str = "squared_error") -> Record:
    lines = [
        {"kind": "epoch", "epoch": e, "loss": [loss / (e + 1) - 0.5] * models, "true_loss": [loss / (e + 1)] * models}
        for e in range(4)
    ]
    settings = {"sampling": "double", "bits": 4, "epochs": 4, "staleness": 0, "loss": name}
    header = {"settings": settings, "data": {"name": "t", "constant": loss}}
    return Record("run", header, lines, {"models": models, "bytes_read": 4000})


@pytest.mark.parametrize("record", [comparison(), comparison("hinge", None), run(), run(models=3), run(loss=0.0)])
def test_two_pngs(tmp_path: Path, record: Record) -> None:
    paths = draw(record, tmp_path)
    assert [path.name for path in paths] == ["loss.png", "loss-bytes.png"]
    assert all(path.read_bytes().startswith(PNG) for path in paths)


def test_a_legend_names_each_line_and_its_divergence(tmp_path: Path, axes: list[Any]) -> None:
    draw(comparison(), tmp_path)
    legends = [[text.get_text() for text in one.get_legend().get_texts()] for one in axes]
    drawn = ["full, 32 bits", "double, 4 bits", "nearest, 4 bits", "double, 2 bits, stale (diverges)"]
    assert legends == [["float64", *drawn], drawn]  # float64 has no byte counts
    assert "%" in axes[0].get_ylabel()
    assert "bytes" in axes[1].get_xlabel()
    assert axes[1].get_xscale() == "log"


def test_axes_say_which_loss(tmp_path: Path, axes: list[Any]) -> None:
    for record in (run(name="hinge"), comparison("log_loss", None), run(), comparison(optimum=0.0)):
        draw(record, tmp_path)
    squares = "mean squared residual (label units squared)"
    expected = ["mean hinge loss (no unit)", "mean log loss (nats)", squares, squares]
    assert [one.get_ylabel() for one in axes[::2]] == expected


def test_stale_trainings_are_fainter(tmp_path: Path, axes: list[Any]) -> None:
    draw(comparison(), tmp_path)
    lines = [line for line in axes[0].lines if not line.get_label().startswith("_")]
    assert [line.get_alpha() for line in lines] == [1.0, 1.0, 1.0, 1.0, 0.5]


def test_diverging_curves_are_drawn_at_the_top_edge(tmp_path: Path, axes: list[Any]) -> None:
    curves = [curve("full", 32, [3.0, 1.0, 0.9]), curve("double", 2, [2.0, 70.0, np.nan])]
    loss_plot(curves, tmp_path / "p.png", over="epochs", title="t", ylabel="loss", ceiling=4.0)
    top = axes[0].get_ylim()[1]
    line, crosses = axes[0].lines[1:]
    assert line.get_ydata().tolist() == [2.0, top, top]
    assert crosses.get_xdata().tolist() == [2, 3]
    assert crosses.get_marker() == "x"


def test_bytes_are_counted_from_the_first_epoch(tmp_path: Path, axes: list[Any]) -> None:
    loss_plot([curve("double", 4, [3.0, 2.0], 250.0)], tmp_path / "p.png", over="bytes", title="", ylabel="")
    assert axes[0].lines[0].get_xdata().tolist() == [250.0, 500.0]


def test_samplings_differ_in_colour_and_marker_and_precisions_in_dashes(tmp_path: Path, axes: list[Any]) -> None:
    kinds = [(sampling, bits) for sampling in ("double", "nearest", "naive") for bits in (2, 4, 8)]
    curves = [curve(sampling, bits, [2.0, 1.0]) for sampling, bits in kinds]
    loss_plot(curves, tmp_path / "p.png", over="epochs", title="", ylabel="")
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes[0].lines}
    assert len(looks) == len(kinds)
    assert len({line.get_linestyle() for line in axes[0].lines}) == 3


@pytest.mark.parametrize("missing", ["data", "settings"])
def test_a_record_that_lacks_numbers_is_refused(tmp_path: Path, missing: str) -> None:
    whole = run()
    header = {key: value for key, value in whole.header.items() if key != missing}
    with pytest.raises(DataError, match=f"lacks what the plots show .*{missing}"):
        draw(Record("run", header, whole.lines, whole.end), tmp_path)
    with pytest.raises(DataError, match="lacks what the plots show"):
        draw(Record("run", whole.header, whole.lines[:-1], whole.end), tmp_path)
    assert list(tmp_path.iterdir()) == []

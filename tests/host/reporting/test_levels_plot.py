"""The plot of levels over histograms: contents of each panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.reporting.levels_plot import Panel, levels_plot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

UNIFORM = np.linspace(-1, 1, 5)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Collect every figure that is closed."""
    from matplotlib import pyplot

    seen: list[Any] = []
    monkeypatch.setattr(pyplot, "close", seen.append)
    yield seen
    monkeypatch.undo()
    pyplot.close("all")


def panel(rng: np.random.Generator, name: str) -> Panel:
    values = rng.uniform(-0.5, 1.0, 300)
    return Panel(name, f"note of {name}", values, np.quantile(values, [0, 0.3, 0.6, 1]))


def drawn(axes: Any) -> list[list[float]]:
    """Return the positions of the vertical lines in each collection."""
    return [[segment[0][0] for segment in lines.get_segments()] for lines in axes.collections]


def test_each_feature_has_a_panel(tmp_path: Path, figures: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for count in (1, 2, 5, 12):
        panels = [panel(rng, f"f{j}") for j in range(count)]
        levels_plot(panels, UNIFORM, tmp_path / "p.png", "the title")
        assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        axes = figures[-1].axes
        assert [one.get_title("left") for one in axes] == [f"f{j}\nnote of f{j}" for j in range(count)]
        for one, shown in zip(axes, panels, strict=True):
            assert drawn(one) == [UNIFORM.tolist(), shown.levels.tolist()]
            heights = [bar.get_height() for bar in one.patches]
            counts = np.histogram(shown.values, len(heights), (-1, 1))[0]
            assert np.allclose(heights, 100 * counts / 300)


def test_everything_is_labelled(tmp_path: Path, figures: list[Any], seed: int) -> None:
    levels_plot([panel(np.random.default_rng(seed), "a")], UNIFORM, tmp_path / "p.png", "the title")
    (figure,) = figures
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "the title"
    assert [text.get_text() for text in legend.get_texts()] == ["values", "uniform levels", "optimal levels"]
    assert figure._supxlabel.get_text() == "scaled value"
    assert figure._supylabel.get_text() == "share of the rows (%)"


def test_nothing_overlaps(tmp_path: Path, figures: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for count in (1, 5, 12):
        levels_plot([panel(rng, f"f{j}") for j in range(count)], UNIFORM, tmp_path / "p.png", "the title")
        figure = figures[-1]
        boxes = [one.get_tightbbox() for one in figure.axes] + [figure.legends[0].get_window_extent()]
        boxes += [text.get_window_extent() for text in (figure._supxlabel, figure._supylabel)]
        pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
        assert not any(a.overlaps(b) for a, b in pairs)


def test_names_are_not_formulas_and_long_names_are_cut(tmp_path: Path, figures: list[Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    levels_plot([panel(rng, r"$\no$"), panel(rng, "n" * 40)], UNIFORM, tmp_path / "p.png", r"$\neither$")
    titles = [one.get_title("left").splitlines()[0] for one in figures[0].axes]
    assert titles == [r"$\no$", "n" * 21 + "..."]

"""Plots of a log: every window is drawn, whatever is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane.errors import DataError
from bitlane.sparse.training.plots import draw
from bitlane.sparse.training.windows import Quality, Window, fields

matplotlib = pytest.importorskip("matplotlib")


def lines(quality: Quality) -> list[dict]:
    windows = [
        Window(n // 3, 100 * (n + 1), quality, n, 10.0, 0.1, n * n, n * 48, 1.1 if n else None) for n in range(6)
    ]
    return [{"kind": "sparse-run"}, *({"kind": "window", **fields(window)} for window in windows), {"kind": "end"}]


def drawn(monkeypatch: pytest.MonkeyPatch) -> list:
    """The figures that are saved from now on."""
    from matplotlib.figure import Figure

    found, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, *a, **k: (found.append(figure), save(figure, *a, **k)))
    return found


@pytest.mark.parametrize(
    ("quality", "labels"),
    [
        (Quality(100, 0.75, 0.5, None, 0.2, 0.1), ["AUC", "log loss (nats)", "calibration"]),
        (Quality(100, None, 0.5, None, 0.0, 0.1), ["log loss (nats)"]),
        (Quality(100, rmse=2.0, mean_label=1.0, mean_prediction=1.5), ["RMSE", "calibration"]),
    ],
)
def test_plots_show_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quality: Quality, labels: list[str]
) -> None:
    figures = drawn(monkeypatch)
    paths = draw(lines(quality), tmp_path, "fm on goodbooks")
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    first, second = figures
    assert [axes.get_ylabel() for axes in first.axes] == labels
    assert [axes.get_ylabel() for axes in second.axes] == ["keys", "memory of the table", "memory over data"]
    for axes in (*first.axes, *second.axes):
        rows, ends = axes.get_lines()[:2]
        assert rows.get_xdata().tolist() == [100, 200, 300, 400, 500, 600]
        assert list(ends.get_xdata()) == [300, 300]
    assert second.axes[0].get_lines()[0].get_ydata().tolist() == [0, 1, 4, 9, 16, 25]


def test_noise_of_the_calibration_does_not_fill_its_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(monkeypatch)
    draw(lines(Quality(100, 0.75, 0.5, None, 0.5, 0.5001)), tmp_path, "fm")
    assert figures[0].axes[2].get_ylim() == pytest.approx((0.95, 1.05), abs=0.02)
    draw(lines(Quality(100, 0.75, 0.5, None, 0.5, 1.0)), tmp_path, "fm")
    assert figures[2].axes[2].get_ylim()[1] > 2.0


def test_no_windows_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no windows"):
        draw([{"kind": "sparse-run"}], tmp_path, "fm")
    assert list(tmp_path.iterdir()) == []

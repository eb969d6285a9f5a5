"""The study of whole fits: its tables, on few rows."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane_studies import end_to_end
from bitlane_studies.end_to_end import Fit, ScikitLearnFits, blas, first_below, ours, table_of
from bitlane_studies.float_sgd import loss

pytest.importorskip("sklearn")
pytest.importorskip("numba")


@pytest.fixture
def table(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    monkeypatch.setattr(end_to_end, "REPEATS", 1)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 6)).astype(np.float32)
    return X, (X @ np.arange(6) + rng.normal(size=1500)).astype(np.float32)


def test_the_first_loss_below() -> None:
    assert first_below([3.0, 2.0, 1.0, 2.0], 2.0) == 2 and first_below([3.0], 2.0) is None


def test_all_programs_reach_the_loss(table: tuple[np.ndarray, np.ndarray]) -> None:
    """The least squares leave the noise, with a variance of 1."""
    X, y = table
    fits = [ours(X, y, 1.2), blas(X, y, 1.2), ScikitLearnFits(X, y).to(0.5 * np.var(y))]
    assert all(fit.epochs and fit.seconds > 0 and fit.read > X.nbytes for fit in fits)
    phases, cycles = fits[0].phases, fits[0].cycles
    assert phases is not None and sum(phases.values()) <= fits[0].seconds and cycles > 1500 / 64 * (fits[0].epochs or 0)
    lines = table_of(fits).splitlines()
    assert len(lines) == 5 and lines[2].startswith("bitlane, 4 bits")


def test_a_loss_that_is_not_reached(table: tuple[np.ndarray, np.ndarray]) -> None:
    fits = [ours(*table, 0.1), blas(*table, 0.1), ScikitLearnFits(*table).to(0.1)]
    assert [fit.epochs for fit in fits] == [None] * 3
    assert table_of(fits).count("none of 20") == 3


def test_the_loss_is_the_mean_squared_residual(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    coef = np.arange(6.0)
    assert loss(X, y, coef, 2.0) == pytest.approx(float(np.mean((X.astype(float) @ coef + 2.0 - y) ** 2)), rel=1e-5)


def test_the_whole_study(
    table: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(end_to_end, "EXCESS", 1.2)
    monkeypatch.setattr(end_to_end, "tables", lambda: iter([("some", *table)]))
    monkeypatch.setattr(end_to_end, "vowpal_wabbit", lambda X, y, target: Fit("Vowpal Wabbit", "not here", None))
    end_to_end.main([])
    told = capsys.readouterr().out
    assert (
        told.startswith("some: 1,500 rows, 6 features")
        and "Pynq-Z2, Pynq-Z1, Arty-Z7-20: about" in told
        and "20 epochs" in told
    )
    end_to_end.main(["--equal-epochs"])
    assert "20 epochs" in capsys.readouterr().out

"""The study of calibration: its table, and that many rows a step cost little."""

from __future__ import annotations

import pytest

from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.training.windows import Quality
from bitlane_studies.sparse import calibration

for library in ("numba", "pyarrow", "xxhash", "ray"):
    pytest.importorskip(library)


def test_every_model_click_rate_and_number_of_workers_has_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "RATES", (0.5, 0.05))
    calibration.main(["--rows", "20000", "--keys", "500", "--batch-rows", "1,256"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if "+0.0 %" in line or " 2 " in line]
    assert [line[:3] for line in lines] == [
        [kind, rate, workers] for rate in ("50.0%", "5.0%") for kind in calibration.KINDS for workers in ("1", "2")
    ]
    for line in lines:
        assert 0.8 < float(line[-3].rstrip(",")) < 1.25 and float(line[-2]) < 2


def test_vowpal_wabbit_learns_the_same_rows() -> None:
    """With the optimizer of our LR its scores before learning are as good: keys and labels are those of the rows."""
    pytest.importorskip("vowpalwabbit")
    rows = ClickLog(ClickLogSettings(fields=4, keys=500, seed=3)).batch(0, 20_000)
    ours = calibration.progressive(ModelSpec("lr"), rows, 1)
    theirs = calibration.vowpal_wabbit(rows, calibration.VOWPAL_WABBIT["vw, ftrl"])
    assert ours.log_loss is not None and theirs.log_loss is not None
    assert abs(theirs.log_loss / ours.log_loss - 1) < 0.01


def test_a_cell_has_calibration_and_loss_above_row_by_row() -> None:
    quality = Quality(9, log_loss=0.11, mean_label=0.2, mean_prediction=0.1)
    assert calibration.cell(quality, Quality(9, log_loss=0.1)) == "0.50, +10.0 %"

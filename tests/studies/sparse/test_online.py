"""The study of online training: its slope, its writer, the frozen model; all of it at a small size."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from bitlane.sparse.batches.source import open_source
from bitlane.sparse.generator.click_log import ClickLog
from bitlane.sparse.generator.settings import ClickLogSettings
from bitlane.sparse.models.spec import ModelSpec
from bitlane_studies.sparse import online

LOG = ClickLogSettings(keys=2000)


def test_the_slope_is_that_of_the_second_half() -> None:
    seconds = np.arange(0, 600, 5.0)
    memory = np.where(seconds < 300, 5e8 * seconds, 1e9 + 2e6 * seconds / 60)
    rise, error = online.slope(list(zip(seconds, memory, strict=True)))
    assert rise == pytest.approx(2e6) and error < 1


def test_the_writer_writes_the_rows_of_the_log_in_order(tmp_path: Path) -> None:
    writer = online.Writer(ClickLog(LOG), tmp_path, 50)
    writer.start()
    until = time.monotonic() + 30
    while writer.rows < 200 and time.monotonic() < until:
        time.sleep(0.05)
    writer.stop.set()
    writer.join()
    found = [batch.labels for batch in open_source(str(tmp_path)).batches(0)]
    assert writer.rows >= 200
    assert np.array_equal(np.concatenate(found), ClickLog(LOG).batch(0, writer.rows).labels)


def test_a_frozen_model_is_measured_behind_the_rows_that_it_has_learned(tmp_path: Path) -> None:
    writer = online.Writer(ClickLog(LOG), tmp_path, 20_000)
    writer.start()
    writer.begun.wait()
    writer.stop.set()
    writer.join()
    windows = [{"rows_done": rows} for rows in (10_000, 20_000, 30_000, 40_000)]
    found = online.frozen_aucs(tmp_path, ModelSpec("fm", batch_rows=256), 12_000, windows)
    assert np.isnan(found[:2]).all() and np.all(found[2:] > 0.55)


@pytest.mark.slow
def test_the_study_runs_to_its_end(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    plot = tmp_path / "online.png"
    online.main(
        ["--minutes", "0.7", "--rate", "1000", "--window-rows", "2000", "--expire-after", "20000", "--out", str(plot)]
    )
    text = capsys.readouterr().out
    assert "restarts of servers" in text and "MB a minute" in text and plot.exists()

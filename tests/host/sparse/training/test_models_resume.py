"""Trainings of real models resume to the bit, with admission, expiry and removal of zeros too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_training import RowsSource, files_of, some_rows, without_times

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.training.log import read_log
from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer
from bitlane.sparse.training.run_folder import RunFolder

for library in ("numba", "pyarrow", "xxhash"):
    pytest.importorskip(library)

from bitlane.sparse.models.model import SparseModel  # noqa: E402
from bitlane.sparse.models.spec import ModelSpec  # noqa: E402
from bitlane.sparse.parameters.optimizers import FTRL, SGD  # noqa: E402

SETTINGS = {"any": 1}


def fading_rows(seed: int, rows: int) -> Batch:
    """Rows whose second key is new every 20 rows, and not seen again."""
    batch = some_rows(seed, rows)
    keys = batch.keys.copy()
    keys[1::2] = 1000 + np.arange(rows, dtype=np.uint64) // np.uint64(20)
    return Batch(keys, batch.fields, batch.values, batch.offsets, batch.labels)


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        (ModelSpec("lr", linear=FTRL(0.2, l1=0.5)), {"drop_zeros": True}),
        (ModelSpec("fm", dim=4, sightings=3), {}),
        (ModelSpec("fm", dim=4, track_age=True), {"expire_rows": 1000}),
        (ModelSpec("ffm", dim=2, fields=2), {}),
        (ModelSpec("fm", dim=4, batch_rows=16, linear=SGD(0.05, decay=0.01), factors=SGD(0.05)), {}),
    ],
    ids=["zeros", "admission", "expiry", "ffm", "minibatches"],
)
@pytest.mark.parametrize("stop", [600, 2900])
def test_a_real_model_resumes_to_the_bit(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: ModelSpec, options: dict[str, Any], stop: int
) -> None:
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 100)
    source = RowsSource(fading_rows(seed, 2100), 130, ordered=True)
    settings = SparseTrainingOptions(epochs=2, window_rows=300, **options)

    def train(path: Path, rows: int = 0) -> SparseModel:
        """Train until a number of rows, or to the end."""
        with RunFolder.resume(path) if path.exists() else RunFolder.create(path, SETTINGS) as run:
            model = SparseModel.load(run.model) if run.model else SparseModel(spec)
            Trainer(model, source, settings, run=run, on_window=[lambda window: window.rows_done >= rows > 0]).run()
        return model

    whole = train(tmp_path / "whole")
    train(tmp_path / "run", stop)
    train(tmp_path / "run")
    assert files_of(tmp_path / "run/model") == files_of(tmp_path / "whole/model")
    assert without_times(read_log(tmp_path / "run")) == without_times(read_log(tmp_path / "whole"))
    keys = np.concatenate([chunk[0] for chunk in whole.parameters.table.items()])
    if options.get("expire_rows"):  # the last window ended at 4,200 rows, in ticks of 1,000
        assert keys[keys >= 1000].min() >= 1000 + 900 // 20
    if options.get("drop_zeros"):
        assert all(whole.parameters.has_weight(*chunk).all() for chunk in whole.parameters.table.items())
    if spec.sightings == 1 and not options:
        assert len(keys) == 16 + 105

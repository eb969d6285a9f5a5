"""The study of quality: all models on the same rows, beside scikit-learn."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from bitlane.sparse.batches.batch import Batch
from bitlane_studies.sparse import quality

for library in ("numba", "pyarrow", "xxhash", "sklearn"):
    pytest.importorskip(library)


@pytest.fixture
def rows_file(tmp_path: Path, seed: int) -> Path:
    """4,000 rows in which a user clicks on items of its parity: factors say that, weights do not."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 10, 4000), rng.integers(0, 10, 4000)
    clicks = rng.random(4000) < np.where(users % 2 == items % 2, 0.9, 0.1)
    path = tmp_path / "rows.ffm"
    path.write_text("".join(f"{int(y)} 0:{u}:1 1:{100 + i}:1\n" for y, u, i in zip(clicks, users, items, strict=True)))
    return path


def test_all_models_see_the_same_rows(rows_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quality.main([str(rows_file), "--epochs", "6"])
    out = capsys.readouterr().out
    table = out[out.index("rows.ffm, 6 epochs") :].splitlines()
    found = {line.split("  ")[0]: float(line.split()[-3]) for line in table[2:] if line}
    assert list(found) == ["LR", "FM", "FFM", *(["DNN"] if find_spec("torch") else []), "LogisticRegression"]
    assert max(found["LR"], found["LogisticRegression"]) < 0.7 < 0.8 < found["FFM"]
    assert found["FM"] > found["LR"]
    assert "linear by ftrl 0.3 " in out
    assert ("DNN is left out" in out) == (find_spec("torch") is None)


def test_a_column_for_each_key() -> None:
    batch = Batch(
        np.array([7, 3, 9, 3], np.uint64),
        np.zeros(4, np.uint16),
        np.array([1, 2, 3, 4], np.float32),
        np.array([0, 2, 4], np.int64),
        np.zeros(2, np.float32),
    )
    found = quality._columns(batch, np.array([3, 7], np.uint64)).toarray()
    assert found.tolist() == [[2.0, 1.0], [4.0, 0.0]]  # 9 is not among the keys


def test_held_out_rows_are_those_of_the_command_line(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bitlane.cli.main import main

    train, test = quality.train_and_test("census32k")
    assert train.rows + test.rows == 30_162
    assert main(["sparse", "train", "census32k", "--model", "lr", "--test-fraction", "0.1"]) == 0
    assert f"{test.rows:,}" in next(line for line in capsys.readouterr().out.splitlines() if "held-out" in line)
    assert [part.rows for part in quality.train_and_test("a9a")] == [32_561, 16_281]


def test_a_missing_data_set_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    assert quality.main(["goodbooks"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("quality: no file matches 'goodbooks'")

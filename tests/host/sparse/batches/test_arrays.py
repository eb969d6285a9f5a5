"""Arrays of npz files to rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.sparse_text import assert_same, random_batch, rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.arrays import batch_of_arrays, dataset_path, rows_of_arrays
from bitlane.sparse.batches.checks import RowLocation

LOCATION = RowLocation("set.npz")


def read(arrays: dict[str, Any], **settings: Any) -> Any:
    return batch_of_arrays({name: np.asarray(array) for name, array in arrays.items()}, location=LOCATION, **settings)


def test_sparse_arrays_come_back(seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 60, times=True)
    names = ("keys", "fields", "values", "offsets", "labels", "times")
    arrays = {name: getattr(batch, name) for name in names}
    assert_same(read(arrays), batch)
    assert rows_of_arrays(arrays, "train") == 60
    few = {"keys": [3, 4], "offsets": [0, 1, 1, 2], "labels": np.array([-1, 1, 1], np.int8)}
    assert rows_of(read(few)) == [(0.0, [(0, 3, 1.0)]), (1.0, []), (1.0, [(0, 4, 1.0)])]


def test_dense_arrays_lose_their_zeros(seed: int) -> None:
    scipy = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(seed)
    dense = {split: rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.4) for split in ("train", "test")}
    arrays = {f"X_{split}": matrix for split, matrix in dense.items()}
    arrays |= {f"y_{split}": rng.choice([-1.0, 1.0], 30) for split in dense}
    for split, matrix in dense.items():
        wanted = scipy.csr_matrix(matrix)
        found = read(arrays, split=split)
        assert found.keys.tolist() == wanted.indices.tolist()
        assert found.offsets.tolist() == wanted.indptr.tolist()
        assert found.values.tolist() == wanted.data.astype(np.float32).tolist()
        assert found.labels.tolist() == (arrays[f"y_{split}"] > 0).tolist()
        assert not found.fields.any()
        assert rows_of_arrays(arrays, split) == 30


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        ({"keys": [1]}, {}, "set.npz: array 'offsets' is missing beside 'keys'"),
        ({"keys": [1], "offsets": [0, 1]}, {}, "set.npz: array 'labels' is missing beside 'keys'"),
        ({"keys": [0.5], "offsets": [0, 1], "labels": [1]}, {}, "keys are float64; they must be integers"),
        ({"keys": [-5], "offsets": [0, 1], "labels": [1]}, {}, "set.npz: key -5 is negative"),
        ({"keys": [5], "offsets": [0, 2], "labels": [1]}, {}, "set.npz: offsets must begin with 0 and end with"),
        ({"keys": [5], "offsets": [0, 1], "labels": [3]}, {}, "set.npz, row 1: label 3 is neither 0 nor 1"),
        (
            {"keys": [5], "fields": [9], "offsets": [0, 1], "labels": [1]},
            {"max_fields": 9},
            "field 9 is not from 0 to 8",
        ),
        ({"keys": [5], "fields": [-1], "offsets": [0, 1], "labels": [1]}, {}, "field -1 is not from 0 to 65535"),
        ({"keys": [5], "values": [np.nan], "offsets": [0, 1], "labels": [1]}, {}, "set.npz, row 1: values is nan"),
        ({"keys": [5], "offsets": [0, 1], "labels": [1]}, {"split": "test"}, "a sparse file has no split 'test'"),
        ({"a": [1], "b": [2]}, {}, "there is no array 'X_train' and no 'keys'; there are a, b"),
        ({"X_train": [[1]], "y_train": [1]}, {"split": "test"}, "there is no array 'X_test'"),
        ({"X_train": [[1], [2]], "y_train": [1]}, {}, "set.npz: 2 rows need as many labels; got 1"),
        ({"X_train": [[1], [np.inf]], "y_train": [1, 0]}, {}, "set.npz, row 2: a value is inf"),
        ({"X_train": [[1], [2]], "y_train": [1, 2]}, {}, "set.npz, row 2: label 2 is neither 0 nor 1"),
    ],
)
def test_bad_arrays_are_refused(arrays: dict[str, Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(arrays, **settings)


def test_data_sets_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clicks.npz").touch()
    monkeypatch.setenv("BITLANE_DATA", str(tmp_path))
    assert dataset_path("clicks") == tmp_path / "clicks.npz"
    assert dataset_path("views") is None
    assert dataset_path("../clicks") is None
    monkeypatch.delenv("BITLANE_DATA")
    assert dataset_path("clicks") is None

"""Labels of all spellings: against a table of plain Python, in every container; the wrong ones are named."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.source import open_source

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

ONES = ["1", "1.0", "+1", "1e0", " 1 ", "true", "True", "TRUE", "t", "T", "yes", "Yes", "y", "Y"]
ZEROS = ["0", "-1", "-1.0", "0.0", "-0", "false", "False", "f", "F", "no", "NO", "n", "N"]
VALUES = ["click", "Click", "5", "4", "M", "F", "f", "N", "n", "true", "False", "a b", "köln", "1", "0", "-1"]


def write(path: Path, labels: Any) -> Path:
    table = pa.table({"label": labels, "item": [f"i{row % 3}" for row in range(len(labels))]})
    if path.suffix in (".csv", ".tsv"):
        cells = zip(*table.to_pydict().values(), strict=True)
        between = "," if path.suffix == ".csv" else "\t"
        path.write_text("\n".join(between.join(map(str, row)) for row in [("label", "item"), *cells]) + "\n")
    elif path.suffix == ".jsonl":
        table.to_pandas().to_json(path, orient="records", lines=True)
    else:
        writes = {".parquet": parquet.write_table, ".arrow": feather.write_feather}
        writes[path.suffix](table, path)
    return path


def labels_of(path: Path, **settings: Any) -> list[float]:
    return [label for batch in open_source(path, **settings).batches(0) for label in batch.labels.tolist()]


SUFFIXES = [".csv", ".tsv", ".jsonl", ".parquet", ".arrow"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_words_and_numbers_are_classes(suffix: str, tmp_path: Path, seed: int) -> None:
    pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    texts = rng.choice([*ONES, *ZEROS], 100).tolist()
    path = write(tmp_path / f"a{suffix}", texts)
    assert labels_of(path) == [float(text in ONES) for text in texts]


def is_same(label: str, positive: str) -> bool:
    """Plain Python: equal numbers, or equal texts, but for the case of true and false."""
    if label.lower() in ("true", "false"):
        return label.lower() == positive.lower()
    try:
        return float(label) == float(positive)
    except ValueError:
        return label == positive


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_value_can_be_the_positive_one(suffix: str, tmp_path: Path, seed: int) -> None:
    pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    texts = rng.choice(VALUES, 80).tolist()
    positive = texts[rng.integers(80)]
    path = write(tmp_path / f"a{suffix}", texts)
    assert labels_of(path, positive=positive) == [float(is_same(text, positive)) for text in texts]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("labels", "positive", "wanted"),
    [
        (pa.array([1, 5, 2, 5]), "5", [0, 1, 0, 1]),
        (pa.array([1, 5, 2, 5]), 5, [0, 1, 0, 1]),
        (pa.array([1.0, 5.0, 2.5, 5.0]), "5.0", [0, 1, 0, 1]),
        (pa.array([1234567.0, 5.0, 2.5, 5.0]), "1234567", [1, 0, 0, 0]),
        (pa.array([True, False, True]), "False", [0, 1, 0]),
        (pa.array([True, False, True]), None, [1, 0, 1]),
        (pa.array([-1, 1, -1]), "-1", [1, 0, 1]),
        (pa.array([0, 1, 0]), "0", [1, 0, 1]),
    ],
)
def test_labels_of_every_type(suffix: str, labels: Any, positive: Any, wanted: list[int], tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    assert labels_of(write(tmp_path / f"a{suffix}", labels), positive=positive) == wanted


def test_dictionaries_bytes_and_decimals(tmp_path: Path) -> None:
    from decimal import Decimal

    columns = [
        (pa.array(["no", "yes", "no"]).dictionary_encode(), None, [0, 1, 0]),
        (pa.array(["no", "yes", "no"]).dictionary_encode(), "no", [1, 0, 1]),
        (pa.array([b"no", b"yes"]), None, [0, 1]),
        (pa.array([Decimal("1.50"), Decimal("2.00")]), "2", [0, 1]),
    ]
    for column, positive, wanted in columns:
        path = write(tmp_path / "a.parquet", column)
        assert labels_of(path, positive=positive) == wanted


def test_text_formats_and_arrays(tmp_path: Path) -> None:
    (tmp_path / "a.libsvm").write_text("5 1:1\n1 2:1\n5.0 3:1\n")
    assert labels_of(tmp_path / "a.libsvm", positive="5") == [1, 0, 1]
    (tmp_path / "a.ffm").write_text("2 0:1:1\n1 0:2:1\n")
    assert labels_of(tmp_path / "a.ffm", positive="1") == [0, 1]
    with pytest.raises(DataError, match=r"a.ffm: its labels are numbers, and --positive 'yes' is none$"):
        labels_of(tmp_path / "a.ffm", positive="yes")
    sparse = {"keys": np.array([1, 2, 3]), "offsets": np.array([0, 1, 2, 3])}
    for labels, positive, wanted in (
        (np.array(["no", "yes", "no"]), None, [0, 1, 0]),
        (np.array(["a", "b", "a"]), "a", [1, 0, 1]),
        (np.array([3, 4, 5]), "4", [0, 1, 0]),
        (np.array([True, False, True]), None, [1, 0, 1]),
    ):
        np.savez(tmp_path / "a.npz", labels=labels, **sparse)
        assert labels_of(tmp_path / "a.npz", positive=positive) == wanted


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("wrong", ["maybe", "2", "-2", "0.5", "ja"])
def test_a_third_value_is_named_with_its_row(suffix: str, wrong: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = write(tmp_path / f"a{suffix}", ["yes", "no"] * 10 + [wrong, "no", wrong])
    shown = wrong if wrong[-1].isdigit() else repr(wrong)
    with pytest.raises(DataError) as error:
        labels_of(path)
    assert str(error.value) == (
        f"{path}, row 21: label {shown} is neither 0 nor 1 (nor -1, true, false, yes or no): say which label is 1 by "
        "--positive (all others are 0), or use --loss squared_error"
    )


@pytest.mark.parametrize("positive", [None, "yes"])
def test_an_empty_label_is_an_error(positive: str | None, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["yes", "no", ""])
    with pytest.raises(DataError, match=r"a.csv, row 3: label column 'label' is empty$"):
        labels_of(path, positive=positive)
    path = write(tmp_path / "b.csv", ["yes", "no", "None"])
    with pytest.raises(DataError, match=r"b.csv, row 3: label column 'label' is 'None', a missing value$"):
        labels_of(path, positive=positive)
    path = write(tmp_path / "a.parquet", ["yes", None, "no"])
    with pytest.raises(DataError, match=r"a.parquet, row 2: label column 'label' is empty$"):
        labels_of(path, positive=positive)
    path = write(tmp_path / "b.parquet", pa.array([1.0, float("nan")]))
    with pytest.raises(DataError, match=r"b.parquet, row 2: label"):
        labels_of(path, positive="1")


def test_a_positive_value_that_is_absent_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ["yes", "no"] * 10)
    with pytest.warns(UserWarning, match=r"a.csv: none of the first 20 labels is 'Yes', the one of --positive$"):
        assert not any(labels_of(path, positive="Yes"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(labels_of(path, positive="yes")) == 10
        bare = tmp_path / "bare.csv"
        bare.write_text("item\na\n")
        assert np.isnan(labels_of(bare, positive="yes", labelled=False)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positive": "5", "task": "regression"}, "positive='5': a regression has no classes; omit it"),
        ({"positive": ""}, "positive='': a missing label is written so; give a label of the file"),
        ({"positive": "NA"}, "positive='NA': a missing label is written so; give a label of the file"),
    ],
)
def test_a_positive_value_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as error:
        ReadOptions(**settings)
    assert str(error.value) == message

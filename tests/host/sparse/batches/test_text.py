"""Lines of libsvm and libffm: as a plain parser and as scikit-learn read them."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.sparse_text import assert_same, lines_of, parsed, random_batch, rows_of, without_fields

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.text import LAYOUTS, count_rows, parse_lines

LOCATION = RowLocation("clicks", 1, "line")
WORDS = st.sampled_from(
    ["1", "0", "-1", "+1", "1.0", "5:2", "3:0.5", "7:-1e-3", "0:1", "#", "# 1:x", "", " ", "\t", "\r"]
)


def read(text: bytes, layout: str = "libsvm", task: str = "classification", max_fields: int | None = None) -> Batch:
    return parse_lines(text, layout, task=task, max_fields=max_fields, location=LOCATION)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_written_is_read(layout: str, seed: int) -> None:
    batch = random_batch(np.random.default_rng(seed), 300)
    rows = rows_of(batch) if layout == "libffm" else without_fields(rows_of(batch))
    text = lines_of(batch, layout)
    assert rows_of(read(text, layout)) == rows == parsed(text, layout)
    assert count_rows(text) == 300


def test_scikit_learn_reads_the_same(seed: int) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(200):
        keys = np.sort(rng.choice(1000, rng.integers(0, 20), replace=False))
        cells = [f"{key}:{value:.6g}" for key, value in zip(keys, rng.normal(size=len(keys)), strict=True)]
        lines.append(" ".join([f"{rng.normal():.4f}", *cells]) + ("  # a comment\n" if rng.random() < 0.2 else "\n"))
    text = "".join(lines).encode()
    matrix, labels = datasets.load_svmlight_file(io.BytesIO(text), n_features=1000, zero_based=True, dtype=np.float32)
    found = read(text, task="regression")
    np.testing.assert_array_equal(found.keys, matrix.indices)
    np.testing.assert_array_equal(found.offsets, matrix.indptr)
    np.testing.assert_array_equal(found.values, matrix.data)
    np.testing.assert_array_equal(found.labels, labels.astype(np.float32))
    assert not found.fields.any()


@given(st.lists(st.tuples(st.sampled_from(["1", "0", "-1", " +1", "\t-1.0", "1e0"]), st.lists(WORDS, max_size=4))))
def test_blanks_comments_and_line_ends(drawn: list[tuple[str, list[str]]]) -> None:
    lines = []
    for label, words in drawn:
        features = [word for word in words if ":" in word or word[:1] in ("#", "")]
        lines.append(" ".join([label, *features]))
        lines.extend(word for word in words if word.strip() in ("", "#"))
    text = "\r\n".join(lines).encode()
    wanted = parsed(text, "libsvm")
    for given_text in (text, text + b"\n", text.replace(b"\r\n", b"\n")):
        assert rows_of(read(given_text)) == wanted
        assert count_rows(given_text) == len(wanted)


def test_labels_of_both_conventions() -> None:
    text = b"1 1:1\n-1 1:1\n+1\n0\n-1.0\n1.\n"
    assert read(text).labels.tolist() == [1, 0, 1, 0, 0, 1]
    assert read(text, task="regression").labels.tolist() == [1, -1, 1, 0, -1, 1]
    assert read(b"-0.25 1:1\n1e-3\n", task="regression").labels.tolist() == [-0.25, np.float32(1e-3)]


def test_nothing_is_no_row() -> None:
    for text in (b"", b"\n", b"# 1 2:3\n\n  \r\n"):
        assert_same(read(text), Batch.concatenate([random_batch(np.random.default_rng(0), 0)]))


def test_the_smallest_features_fit() -> None:
    assert read(b"1" + b" 1:1" * 999).nnz == 999
    assert read(b"1" + b" 1:1:1" * 999, "libffm").nnz == 999
    assert read(b"1\n" * 999).rows == 999


LARGEST = 2**64 - 1


def test_the_largest_keys_and_fields() -> None:
    found = read(f"1 65535:{LARGEST}:1 0:0:2\n".encode(), "libffm")
    assert rows_of(found) == [(1.0, [(65535, LARGEST, 1.0), (0, 0, 2.0)])]
    assert read(b"1 7:1:1\n", "libffm", max_fields=8).nnz == 1


@pytest.mark.parametrize(
    ("line", "layout", "reason"),
    [
        (
            "2 1:1",
            "libsvm",
            "label 2 is neither 0 nor 1 (nor -1, true, false, yes or no): say which label is 1 by --positive "
            "(all others are 0), or use --loss squared_error",
        ),
        (
            "0.5 1:1",
            "libsvm",
            "label 0.5 is neither 0 nor 1 (nor -1, true, false, yes or no): say which label is 1 by --positive "
            "(all others are 0), or use --loss squared_error",
        ),
        ("yes 1:1", "libsvm", "label 'yes' is no finite number"),
        ("1:1 2:2", "libsvm", "label '1:1' is no finite number"),
        ("nan 1:1", "libsvm", "label 'nan' is no finite number"),
        ("1 a:1", "libsvm", "key 'a' is not one of the whole numbers from 0 to 2^64 - 1"),
        ("1 2.5:1", "libsvm", "key '2.5' is not one of the whole numbers from 0 to 2^64 - 1"),
        ("1 -3:1", "libsvm", "key '-3' is negative: keys are whole numbers from 0 to 2^64 - 1"),
        (f"1 {2**64}:1", "libsvm", f"key {2**64} is too large: keys are whole numbers from 0 to 2^64 - 1"),
        ("1 5", "libsvm", "feature '5' is not key:value"),
        ("1 5 :1", "libsvm", "feature '5' is not key:value"),
        ("1 5:", "libsvm", "value '' of feature '5:' is no finite number"),
        ("1 5:x", "libsvm", "value 'x' of feature '5:x' is no finite number"),
        ("1 5:1x", "libsvm", "value '1x' of feature '5:1x' is no finite number"),
        ("1 5:nan", "libsvm", "value 'nan' of feature '5:nan' is no finite number"),
        ("1 5:-inf", "libsvm", "value '-inf' of feature '5:-inf' is no finite number"),
        ("1 5:1e39", "libsvm", "value '1e39' of feature '5:1e39' is beyond float32"),
        ("1 5:3.4028236e38", "libsvm", "value '3.4028236e38' of feature '5:3.4028236e38' is beyond float32"),
        ("1 1:2:3", "libsvm", "feature '1:2:3' is not key:value"),
        ("1 1:2", "libffm", "feature '1:2' is not field:key:value"),
        ("1 x:1:2", "libffm", "field 'x' is no whole number from 0 to 65535"),
        ("1 -1:1:2", "libffm", "field '-1' is no whole number from 0 to 65535"),
        ("1 65536:1:2", "libffm", "field 65536 is above the largest, 65535"),
        (f"1 {2**64}:1:2", "libffm", f"field {2**64} is above the largest, 65535"),
        ("1 1:x:2", "libffm", "key 'x' is not one of the whole numbers from 0 to 2^64 - 1"),
        ("1 1:2:" + "9" * 50 + "x", "libffm", "value '" + "9" * 33 + "...' of feature '1:2:" + "9" * 33 + "...' is no"),
    ],
)
def test_an_error_names_the_line(line: str, layout: str, reason: str) -> None:
    good = "1 3:4:1\n" if layout == "libffm" else "1 4:1\n"
    text = f"# header\n\n{good * 1000}{line}\n{good}".encode()
    with pytest.raises(DataError) as error:
        read(text, layout)
    assert str(error.value).startswith(f"clicks, line 1003: {reason}")


def test_the_limits_of_fields_and_labels_are_settings() -> None:
    with pytest.raises(DataError, match=r"clicks, line 1: field 8 is above the largest, 7"):
        read(b"1 8:1:1\n", "libffm", max_fields=8)
    with pytest.raises(DataError, match=r"label '1e39' is beyond float32"):
        read(b"1e39 1:1\n", task="regression")


def test_the_largest_float32_is_read() -> None:
    assert read(b"1 5:3.4028235e38 6:1e-46\n").values.tolist() == [float(np.finfo(np.float32).max), 0.0]


@given(st.binary(max_size=200), st.sampled_from(LAYOUTS))
def test_any_bytes_are_rows_or_an_error(text: bytes, layout: str) -> None:
    try:
        batch = read(text, layout)
    except DataError as error:
        assert str(error).startswith("clicks, line ")
        assert "\n" not in str(error)
    else:
        assert batch.rows == count_rows(text)


@given(st.text("0123456789:.-+eE #\n\rx", max_size=60), st.sampled_from(LAYOUTS))
def test_near_misses_are_rows_or_an_error(text: str, layout: str) -> None:
    try:
        batch = read(text.encode(), layout, task="regression")
    except DataError as error:
        assert str(error).startswith("clicks, line ")
    else:
        assert [features for _, features in rows_of(batch)] == [
            features for _, features in parsed(text.encode(), layout)
        ]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_speed(layout: str, data_dir: Path) -> None:
    """Of one thread's time; the best of ten blocks."""
    arrays = np.load(data_dir / "goodbooks.npz")
    nnz = int(arrays["offsets"][40_000])
    batch = Batch(
        arrays["keys"][:nnz],
        arrays["fields"][:nnz].astype(np.uint16),
        np.ones(nnz, np.float32),
        arrays["offsets"][:40_001],
        arrays["labels"][:40_000].astype(np.float32),
    )
    text = lines_of(batch, layout).replace(b":1.0", b":1")
    assert rows_of(read(text, layout)) == (rows_of(batch) if layout == "libffm" else without_fields(rows_of(batch)))
    best = 1e9
    for _ in range(10):
        begin = time.thread_time()
        read(text, layout)
        best = min(best, time.thread_time() - begin)
    assert len(text) / best > 75e6  # 260 MB/s on an idle machine; a busy one has less

"""What users call X, as batches: the same rows in every form, and what cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse import Batch, LRClassifier
from bitlane.sparse.batches.checks import RowLocation
from bitlane.sparse.batches.moments import scales_of
from bitlane.sparse.estimators.encoding import find_encoder

pytest.importorskip("numba")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
sparse = pytest.importorskip("scipy.sparse")
xxhash = pytest.importorskip("xxhash")

NAMES = ("keys", "fields", "values", "offsets", "labels", "times")


def same(a: Batch, b: Batch) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True) for name in NAMES[:5])


def encode(X: Any, fields: Any = None, needs_fields: bool = False) -> Batch:
    return find_encoder(X, fields, needs_fields).encode(X, "Model")


def textbook(X: np.ndarray, fields: Any) -> Batch:
    """Row by row, entry by entry."""
    keys, found, values, offsets = [], [], [], [0]
    for row in X.tolist():
        for column, value in enumerate(row):
            if value != 0:
                keys.append(column)
                found.append(fields[column])
                values.append(value)
        offsets.append(len(keys))
    return Batch(
        np.array(keys, np.uint64),
        np.array(found, np.uint16),
        np.array(values, np.float32),
        np.array(offsets),
        np.full(len(X), np.nan, np.float32),
    )


def test_arrays_of_all_kinds_are_the_same_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (30, 7)) * (rng.random((30, 7)) < 0.4)
    X[5] = 0
    fields = rng.integers(0, 65_536, 7)
    expected = textbook(X, fields)
    coo = sparse.coo_matrix(X)
    twice = sparse.coo_matrix((np.tile(coo.data, 2) / 2, (np.tile(coo.row, 2), np.tile(coo.col, 2))), X.shape)
    explicit = sparse.csr_matrix((np.arange(210) * 0.0, np.tile(np.arange(7), 30), np.arange(31) * 7), X.shape)
    explicit.data[:] = X.ravel()
    unsorted = sparse.csr_matrix(X.astype(float))
    for row in range(30):
        part = slice(unsorted.indptr[row], unsorted.indptr[row + 1])
        for array in (unsorted.indices, unsorted.data):
            array[part] = array[part][::-1].copy()
    unsorted.has_sorted_indices = False
    backwards = unsorted.indices.tolist()
    forms = [X.tolist(), X, X.astype(np.float32), np.asfortranarray(X), X.astype(object)]
    forms += [coo, twice, explicit, unsorted]
    forms += [sparse.csr_matrix(X), sparse.csc_matrix(X), sparse.csr_array(X.astype(np.int8)), sparse.lil_matrix(X)]
    for form in forms:
        assert same(encode(form, fields), expected)
    assert unsorted.indices.tolist() == backwards, "X stays as it was"


def test_fields_of_columns() -> None:
    X = np.ones((2, 3))
    assert encode(X).fields.tolist() == [0] * 6
    assert encode(X, needs_fields=True).fields.tolist() == [0, 1, 2] * 2
    assert encode(X, [4, 0, 4]).fields.tolist() == [4, 0, 4] * 2
    assert find_encoder(X, [4, 0, 4], True).fields == 5
    with pytest.raises(DataError, match=r"X has 101 columns: give the field of each, fields=\[0, 0, 1, ...\]"):
        encode(np.ones((2, 101)), needs_fields=True)
    for fields, message in (
        ([0, 1], r"fields must be 3 integers, one a column; got int64 \[2\]"),
        ([0, 1, 0.5], "fields must be 3 integers"),
        ([0, 1, -1], "fields must be from 0 to 65535; got -1 to 1"),
        ([0, 1, 65_536], "fields must be from 0 to 65535"),
        (3, "fields=3: give the field of each of the 3 columns"),
    ):
        with pytest.raises(DataError, match=message):
            encode(X, fields)


def frame() -> Any:
    return pd.DataFrame(
        {
            "city": pd.Categorical(["Rome", "Oslo", None]),
            "age": [31.5, np.nan, -2.0],
            "word": ["a", "b=c", "ü"],
            "yes": [True, False, True],
            "label": np.array([5, -7, 2**40]),
        }
    )


def key(text: str) -> int:
    return int(xxhash.xxh64(text.encode()).intdigest())


def test_tables_are_hashed_as_files_are() -> None:
    rows = [
        [("city=Rome", 0, 1), ("word=a", 1, 1), ("yes=true", 2, 1), ("label=5", 3, 1), ("age", 4, 31.5)],
        [("city=Oslo", 0, 1), ("word=b=c", 1, 1), ("yes=false", 2, 1), ("label=-7", 3, 1)],
        [("city=", 0, 1), ("word=ü", 1, 1), ("yes=true", 2, 1), (f"label={2**40}", 3, 1), ("age", 4, -2.0)],
    ]
    table = pa.Table.from_pandas(frame())
    halves = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    ((_, center, scale),) = scales_of(table.to_batches()[0], ["age"], RowLocation("X"))
    for X in (frame(), table, halves, table.to_batches()[0]):
        batch = encode(X)
        for row, features in enumerate(rows):
            part = slice(batch.offsets[row], batch.offsets[row + 1])
            assert batch.keys[part].tolist() == [key(text) for text, _, _ in features]
            assert batch.fields[part].tolist() == [field for _, field, _ in features]
            values = [value if text != "age" else (value - center) / scale for text, _, value in features]
            np.testing.assert_allclose(batch.values[part], values, rtol=1e-6)
    assert find_encoder(frame(), None, True).fields == 5
    with pytest.raises(DataError, match="fields applies to arrays and batches only: each column of a table is a field"):
        encode(frame(), [0] * 5)


def test_later_tables_are_read_as_the_first() -> None:
    """Types that change with the rows, as in pandas, do not change keys; nor do other categories."""
    encoder = find_encoder(frame(), None, False)
    first = encoder.encode(frame(), "Model")
    for row in range(3):
        part = frame().iloc[[row]].reset_index(drop=True)
        part["city"] = part["city"].astype(object)
        part["label"] = part["label"].astype(float)
        assert same(encoder.encode(part, "Model"), first.slice(row, row + 1))
    plain = frame().astype(object)
    plain.loc[2, "city"] = None
    with pytest.warns(UserWarning, match="X has no valid feature names, but the model was fitted with some"):
        assert same(encoder.encode(plain.to_numpy(), "Model"), first), "an array has the columns of the table"


def test_arrays_in_place_of_tables_of_numbers(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(10, 3))
    encoder = find_encoder(pd.DataFrame(X, columns=list("abc")), None, False)
    expected = encoder.encode(pd.DataFrame(X, columns=list("abc")), "Model")
    for other in (X, X.tolist(), sparse.csr_matrix(X)):
        with pytest.warns(UserWarning, match="X has no valid feature names"):
            assert same(encoder.encode(other, "Model"), expected)
    for names, told in (("acb", "they are in another order"), ("abx", "x are new here"), ("ab", "c are missing")):
        with pytest.raises(DataError, match=f"names should match those that were passed during fit: {told}"):
            encoder.encode(pd.DataFrame(X[:, : len(names)], columns=list(names)), "Model")
    encoder = find_encoder(X, None, False)
    with pytest.warns(UserWarning, match="fitted without"):
        assert same(encoder.encode(pd.DataFrame(X, columns=list("abc")), "Model"), encode(X))


def test_batches_stay_as_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys, fields = rng.integers(0, 100, 20).astype(np.uint64), rng.integers(0, 5, 20).astype(np.uint16)
    batch = Batch(keys, fields, np.ones(20, np.float32), np.arange(11) * 2, np.zeros(10, np.float32), np.arange(10))
    assert encode(batch) is batch
    assert find_encoder(batch, None, True).fields == int(fields.max()) + 1
    assert find_encoder(batch, 9, True).fields == 9
    labels = np.ones(10, np.float32)
    given = find_encoder(batch, None, False).encode(batch, "Model", labels)
    assert given.labels is labels and given.keys is batch.keys and given.times is batch.times
    with pytest.raises(DataError, match="X is a Batch, but this Model was fitted on arrays or tables"):
        find_encoder(np.ones((2, 2)), None, False).encode(batch, "Model")
    with pytest.raises(DataError, match="X is a ndarray, but this Model was fitted on batches"):
        find_encoder(batch, None, False).encode(np.ones((2, 2)), "Model")


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), r"X has 1 dimension\(s\): it must have two"),
        (np.ones((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        ([[1.0, np.nan]], "X holds 1 NaN, infinite or too large value"),
        ([[1.0, 1e39]], "X holds 1 NaN, infinite or too large value"),
        (sparse.csr_matrix([[1.0, np.inf]]), "X holds 1 NaN, infinite or too large value"),
        ([["a", "b"]], "X holds <U1 values: it must hold numbers; give text in a table with named columns"),
        ([[1.0, 1j]], "Complex data not supported: X holds complex128 values"),
        (pd.DataFrame({"a": [{"b": 1}]}), "column 'a' is struct<.*int64>"),
        (pd.DataFrame({"a": [1, "x"]}), "X has a column that cannot be used"),
        (pd.DataFrame(index=[1, 2]), "0 feature"),
    ],
)
def test_what_cannot_be_used(X: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        encode(X)


def test_other_columns_than_the_first(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(10, 3))
    model = LRClassifier().fit(X, np.arange(10) % 2)
    for other in (X[:, :2], sparse.csr_matrix(X[:, :2])):
        with pytest.raises(DataError, match="X has 2 features, but LRClassifier is expecting 3 features as input"):
            model.predict(other)

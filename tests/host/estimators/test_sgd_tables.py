"""Tables of other libraries and memory-mapped ones give the bits of the same array in memory."""

import numpy as np
import pytest
from tests.helpers.bare_python import run_bare
from tests.helpers.estimator_tables import classifier, regressor

from bitlane import DataError, SGDRegressor
from bitlane.quantization import row_table

SPARSE = ("csr_matrix", "csc_matrix", "coo_matrix", "csr_array", "csc_array", "coo_array", "lil_array")
PARAMETERS = (
    {},
    {"levels": "optimal"},
    {"sampling": "naive", "fit_intercept": False},
    {"sampling": "full", "bits": 32, "shuffle": False},
    {"learning_rate": "auto", "draws": "epoch", "epochs": 2},
)

pytestmark = pytest.mark.filterwarnings("ignore:1 column.* of X are constant")


@pytest.fixture
def many_pieces(monkeypatch):
    """Pieces of 10 rows, so that the tables of these tests have several."""
    monkeypatch.setattr(row_table, "PIECE", 60)


def table(seed, dtype=np.float64):
    """Mostly zeros, as in sparse tables: X [90, 6], targets [90]."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((90, 6)) < 0.3, rng.integers(-9, 10, (90, 6)), 0).astype(dtype)
    X[0], X[1] = 0, 3
    X[:, 3] = 0  # constant
    return X, X @ rng.normal(size=6) + rng.normal(size=90)


def scipy_sparse(name, X):
    return getattr(pytest.importorskip("scipy.sparse"), name)(X)


def mapped(folder, X):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def all_bits(model):
    """Everything that a training leaves behind."""
    last = model.run_.checkpoint()
    return model.coef_.tolist(), model.intercept_.tolist(), model.run_.loss.tolist(), last.fingerprint


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_sparse_and_memory_mapped_tables_train_to_the_same_bits(seed, tmp_path, many_pieces, parameters):
    X, y = table(seed)
    tables = [scipy_sparse(name, X) for name in SPARSE]
    tables += [mapped(tmp_path, X), mapped(tmp_path, np.asfortranarray(X)), mapped(tmp_path, X[::-1])[::-1]]
    for make, target in ((regressor, y), (classifier, y > 0)):
        settings = {"epochs": 3} | parameters
        expected = all_bits(make(**settings).fit(X, target))
        for other in tables:
            assert all_bits(make(**settings).fit(other, target)) == expected


@pytest.mark.parametrize("dtype", ["u1", "i2", "i8", "f4", ">f8", "?"])
@pytest.mark.parametrize("kind", ["csr_array", "memmap"])
def test_types_of_values(seed, tmp_path, kind, dtype):
    X, y = table(seed, dtype)
    if kind == "csr_array" and dtype == ">f8":
        pytest.skip("scipy stores the byte order of the machine")
    other = mapped(tmp_path, X) if kind == "memmap" else scipy_sparse(kind, X)
    assert all_bits(regressor(epochs=2).fit(other, y)) == all_bits(regressor(epochs=2).fit(X, y))


def test_machine_code_reads_pieces(seed, tmp_path):
    """A table that is large enough for machine code, with the same bits."""
    X = np.random.default_rng(seed).normal(size=(9000, 30)).astype(np.float32)
    X[X < 1] = 0
    y = X[:, 0] + X[:, 1]
    expected = all_bits(regressor(epochs=1, batch_size=1000).fit(X, y))
    for other in (mapped(tmp_path, X), scipy_sparse("csr_array", X)):
        assert all_bits(regressor(epochs=1, batch_size=1000).fit(other, y)) == expected


def test_a_stream_of_sparse_pieces(seed):
    X, y = table(seed)
    dense, sparse = regressor(), regressor()
    for rows in (slice(0, 40), slice(40, 41), slice(41, 90)):
        dense.partial_fit(X[rows], y[rows])
        sparse.partial_fit(scipy_sparse("csc_array", X)[rows], y[rows])
        assert all_bits(sparse) == all_bits(dense)


def test_several_devices_share_a_sparse_table(seed):
    X, y = table(seed)
    settings = {"device": ["emulator", "emulator"], "epochs": 2}
    expected, found = regressor(**settings).fit(X, y), regressor(**settings).fit(scipy_sparse("csr_array", X), y)
    assert all_bits(found) == all_bits(expected)
    assert all_bits(found.partial_fit(scipy_sparse("csr_array", X), y)) == all_bits(expected.partial_fit(X, y))


def test_predictions_of_pieces(seed, tmp_path, many_pieces):
    """Products in another order: they differ by the rounding of float64 at the most."""
    X, y = table(seed)
    labels = np.arange(90) % 3
    model, classes = regressor().fit(X, y), classifier().fit(X, labels)
    largest = np.abs(X).sum(axis=1).max() * max(np.abs(model.coef_).max(), np.abs(classes.coef_).max())
    for other in (scipy_sparse("coo_matrix", X), scipy_sparse("csr_array", X), mapped(tmp_path, X)):
        for found, expected in (
            (model.predict(other), model.predict(X)),
            (classes.decision_function(other), classes.decision_function(X)),
        ):
            assert type(found) is np.ndarray and found.dtype == np.float64 and found.shape == expected.shape
            assert np.abs(found - expected).max() <= 6 * 2.0**-52 * largest
        assert model.score(other, y) == pytest.approx(model.score(X, y), rel=1e-12)
        assert classes.score(other, labels) == pytest.approx(classes.score(X, labels), abs=0.05)
    assert model.predict(scipy_sparse("csr_array", X[:0])).shape == model.predict(mapped(tmp_path, X[:0])).shape == (0,)


@pytest.mark.parametrize("kind", ["csr_array", "memmap"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: np.where(X == 3, np.nan, X), r"X holds \d+ NaN or infinite"),
        (lambda X: X[:1], r"X has 1 sample\(s\): at least 2"),
        (lambda X: X[:, :0], r"X has 0 feature\(s\)"),
        (lambda X: X + 1j, "Complex data not supported: X has complex128"),
        (lambda X: np.ones_like(X), "every column of X is constant"),
        (lambda X: X[:-1], "X has 89 rows, but y has 90 values"),
    ],
)
def test_tables_that_cannot_be_used(seed, tmp_path, kind, change, message):
    X, y = table(seed)
    X = change(X)
    if kind == "memmap" and not X.size:
        pytest.skip("numpy maps no empty files")
    other = mapped(tmp_path, X) if kind == "memmap" else scipy_sparse(kind, X)
    with pytest.raises(DataError, match=message) as caught:
        regressor().fit(other, y[: len(X)] if len(X) == 1 else y)
    assert "\n" not in str(caught.value)


def test_memory_mapped_tables_are_never_read_at_once(seed, tmp_path, monkeypatch):
    """Neither fit nor predict asks for an array of more than a piece of rows."""
    X = np.random.default_rng(seed).normal(size=(4096, 256)).astype(np.float32)
    y = X[:, 0]
    largest = []
    read = row_table.RowTable.__array__

    def watched(self, dtype=None, copy=None):
        largest.append(len(self))
        return read(self, dtype, copy)

    monkeypatch.setattr(row_table.RowTable, "__array__", watched)
    monkeypatch.setattr(row_table, "PIECE", 1 << 16)
    model = regressor(epochs=1, draws=1, sampling="nearest").fit(mapped(tmp_path, X), y)
    model.predict(mapped(tmp_path, X))
    assert max(largest) <= 1024


def test_arrow_tables(seed):
    """The type that holds all columns; names as those of pandas; chunks of any length."""
    pa = pytest.importorskip("pyarrow")
    X, y = table(seed)
    names = list("abcdef")
    columns = [*X.T[:3].astype(np.int8), *X.T[3:].astype(np.float32)]
    batch = pa.record_batch(columns, names=names)
    pieces = pa.concat_tables([pa.table(columns, names=names).slice(0, 31), pa.table(columns, names=names).slice(31)])
    expected = regressor().fit(X.astype(np.float32), y)
    for arrow in (batch, pa.table(columns, names=names), pieces):
        model = regressor().fit(arrow, pa.chunked_array([y[:50], y[50:]]))
        assert all_bits(model) == all_bits(expected) and model.feature_names_in_.tolist() == names
        assert model.predict(arrow).tolist() == expected.predict(X.astype(np.float32)).tolist()
    with pytest.raises(DataError, match="names should match those that were passed during fit: they are in another"):
        model.predict(batch.select(names[::-1]))
    flags = pa.table({"p": X[:, 0] > 0, "q": X[:, 1] > 0})
    assert all_bits(regressor().fit(flags, y)) == all_bits(regressor().fit(X[:, :2] > 0, y))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.0, None, 2.0, None], r"column 'b' of X has 2 null\(s\): fill them, or drop these rows"),
        ([1.0, np.nan, 2.0, 3.0], "X holds 1 NaN"),
        (["1", "2", "3", "4"], "column 'b' of X holds string values: it must contain numbers"),
        ([[1], [2], [3], [4]], "column 'b' of X holds list<item: int64> values"),
    ],
)
def test_arrow_tables_that_cannot_be_used(column, message):
    pa = pytest.importorskip("pyarrow")
    for arrow in (pa.table({"a": [1, 2, 3, 4], "b": column}), pa.RecordBatch.from_pydict({"a": range(4), "b": column})):
        with pytest.raises(DataError, match=message) as caught:
            regressor(batch_size=2).fit(arrow, np.arange(4))
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"X has 0 feature\(s\)"):
        regressor().fit(pa.table({"a": [1, 2]}).select([]), [1, 2])


def test_pandas_tables(seed):
    pandas = pytest.importorskip("pandas")
    X, y = table(seed)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    mixed = frame.astype({"a": "int64", "b": "Int8", "c": "float32"})
    expected = all_bits(regressor().fit(X, y))
    assert all_bits(regressor().fit(frame, pandas.Series(y))) == expected
    assert all_bits(regressor().fit(mixed, y)) == expected
    mixed.loc[3, "b"] = pandas.NA
    with pytest.raises(DataError, match=r"X holds 1 (NaN|missing value\(s\) in column\(s\) 'b')"):
        regressor().fit(mixed, y)


def test_numpy_alone_is_enough():
    """Neither scipy nor pyarrow is imported for arrays, and memory-mapped files need numpy only."""
    code = """
import tempfile, numpy as np
from bitlane import SGDRegressor
X = np.arange(60.0).reshape(20, 3) ** 2
with tempfile.TemporaryDirectory() as folder:
    np.save(folder + "/X.npy", X)
    mapped = np.load(folder + "/X.npy", mmap_mode="r")
    models = [SGDRegressor(device="emulator", random_state=0).partial_fit(table, X[:, 0]) for table in (X, mapped)]
print(models[0].coef_.tolist() == models[1].coef_.tolist())
"""
    assert run_bare(code).split() == ["True"]


@pytest.mark.parametrize(
    "parameters",
    [{}, {"sampling": "naive"}, {"bits": "mqgrad"}, {"levels": "optimal"}, {"device": ["cpu", "cpu"]}],
    ids=["double", "naive", "policy", "optimal", "shards"],
)
def test_a_large_array_is_read_in_the_order_of_training_without_a_copy(seed, monkeypatch, parameters):
    """A small one is copied, as it is read again and again; the bits are the same."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 5)).astype(rng.choice(["f4", "f8"]))
    y = X @ np.arange(5.0) + rng.normal(size=500)
    model = SGDRegressor(epochs=3, random_state=seed, **{"device": "cpu"} | parameters)
    expected = model.fit(X, y).coef_.tolist()
    read = []
    monkeypatch.setattr(row_table, "COPIED", 0)
    made = row_table.RowTable.__array__
    monkeypatch.setattr(
        row_table.RowTable, "__array__", lambda self, *rest, **more: read.append(1) or made(self, *rest)
    )
    assert model.fit(X, y).coef_.tolist() == expected and read

"""The files of the speed study, read by plain Python, scipy and pyarrow."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.sparse_rows import random_rows, rows_of

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane_studies.sparse.rows import divide, load_rows


@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("suffix", ["libsvm", "ffm", "vw"])
def test_text_has_every_feature_bit_for_bit(suffix, ones, seed, tmp_path):
    part = divide(random_rows(np.random.default_rng(seed), ones=ones), tmp_path).train
    found = []
    for line in part.path(suffix).read_text().splitlines():
        label, *tokens = line.split()
        if suffix == "vw":
            assert tokens.pop(0) == "|"
            label = {"-1": "0", "1": "1"}[label]
            tokens = [token if ":" in token else token + ":1" for token in tokens]
        features = [token.split(":") for token in tokens]
        found.append((float(label), [(*map(int, names), float(np.float32(value))) for *names, value in features]))
    assert found == rows_of(part.rows, suffix == "ffm")


@pytest.mark.parametrize("ones", [False, True])
def test_arrow_has_every_feature(ones, seed, tmp_path):
    ipc = pytest.importorskip("pyarrow.ipc")
    part = divide(random_rows(np.random.default_rng(seed), ones=ones), tmp_path).train
    with ipc.open_file(part.path("arrow")) as file:
        table = file.read_all()
    columns = table.to_pydict()
    assert ("values" in columns) == (not ones)
    values = columns.get("values", [[1.0] * len(keys) for keys in columns["keys"]])
    rows = zip(columns["label"], columns["fields"], columns["keys"], values, strict=True)
    assert [(float(label), list(zip(*features, strict=True))) for label, *features in rows] == rows_of(part.rows, True)


def test_the_matrix_has_every_feature(seed, tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    part = divide(random_rows(np.random.default_rng(seed)), tmp_path).train
    with np.load(part.path("csr.npz")) as arrays:
        found = sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), (part.rows.rows, part.keys))
        assert np.array_equal(arrays["labels"], part.rows.labels)
    expected = np.zeros(found.shape)
    for row, (_, features) in enumerate(rows_of(part.rows, False)):
        for key, value in features:
            expected[row, key] += value
    assert np.allclose(found.toarray(), expected)


def test_rows_are_divided_in_their_order(seed, tmp_path):
    rows = random_rows(np.random.default_rng(seed), 100)
    parts = divide(rows, tmp_path)
    assert [each.rows.rows for each in (parts.train, parts.test, parts.fit, parts.check)] == [80, 20, 64, 16]
    together = Batch.concatenate([parts.fit.rows, parts.check.rows, parts.test.rows])
    known, numbers = np.unique(rows.keys, return_inverse=True)
    assert np.array_equal(together.keys, numbers)
    assert np.array_equal(together.values, rows.values)
    assert parts.train.keys == len(known)
    assert parts.train.fields == int(rows.fields.max()) + 1


def test_a_file_is_written_once(seed, tmp_path):
    part = divide(random_rows(np.random.default_rng(seed)), tmp_path).train
    before = part.path("vw").stat()
    assert part.path("vw").stat().st_mtime_ns == before.st_mtime_ns
    assert sorted(each.name for each in tmp_path.iterdir()) == ["train.vw"]


def test_one_class_is_refused(seed, tmp_path):
    rows = random_rows(np.random.default_rng(seed))
    rows.labels[:] = 1
    with pytest.raises(DataError, match=r"^the split 'train' has 40 rows of one class; take more rows$"):
        divide(rows, tmp_path)


def test_generated_rows_are_the_first_ones():
    pytest.importorskip("numba")
    few, more = load_rows("generated", 30), load_rows("generated", 60)
    assert few.rows == 30
    assert np.array_equal(few.keys, more.keys[: few.nnz])


def test_the_first_rows_of_a_data_set(data_dir):
    with np.load(data_dir / "census32k.npz") as arrays:
        rows = load_rows("census32k", 10_000)
        assert rows.rows == 10_000
        assert np.array_equal(rows.labels, arrays["labels"][:10_000])
        assert np.array_equal(rows.keys, arrays["keys"][: rows.nnz])
    assert load_rows("census32k", None).rows == 30_162

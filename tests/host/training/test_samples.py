"""Encoded samples: numpy and machine code give the bits of the textbook, for any type, pieces and threads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.helpers import encode_textbook as textbook
from tests.helpers.bare_python import run_bare

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import unpack_base, unpack_draws
from bitlane.contract.precision import Precision
from bitlane.quantization.scaling import fit_scaling, intercept_value
from bitlane.training.samples import SampleEncoder

ENCODE = """
import numpy as np
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.samples import SampleEncoder
X, y = np.arange(60.0).reshape(12, 5) ** 2, np.ones((12, 1))
print(SampleEncoder(X, y, fit_scaling(X, y), Precision(4), 1).draws(Geometry.of(Precision(4), 5, 12, 3), 0, 0).tolist())
"""
DTYPES = ("u1", "i2", "f4", "f8", "i8", ">f4", "f2", "?")  # machine code reads the first four where they are


class Case:
    """A random table with its scaling, a precision, and the shape of a launch over some of its rows."""

    def __init__(self, rng, rows=120, features=140):
        rows, n = int(rng.integers(2, rows)), int(rng.integers(1, features))
        X = (rng.normal(size=(rows, n)) * rng.choice([1, 50]) + rng.choice([0, 100])).clip(0, 255)
        X = X.astype(rng.choice(DTYPES))
        if rng.random() < 0.4:
            X[:, rng.random(n) < 0.4] = 1  # constant columns
        X[:2, 0] = [0, 1]
        if rng.random() < 0.2:
            X = np.asfortranarray(X)
        sampling = str(rng.choice(["double", "double", "nearest", "naive", "full"]))
        self.precision = precision = Precision(32 if sampling == "full" else 2 * int(rng.integers(1, 17)), sampling)
        self.X, self.y = X, rng.normal(size=(rows, int(rng.integers(1, 4))))
        one = float(rng.choice([0.0, intercept_value(precision)]))
        centered = bool(rng.random() < 0.7)
        self.scaling = fit_scaling(X, self.y, centered, precision.limit, margins=True, intercept_value=one)
        self.first, self.seed = int(rng.integers(rows)), int(rng.integers(1 << 40))
        self.number = int(rng.integers(100))
        batch, rows_per_beat = int(rng.integers(1, 40)), int(rng.choice([1, 2, 4, 8]))
        stored = self.scaling.stored_features
        self.geometry = Geometry.of(precision, stored, rows - self.first, batch, rows_per_beat, self.y.shape[1])

    def encoder(self, threads=None):
        return SampleEncoder(self.X, self.y, self.scaling, self.precision, self.seed, threads=threads)

    def words(self, encoder):
        base = encoder.base(self.geometry, self.first, self.number)
        draws = encoder.draws(self.geometry, self.first, self.number) if self.precision.draws else []
        return np.concatenate([base, draws]).tolist()

    def in_textbook(self, row, feature):
        """The base code and the draw code of one stored feature."""
        precision, scaling = self.precision, self.scaling
        word = None
        if precision.sampling in ("double", "naive"):
            word = textbook.draw_word(textbook.set_seed(self.seed, self.number), row, feature)
        if feature < len(scaling.active):
            column = scaling.active[feature]
            found = scaling.center[column], scaling.scale[column]
            place = textbook.position(float(self.X[row, column]), *map(float, found), precision.base_bits)
        else:
            place = round(2.0 ** (precision.base_bits + 19) * (1 + scaling.intercept_value))
        return textbook.base_and_draws(place, precision.base_bits, word, precision.sampling == "naive")


def in_numpy(monkeypatch):
    monkeypatch.setattr("bitlane.training.samples.numba", lambda: None)


@pytest.fixture(autouse=True)
def machine_code_for_small_tables(monkeypatch):
    monkeypatch.setattr("bitlane.training.samples.SMALL", 0)


def test_numpy_gives_the_bits_of_the_textbook(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    in_numpy(monkeypatch)
    for _ in range(60):
        case = Case(rng, 20, 50)
        encoder, geometry = case.encoder(), case.geometry
        codes, labels = unpack_base(encoder.base(geometry, case.first, case.number), geometry)
        assert np.array_equal(labels, case.scaling.labels(case.y[case.first :]))
        draws = np.zeros(codes.shape, np.uint8)
        if case.precision.draws:
            draws = unpack_draws(encoder.draws(geometry, case.first, case.number), geometry)
        expected = [
            [case.in_textbook(row, feature) for feature in range(geometry.features)]
            for row in range(case.first, len(case.X))
        ]
        assert np.stack([codes, draws], axis=2).tolist() == np.array(expected).tolist()


def test_machine_code_gives_the_bits_of_numpy(seed, monkeypatch):
    pytest.importorskip("numba")
    rng = np.random.default_rng(seed)
    cases = [Case(rng) for _ in range(300)]
    found = []
    for case in cases:
        monkeypatch.setattr("bitlane.quantization.encode.PIECE", int(rng.integers(1, 4000)))
        found.append(case.words(case.encoder(threads=int(rng.integers(1, 3)))))
    in_numpy(monkeypatch)
    for case, words in zip(cases, found, strict=True):
        monkeypatch.setattr("bitlane.training.samples.ENCODE_VALUES", int(rng.integers(1, 4000)))
        assert case.words(case.encoder()) == words, (case.precision, case.geometry, case.X.dtype)


def test_a_table_on_disk_is_read_where_it_is(seed, tmp_path):
    rng = np.random.default_rng(seed)
    case = Case(rng)
    np.save(tmp_path / "X.npy", case.X)
    expected = case.words(case.encoder())
    case.X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert case.words(case.encoder()) == expected


def test_launches_of_parts_have_the_bits_of_the_whole(seed):
    """The word of a draw depends on the number of the row in the data set, not on that in the launch."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(90, 5)), np.zeros((90, 1))
    precision, cut = Precision(4), int(rng.integers(1, 89))
    encoder = SampleEncoder(X, y, fit_scaling(X, y), precision, seed)

    def drawn(first, rows):
        geometry = Geometry.of(precision, 5, rows, 7)
        return unpack_draws(encoder.draws(geometry, first, 2), geometry).tolist()

    assert drawn(0, cut) + drawn(cut, 90 - cut) == drawn(0, 90)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_draws_of_many_sets_have_the_mean_of_the_table(seed, bits):
    """Against float64: the mean of both draws over sets, and of their product, which is the square of the value."""
    rng, sets = np.random.default_rng(seed), 4000
    X, y = rng.normal(3, 2, (6, 40)).astype(np.float32), np.zeros((6, 1))
    precision = Precision(bits)
    scaling = fit_scaling(X, y)
    geometry = Geometry.of(precision, 40, 6, 6)
    encoder, width = SampleEncoder(X, y, scaling, precision, seed), 2.0 ** (1 - precision.base_bits)
    lower = unpack_base(encoder.base(geometry, 0), geometry)[0] * width - 1.0
    drawn = np.stack([unpack_draws(encoder.draws(geometry, 0, k), geometry) for k in range(sets)])
    first, second = (lower + width * (drawn >> shift & 1) for shift in (1, 0))
    exact = (X.astype(np.float64) - scaling.center) / scaling.scale
    error = 6 * width / 2 / np.sqrt(sets)
    assert np.abs(first.mean(axis=0) - exact).max() < error and np.abs(second.mean(axis=0) - exact).max() < error
    away = ((first - exact) * (second - exact)).mean(axis=0)
    assert np.abs(away).max() < error * width / 2
    assert abs(away.mean()) < error * width / 2 / np.sqrt(240)


def test_small_tables_do_not_import_numba():
    shown = subprocess.run(
        [sys.executable, "-c", f"{ENCODE}\nimport sys; print('numba' in sys.modules)"], capture_output=True, text=True
    )
    assert shown.stdout.splitlines()[-1] == "False", shown.stderr


def test_an_encoder_needs_numpy_alone():
    """As on a board; and numpy alone gives the bits that numba gives here."""
    bare = run_bare(ENCODE)
    X, y = np.arange(60.0).reshape(12, 5) ** 2, np.ones((12, 1))
    encoder = SampleEncoder(X, y, fit_scaling(X, y), Precision(4), 1)
    assert bare.strip() == str(encoder.draws(Geometry.of(Precision(4), 5, 12, 3), 0, 0).tolist())

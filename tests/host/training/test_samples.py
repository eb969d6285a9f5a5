"""Encoded samples: numpy and machine code give the bits of the textbook, for any type, pieces and threads."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from tests.helpers.bare_python import run_bare
from tests.helpers.encode_cases import Case

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import unpack_base, unpack_draws
from bitlane.contract.precision import Precision
from bitlane.quantization.c_kernels import Kernels, c_kernels
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.samples import SampleEncoder

ENCODE = """
import numpy as np
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.samples import SampleEncoder
X, y = np.arange(60.0).reshape(12, 5) ** 2, np.ones((12, 1))
encoder = SampleEncoder(X, y, fit_scaling(X, y), Precision(4), 1)
print(encoder.draws(Geometry.of(Precision(4), 5, 12, 3), 0, [0])[0].tolist())
"""


@pytest.fixture
def in_c():
    """The kernels in C."""
    found = c_kernels()
    if found is None:
        pytest.skip("this machine has no C compiler")
    return found


@pytest.fixture(autouse=True)
def machine_code_for_small_tables(monkeypatch):
    monkeypatch.setattr("bitlane.training.samples.SMALL", 0)


def test_numpy_gives_the_bits_of_the_textbook(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        case = Case(rng, 20, 50)
        encoder, geometry = case.encoder(None), case.geometry
        codes, labels = unpack_base(encoder.base(geometry, case.first, case.number), geometry)
        assert np.array_equal(labels, case.scaling.labels(case.y[case.first :]))
        draws = np.zeros(codes.shape, np.uint8)
        if case.precision.draws:
            draws = unpack_draws(encoder.draws(geometry, case.first, case.numbers)[-1], geometry)
        expected = [
            [case.in_textbook(row, feature) for feature in range(geometry.features)]
            for row in range(case.first, len(case.X))
        ]
        assert np.stack([codes, draws], axis=2).tolist() == np.array(expected).tolist()


def test_machine_code_gives_the_bits_of_numpy(seed, monkeypatch, in_c):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        case = Case(rng)
        monkeypatch.setattr("bitlane.training.samples.ENCODE_VALUES", int(rng.integers(1, 4000)))
        expected = case.words(None)
        monkeypatch.setattr("bitlane.quantization.encode.PIECE", int(rng.integers(1, 4000)))
        found = case.words(in_c, threads=int(rng.integers(1, 3)))
        assert found == expected, (case.precision, case.geometry, case.X.dtype)


def test_a_table_on_disk_is_read_where_it_is(seed, tmp_path, in_c):
    case = Case(np.random.default_rng(seed))
    expected = case.words(None)
    np.save(tmp_path / "X.npy", case.X)
    case.X = np.load(tmp_path / "X.npy", mmap_mode="r")
    for kernels in (None, in_c):
        assert case.words(kernels) == expected


def test_c_comes_before_numpy(seed, monkeypatch):
    X, y = np.eye(3), np.ones((3, 1))
    encoder = partial(SampleEncoder, X, y, fit_scaling(X, y), Precision(4), seed)
    in_c = Kernels(print, print)
    monkeypatch.setattr("bitlane.training.samples.c_kernels", lambda: in_c)
    assert encoder().kernels is in_c
    monkeypatch.setattr("bitlane.training.samples.c_kernels", lambda: None)
    assert encoder().kernels is None


def test_launches_of_parts_have_the_bits_of_the_whole(seed):
    """The word of a draw depends on the number of the row in the data set, not on that in the launch."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(90, 5)), np.zeros((90, 1))
    precision, cut = Precision(4), int(rng.integers(1, 89))
    encoder = SampleEncoder(X, y, fit_scaling(X, y), precision, seed)

    def drawn(first, rows):
        geometry = Geometry.of(precision, 5, rows, 7)
        return unpack_draws(encoder.draws(geometry, first, [2])[0], geometry).tolist()

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
    drawn = np.stack([unpack_draws(each, geometry) for each in encoder.draws(geometry, 0, range(sets))])
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
    assert bare.strip() == str(encoder.draws(Geometry.of(Precision(4), 5, 12, 3), 0, [0])[0].tolist())

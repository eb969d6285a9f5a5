"""Gram matrices against int64 numpy, with the vector instructions that this machine has."""

import os
import signal
import time

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.helpers.compilers import has_compiler

from bitlane.encoded.coded_rows import Codes
from bitlane.solvers import gram
from bitlane.solvers.gram import CONSTANTS, FLOAT32_ROWS, SLICE, SOURCE, GramKernels, GramSum
from bitlane.support.c_library import BYTE_PRODUCTS, VECTORS, cpu_flags, load_library

TABLES = 60  # with each of the instruction sets, of which most machines have five


def instruction_sets() -> list[list[str] | None]:
    """Options of all instructions of this machine that `gram.c` distinguishes; None stands for numpy."""
    if not has_compiler():
        return [None]
    found = [cpu_flags(BYTE_PRODUCTS), cpu_flags(), [], None]
    if "-mavx512f" in cpu_flags():
        found.append(["-mavx2"])
    if "-mavx512vnni" in cpu_flags(BYTE_PRODUCTS) and cpu_flags({k: v[1:] for k, v in BYTE_PRODUCTS.items()}):
        found.append(["-mavx2", "-mavxvnni"])
    return [flags for i, flags in enumerate(found) if flags not in found[:i]]


def use(flags: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = None if flags is None else GramKernels(load_library([SOURCE], CONSTANTS, vectors=flags))
    monkeypatch.setattr(gram, "gram_kernels", lambda: kernels)


@pytest.fixture(params=instruction_sets(), ids=lambda flags: "numpy" if flags is None else "".join(flags) or "plain")
def instructions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use(request.param, monkeypatch)


def check(total: GramSum, codes: Codes) -> None:
    wide = codes.astype(np.int64)
    expected: NDArray[np.int64] = wide.T @ wide
    assert (total.matrix() == expected).all()
    assert (total.sums() == wide.sum(axis=0)).all()
    assert total.rows == len(codes)


@pytest.mark.usefixtures("instructions")
def test_random_tables_have_exact_sums(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(TABLES):
        rows, columns = int(random.integers(0, 3 * SLICE)), int(random.integers(1, 120))
        top = 1 << int(random.integers(1, 8))
        codes = random.integers(-top, top, (rows, columns)).astype(np.int8)
        total = GramSum(columns, threads=int(random.integers(1, 4)))
        cut, split = int(random.integers(0, rows + 1)), int(random.integers(0, columns + 1))
        for part in (codes[:cut], codes[cut:]):
            total.add(part[:, :split], part[:, split:])
        check(total, codes)


@pytest.mark.usefixtures("instructions")
@pytest.mark.parametrize("extreme", [-128, 127])
def test_extreme_codes_do_not_overflow(extreme: int) -> None:
    codes = np.full((150_000, 5), extreme, np.int8)
    codes[:, 1] = -128
    codes[:, 2] = 127
    total = GramSum(5)
    total.add(codes)
    pairs = np.array([extreme, -128, 127, extreme, extreme], np.int64)
    assert (total.matrix() == len(codes) * np.outer(pairs, pairs)).all()
    assert (total.sums() == len(codes) * pairs).all()


def test_a_slice_stays_below_the_bounds_of_32_bits_and_of_float32() -> None:
    assert SLICE * 255 * 128 < 2**31
    assert FLOAT32_ROWS * 128 * 128 <= 2**24


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    codes = np.ones((2 * SLICE, 60), np.int8)
    total = GramSum(60, threads=2)
    total.add(codes)
    child = os.fork()
    if not child:
        total.add(codes)
        os._exit(0 if (total.matrix() == 4 * SLICE).all() else 1)
    deadline = time.monotonic() + 30
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)


def test_without_a_compiler_numpy_takes_over(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    gram.gram_kernels.cache_clear()
    try:
        assert gram.gram_kernels() is None
    finally:
        gram.gram_kernels.cache_clear()
    assert "computed by numpy" in caplog.text


def test_an_old_compiler_has_the_other_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_compiler():
        pytest.skip("this machine has no C compiler")
    monkeypatch.setattr(
        gram, "cpu_flags", lambda vectors=VECTORS: ["-mno-such-option"] if vectors is BYTE_PRODUCTS else []
    )
    gram.gram_kernels.cache_clear()
    try:
        assert gram.gram_kernels() is not None
    finally:
        gram.gram_kernels.cache_clear()

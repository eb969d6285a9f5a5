"""Instructions that compiled loops use, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from bitlane.support.instructions import WORDS, equal_words  # noqa: E402


@numba.njit
def _masks(array, words, out):
    for at in range(len(out)):
        out[at] = equal_words(array, at, words[at])


def test_the_bits_of_equal_words_are_numpys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    array = rng.choice(rng.integers(0, 2**64, 5, dtype=np.uint64), 200)  # each value many times
    out = np.zeros(len(array) - WORDS + 1, np.uint64)
    words = rng.choice(array, len(out))
    _masks(array, words, out)
    expected = [
        int(sum(1 << i for i in np.flatnonzero(array[at : at + WORDS] == word))) for at, word in enumerate(words)
    ]
    assert out.tolist() == expected


def test_other_arrays_are_refused() -> None:
    with pytest.raises(TypeError, match="contiguous array of uint64"):
        _masks(np.zeros(32, np.float32), np.zeros(1, np.uint64), np.zeros(1, np.uint64))

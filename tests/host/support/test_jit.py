"""Loops with and without numba."""

import numpy as np

from bitlane.support import jit


@jit.compiled
def _running(values, out, factor):
    """Write the running sums times the factor; return the last one."""
    total = 0.0
    for i in range(len(values)):
        total += values[i] * factor
        out[i] = total
    return total


def test_a_loop_writes_into_its_arrays(seed, loops):
    values = np.random.default_rng(seed).normal(size=100)
    out, given = np.empty(100), values.copy()
    assert _running(values, out, 3.0) == out[-1]
    assert np.array_equal(out, np.cumsum(3.0 * given)) and np.array_equal(values, given)


def test_a_loop_keeps_its_name():
    assert _running.__name__ == "_running" and "running sums" in _running.__doc__


def test_a_missing_cache_folder_is_not_an_error(monkeypatch):
    class Numba:
        @staticmethod
        def njit(cache=False):
            if cache:
                raise RuntimeError("cannot cache function: no locator available")
            return lambda loop: loop

    monkeypatch.setattr(jit, "numba", lambda: Numba)
    out = np.empty(3)
    assert jit.compiled(_running.__wrapped__)(np.ones(3), out, 2.0) == 6.0


def test_numba_is_not_needed(monkeypatch):
    jit.numba.cache_clear()

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(jit, "import_module", missing)
    assert jit.numba() is None
    jit.numba.cache_clear()

"""The time of a solver, from parts of a table, against a clock that a test moves."""

import pytest

from bitlane import LinearRegressor
from bitlane.planning import solver_time

SOLUTION = LinearRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0]).solution_


@pytest.fixture
def fitted(monkeypatch):
    """Return a maker of fits that take a time for their rows, and of the rows of all calls."""

    def make(start, of_row):
        clock, calls = [0.0], []
        monkeypatch.setattr(solver_time, "perf_counter", lambda: clock[0])

        def fit(rows):
            clock[0] += start + of_row * rows + (0.5 if not calls else 0.0)  # the first call compiles
            calls.append(rows)
            return SOLUTION

        return fit, calls

    return make


@pytest.mark.parametrize(("start", "of_row"), [(0.0, 1e-6), (0.3, 1e-7), (0.2, 0.0)])
def test_what_all_rows_need_and_what_each_adds(start, of_row, fitted):
    fit, calls = fitted(start, of_row)
    found = solver_time.measure_solver(fit, 10_000_000, 32)
    assert found.seconds == pytest.approx(start + of_row * 10_000_000)
    assert sorted(set(calls)) == [131_072, 262_144] and found.measured_rows == 262_144
    assert found.bytes_read == SOLUTION.bytes_read * 10_000_000 // 262_144


def test_a_small_table_is_measured_as_a_whole(fitted):
    fit, calls = fitted(0.1, 1e-5)
    found = solver_time.measure_solver(fit, 300, 32)
    assert found.seconds == pytest.approx(0.103) and set(calls) == {300}


def test_a_slow_solver_is_measured_on_fewer_rows(fitted):
    fit, calls = fitted(0.0, 1e-4)
    found = solver_time.measure_solver(fit, 1_000_000, 32)
    assert calls == [131_072] and found.measured_rows == 131_072
    assert found.seconds == pytest.approx(100, rel=0.05)

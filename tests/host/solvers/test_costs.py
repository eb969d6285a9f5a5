"""The rates of a machine: from times of known rates, kept in the cache, measured anew where they are implausible."""

import json

import pytest

from bitlane.solvers import costs
from bitlane.solvers.costs import Rate, gram_rates
from bitlane.support.cache import cache_folder

FLOATS, CODES = Rate(1e-3, 1e-9, 1e-11), Rate(2e-3, 4e-9, 2e-12)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Take times by known rates; return the shapes that were measured, and a list of what the next times have more."""
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path))
    calls, noise = [], []

    def seconds(work, table):
        calls.append(table.shape)
        rate = FLOATS if work is costs._float_gram else CODES
        return rate.seconds(*table.shape) + (noise.pop() if noise else 0.0)

    monkeypatch.setattr(costs, "_seconds", seconds)
    gram_rates.cache_clear()
    yield calls, noise
    gram_rates.cache_clear()


def close(found, expected):
    return (found.value, found.product) == pytest.approx((expected.value, expected.product), rel=0.05)


def test_rates_are_those_of_the_least_times(measured):
    calls, noise = measured
    noise.extend([0.0, 5.0, 0.0, 3.0, 9.0, 0.0, 0.0])
    floats, codes = gram_rates()
    assert close(floats, FLOATS) and close(codes, CODES)
    assert len(calls) == 6 * costs.ROUNDS
    gram_rates.cache_clear()
    assert gram_rates() == (floats, codes) and len(calls) == 6 * costs.ROUNDS  # from the file


def test_products_that_take_no_time_are_measured_again(measured):
    calls, noise = measured
    noise.extend([0.0, 9.0, 0.0] * 2 * costs.ROUNDS)  # narrow tables seem slower than wide ones
    floats, codes = gram_rates()
    assert len(calls) == 2 * 6 * costs.ROUNDS
    assert close(floats, FLOATS) and close(codes, CODES)


@pytest.mark.parametrize("text", ["", "{}", '{"machine": "another"}', "[1, 2]"])
def test_a_damaged_file_is_measured_anew(text, measured):
    calls, _ = measured
    path = cache_folder() / "rates.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    gram_rates()
    assert calls and json.loads(path.read_text())["floats"]["product"] > 0

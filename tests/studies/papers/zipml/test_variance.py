"""The variances of the gradient equal closed forms; the verdict."""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.levels_oracle import cost_of

from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.zipml.variance import judge, variances


def measured(seed, bits):
    rng = np.random.default_rng(seed)
    values, labels = rng.uniform(-1, 1, (30, 5)), rng.normal(size=30)
    models = np.array([np.zeros(5), *rng.normal(size=(2, 5))])
    return values, labels, models, variances(values, labels, models, bits, rng)


@pytest.mark.parametrize("bits", [2, 6])
def test_variances_are_those_of_independent_draws(seed, bits):
    """With V = Var(Q - a) the variance is sum V (r^2 + V.x^2) + |a|^2 V.x^2, mean over rows (section 2.3)."""
    values, labels, models, found = measured(seed, bits)
    levels = np.linspace(-1, 1, 2 ** (bits - 2) + 1)
    spread = np.array([[cost_of(levels, np.array([v])) for v in row] for row in values])
    assert found.draw == pytest.approx(spread.sum(axis=1).mean(), rel=0.05)
    for k, model in enumerate(models):
        residual, noise = values @ model - labels, spread @ model**2
        expected = np.mean(spread.sum(axis=1) * (residual**2 + noise) + np.sum(values**2, axis=1) * noise)
        assert found.gradient[k] == pytest.approx(expected, rel=0.15)
        assert found.averaged[k] < found.gradient[k]
    assert found.full == pytest.approx(
        [np.mean(np.sum(((values @ m - labels)[:, None] * values) ** 2, axis=1)) for m in models]
    )


def test_the_lemma_as_printed_has_no_constant_at_a_model_of_zero(seed):
    *_, found = measured(seed, 4)
    assert found.literal[0] == 0 < found.gradient[0]
    claim = judge([found])
    assert claim.verdict is ClaimVerdict.PARTLY and "as printed" in claim.reason


def test_verdicts(seed):
    *_, found = measured(seed, 4)
    good = replace(found, gradient=np.array([0.5, 1.0, 1.0]), bound=np.ones(3), literal=np.ones(3))
    assert judge([good, good]).verdict is ClaimVerdict.HELD
    assert judge([good, replace(good, gradient=np.array([0.5, 1.0, 1.2]))]).verdict is ClaimVerdict.FAILED
    assert judge([good, replace(good, draw=2 * good.draw_bound)]).verdict is ClaimVerdict.FAILED

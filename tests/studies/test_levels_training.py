"""The study of optimal levels in training: losses, learning rate, verdicts and tables."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.evaluation.compare import ComparisonData
from bitlane.evaluation.metrics import constant_loss, least_loss
from bitlane_studies import levels_training as module
from bitlane_studies.levels_training import (
    FULL,
    METHODS,
    Final,
    LevelsResult,
    final_losses,
    measured,
    text,
    tuned_rate,
    verdict,
)


def data(seed: int) -> ComparisonData:
    rng = np.random.default_rng(seed)
    X = rng.lognormal(size=(400, 4))
    return ComparisonData(X, X @ rng.normal(size=4) + rng.normal(size=400))


def test_losses_are_those_of_the_final_models(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS", 6)
    some = data(seed)
    constant, least = constant_loss(some.y), least_loss(some.X, some.y)
    for method in (FULL, ("uniform", 3), ("optimal", 5)):
        true, estimate = final_losses(some, method, 1e-7, seed)
        assert true == pytest.approx(constant, rel=1e-3)  # the model hardly changes
        assert estimate == pytest.approx(constant, rel=0.1)
    assert least <= final_losses(some, FULL, 0.1, seed)[0] < constant


def test_the_learning_rate_is_the_best_for_uniform_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    some, asked = data(0), []

    def losses(_: ComparisonData, method: module.Method, rate: float, seed: int) -> tuple[float, float]:
        asked.append((method, rate, seed))
        return abs(np.log(rate / rates[2])), 0.0

    rates = module.suggest_learning_rate(some.X, module.BATCH) / 2.0 ** np.arange(module.HALVINGS + 1)
    monkeypatch.setattr(module, "final_losses", losses)
    assert tuned_rate(some, lambda: None) == rates[2]
    assert asked == [(("uniform", 4), rate, module.TUNING_SEED) for rate in rates]
    assert module.TUNING_SEED not in module.SEEDS


def test_verdicts() -> None:
    def final(*losses: float) -> Final:
        return Final(np.array(losses), np.zeros(3))

    assert verdict(final(1.0, 2.0, 3.0), final(1.1, 2.11, 3.12)) == "lower"
    assert verdict(final(1.1, 2.11, 3.12), final(1.0, 2.0, 3.0)) == "higher"
    assert verdict(final(1.0, 2.0, 3.0), final(1.1, 1.8, 3.2)) == "alike"
    assert verdict(final(1.0, 2.0, 3.0), final(1.0, 2.0, 3.0)) == "alike"


def test_tables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EPOCHS", 3)
    monkeypatch.setattr(module, "SEEDS", (0, 1))
    monkeypatch.setattr(module, "HALVINGS", 1)
    done = []
    found = measured("some", data(seed), lambda: done.append(1))
    assert isinstance(found, LevelsResult) and list(found.finals) == list(METHODS)
    assert len(done) == 2 + 2 * (1 + len(METHODS))
    assert all(final.true.shape == final.estimate.shape == (2,) for final in found.finals.values())
    true, estimates, verdicts = text([found])
    mean = found.finals["optimal", 4].true.mean()
    assert f"{mean:.4f} ± " in true and "some" in estimates
    assert verdicts.splitlines()[2].split()[:3] == ["some", "400", "4"]

"""The costs of candidates are those of a textbook in float64, on losses whose curvature is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from bitlane.compress.advice.candidates import parse_candidate
from bitlane.compress.advice.trial import COUNTED, JUDGES, STEPS, WINDOW, MeasuredTraining, measure_losses
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

RANKS = 3


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


class Weights(nn.Module):
    """A vector of weights."""

    def __init__(self, count):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(count))


class Bowl:
    """The loss 1/2 sum of h (w - a)**2, where a is the batch: its gradient is h (w - a)."""

    def __init__(self, rng, count, noise, curvature=None):
        self.h = rng.uniform(0.5, 2.0, count) if curvature is None else np.full(count, curvature)
        goal = rng.standard_normal(count)
        self.batches = [goal + noise * rng.standard_normal(count) for _ in range(JUDGES + STEPS * RANKS)]
        self._tensor = torch.from_numpy(self.h).float()

    def training(self, rate, momentum=0.0):
        def loss(module, batch):
            return (self._tensor * (module.weights - batch).square()).sum() / 2

        batches = [torch.from_numpy(each).float() for each in self.batches]
        return MeasuredTraining(
            Weights(len(self.h)), loss, batches, lambda parameters: torch.optim.SGD(parameters, rate, momentum)
        )

    def losses(self, w):
        return np.array([(self.h * (w - a) ** 2).sum() / 2 for a in self.batches[:JUDGES]])

    def gradients(self, w, step):
        own = self.batches[JUDGES + step * RANKS :][:RANKS]
        return np.array([self.h * (w - a) for a in own])


class WithErrors:
    """The exact average, with an error that is known for each step."""

    widths, has_residual = None, False

    def __init__(self, errors):
        self._errors = iter(errors)

    def average(self, vectors, _):
        return torch.stack(list(vectors)).mean(0) + torch.from_numpy(next(self._errors)).float()


def test_a_compressor_costs_what_a_textbook_computes(rng):
    rate, momentum, count = 0.004, 0.8, 50  # the loss still falls at the end
    bowl = Bowl(rng, count, 0.5)
    errors = rng.standard_normal((STEPS, count)) * rng.uniform(0.1, 3)
    found = measure_losses(
        bowl.training(rate, momentum), [parse_candidate("efsign")], RANKS, lambda _: WithErrors(errors)
    ).effects["efsign"]

    w, velocity = np.zeros(count), np.zeros(count)
    costs, noise = np.zeros(JUDGES), 0.0
    for step in range(STEPS):
        if step % WINDOW == 0:
            copy, copy_velocity = w.copy(), velocity.copy()
        if step == WINDOW:
            before = bowl.losses(w)
        gradients = bowl.gradients(w, step)
        mean = gradients.mean(0)
        noise += gradients.var(0, ddof=1).sum() / RANKS
        copy_velocity = momentum * copy_velocity + mean + errors[step]
        copy = copy - rate * copy_velocity
        velocity = momentum * velocity + mean
        w = w - rate * velocity
        if step + 1 in range(2 * WINDOW, STEPS + 1, WINDOW):
            costs += bowl.losses(copy) - bowl.losses(w)
    final = bowl.losses(w).mean()
    gain = before.mean() - final
    assert found.increase == pytest.approx(costs.mean() / final, rel=1e-3, abs=1e-5)
    assert found.standard_error == pytest.approx(costs.std(ddof=1) / JUDGES**0.5 / final, rel=1e-3, abs=1e-5)
    assert found.cost == pytest.approx(costs.mean() / COUNTED, rel=1e-3, abs=1e-4)
    assert found.share == pytest.approx(costs.mean() / gain, rel=1e-3, abs=1e-5)
    assert found.noise_ratio == pytest.approx((errors**2).sum() / noise, rel=1e-4)


def test_the_cost_is_that_of_the_study(rng):
    """Half of the curvature times the square of the step, for errors that are independent of the gradients."""
    rate, count, curvature = 0.001, 20_000, 1.5
    bowl = Bowl(rng, count, 0.1, curvature)
    errors = rng.standard_normal((STEPS, count)) * 20
    trial = measure_losses(bowl.training(rate), [parse_candidate("efsign")], RANKS, lambda _: WithErrors(errors))
    expected = curvature / 2 * rate**2 * (errors[WINDOW:] ** 2).sum() / COUNTED
    assert trial.effects["efsign"].cost == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("every", [7, 20, 40])
def test_diloco_ends_where_a_textbook_ends(every, rng):
    rate, count = 0.05, 30
    bowl = Bowl(rng, count, 0.5)
    errors = rng.standard_normal((STEPS, count)) * 0.01
    name = f"diloco:{every}"
    found = measure_losses(bowl.training(rate, 0.5), [parse_candidate(name)], RANKS, lambda _: WithErrors(errors))

    w, velocity = np.zeros(count), np.zeros(count)
    for step in range(STEPS):
        if step == WINDOW:
            shared, momentum, own_velocity = w.copy(), np.zeros(count), np.tile(velocity, (RANKS, 1))
        velocity = 0.5 * velocity + bowl.gradients(w, step).mean(0)
        w = w - rate * velocity
    own = np.zeros((RANKS, count))
    for number, begin in enumerate(range(WINDOW, STEPS, every)):
        own[:] = shared
        for step in range(begin, min(begin + every, STEPS)):
            gradients = np.array([bowl.gradients(own[rank], step)[rank] for rank in range(RANKS)])
            own_velocity = 0.5 * own_velocity + gradients
            own = own - rate * own_velocity
        average = shared - own.mean(0) + errors[number]
        momentum = 0.9 * momentum + average
        shared = shared - 0.7 * (average + 0.9 * momentum)
    expected = bowl.losses(shared).mean() / bowl.losses(w).mean() - 1
    assert found.effects[name].increase == pytest.approx(expected, rel=1e-3, abs=1e-5)
    assert found.effects[name].noise_ratio is None


def test_a_period_longer_than_the_trial_is_not_measured(rng):
    longer = parse_candidate(f"diloco:{COUNTED + 1}")
    trial = measure_losses(Bowl(rng, 5, 0.1).training(0.1), [longer], RANKS, lambda _: WithErrors([]))
    assert trial.effects == {}


def test_without_noise_any_error_is_larger(rng):
    trial = measure_losses(
        Bowl(rng, 8, 0.0).training(0.1), [parse_candidate("efsign")], RANKS, lambda _: WithErrors(np.ones((STEPS, 8)))
    )
    assert trial.effects["efsign"].noise_ratio == np.inf
    assert trial.effects["efsign"].increase > 1


def test_a_candidate_that_diverges_costs_infinitely_much(rng):
    errors = np.full((STEPS, 8), 1e30)
    trial = measure_losses(
        Bowl(rng, 8, 0.1).training(0.1), [parse_candidate("efsign")], RANKS, lambda _: WithErrors(errors)
    )
    assert trial.effects["efsign"].increase == np.inf


def test_too_few_batches_are_refused(rng):
    training = Bowl(rng, 5, 0.1).training(0.1)
    few = MeasuredTraining(training.module, training.loss, training.batches[: JUDGES + RANKS - 1], training.optimizer)
    with pytest.raises(DataError, match="the training has 10 batches; to measure losses it needs 11 or more"):
        measure_losses(few, [], RANKS, lambda _: WithErrors([]))


def test_a_training_that_diverges_is_refused(rng):
    with pytest.raises(DataError, match=r"not finite in step \d+ of the trial: lower the rate"):
        measure_losses(Bowl(rng, 5, 0.1).training(1e6), [], RANKS, lambda _: WithErrors([]))

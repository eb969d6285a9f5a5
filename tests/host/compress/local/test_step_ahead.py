"""Ranks that keep a share of what they have not sent: the numbers of a textbook, evaluations, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.diloco_scenes import flat
from torch import nn

from bitlane.compress import DiLoCo, EFSign
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

F, GROUP, RANKS = np.float32, 512, 2


def build(rng):
    model = nn.Linear(rng.integers(20, 60), rng.integers(20, 60))
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.from_numpy(rng.standard_normal(tuple(each.shape))))
    return model


def targets_of(seed, rank, step, count):
    """Return where an inner step pulls the parameters of a rank."""
    return np.random.default_rng([seed, rank, step]).standard_normal(count).astype(F)


def signs(values):
    """Return what the others decode: the sign of each value times the mean magnitude of its group."""
    sent = np.empty_like(values)
    for begin in range(0, len(values), GROUP):
        group = values[begin : begin + GROUP]
        sent[begin : begin + GROUP] = np.where(group < 0, F(-1), F(1)) * np.abs(group).mean(dtype=np.float64)
    return sent


@pytest.mark.parametrize("trial", range(12))
def test_parameters_are_those_of_the_textbook(trial, seed, threads):
    """Rounds, and evaluations by `finish()` in between, after which a rank goes on from the global parameters."""
    start = [seed % 2**32, trial]
    rng = np.random.default_rng(start)
    every, rounds, share = int(rng.integers(1, 5)), 6, float(rng.choice([0.25, 0.5, 1.0]))
    rate, momentum = float(rng.uniform(0.5, 1)), float(rng.choice([0.0, 0.6]))
    evaluations = rng.random(every * rounds) < 0.2
    world = flat(build(np.random.default_rng(start))).numpy()

    def work(transport):
        model = build(np.random.default_rng(start))
        outer = lambda tensors: torch.optim.SGD(tensors, rate, momentum)  # noqa: E731
        found = []
        with DiLoCo(model, outer, EFSign(), every, step_ahead=share, process_group=transport, debug=True) as diloco:
            for step, evaluates in enumerate(evaluations):
                target = torch.from_numpy(targets_of(seed % 2**32, transport.rank, step, len(world)))
                with torch.no_grad():
                    own = nn.utils.parameters_to_vector(model.parameters())
                    nn.utils.vector_to_parameters(own + 0.1 * (target - own), model.parameters())
                diloco.step()
                if evaluates:
                    diloco.finish()
                found.append(flat(model).numpy().copy())
        return found

    own, unsent = [world.copy() for _ in range(RANKS)], [np.zeros_like(world) for _ in range(RANKS)]
    begun, speed, wanted = [world.copy() for _ in range(RANKS)], np.zeros_like(world), []
    for step, evaluates in enumerate(evaluations):
        for rank in range(RANKS):
            own[rank] += F(0.1) * (targets_of(seed % 2**32, rank, step, len(world)) - own[rank])
        if (step + 1) % every == 0:
            due = [begun[rank] - own[rank] + unsent[rank] for rank in range(RANKS)]
            sent = [signs(each) for each in due]
            unsent = [before - after for before, after in zip(due, sent, strict=True)]
            speed = F(momentum) * speed + (sent[0] + sent[1]) * F(0.5)
            world = world - F(rate) * speed
            begun = [world - F(share) * each for each in unsent]
            own = [each.copy() for each in begun]
        if evaluates:
            begun, own = [world.copy() for _ in range(RANKS)], [world.copy() for _ in range(RANKS)]
        wanted.append([each.copy() for each in own])
    assert any(np.abs(own[0] - own[1]).max() > 0.01 for own in wanted), "the ranks never differed"
    for rank, found in enumerate(threads(RANKS, work)):
        for step, each in enumerate(found):
            assert each == pytest.approx(wanted[step][rank], rel=1e-4, abs=1e-5), step


def test_a_compressor_that_keeps_nothing_is_refused(threads):
    def work(transport):
        model = build(np.random.default_rng(1))
        with (
            DiLoCo(model, None, Uncompressed(), 1, step_ahead=0.5, process_group=transport) as diloco,
            pytest.raises(DataError, match=r"step_ahead=0\.5 is a share of .* EFSign\(\), or step_ahead=0"),
        ):
            diloco.step()

    threads(1, work)

"""Ranks that keep a share of what they have not sent: the numbers of a textbook, evaluations, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.ddp_scenes import error_text
from tests.helpers.diloco_scenes import flat
from torch import nn

from bitlane.compress import DiLoCo, EFSign
from bitlane.compress.registry import EXAMPLES, parse_compressor

pytestmark = pytest.mark.torch

F, GROUP, RANKS = np.float32, 512, 2
WITHOUT_RESIDUAL = ("none", "qsgd:bits=8", "terngrad", "dgc:density=0.05")


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


@pytest.mark.parametrize("text", [text for text in EXAMPLES if "mqgrad" not in text])
def test_every_compressor(text, seed, threads):
    """`debug` checks the sums; ranks have the same bits after an evaluation, and half of the residual before it."""
    compressor = parse_compressor(text.replace("rank=32", "rank=2"))

    def work(transport):
        model = build(np.random.default_rng(seed % 2**32))
        with DiLoCo(model, None, compressor, 1, step_ahead=0.5, process_group=transport, debug=True) as diloco:
            for step in range(4):
                target = torch.from_numpy(targets_of(seed % 2**32, transport.rank, step, len(flat(model))))
                with torch.no_grad():
                    own = nn.utils.parameters_to_vector(model.parameters())
                    nn.utils.vector_to_parameters(own + 0.1 * (target - own), model.parameters())
                diloco.step()
            ahead = flat(model)
            diloco.finish()
            (fragment,) = diloco._fragments
            return flat(model), ahead, fragment._runner.residual()

    if text in WITHOUT_RESIDUAL:
        errors = threads(RANKS, lambda transport: error_text(lambda: work(transport)))
        assert all(each.startswith("DataError: step_ahead=0.5 is a share of the residual, and ") for each in errors)
        assert all("has none: use a compressor with error feedback" in each for each in errors)
        return
    (world, ahead, unsent), (other, _, _) = threads(RANKS, work)
    assert torch.equal(world, other)
    torch.testing.assert_close(world - ahead, 0.5 * unsent[: len(world)], rtol=1e-5, atol=1e-6)

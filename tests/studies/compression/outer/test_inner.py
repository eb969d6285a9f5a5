"""AdamW, Muon and SGD inside `DiLoCo`, with plain and Nesterov outer steps: a textbook's parameters, saved states."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.helpers.diloco_scenes import build, flat, loss_of

from bitlane.compress import QSGD, DiLoCo, TopK
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.errors import BitlaneError
from bitlane_studies.compression.local.transformer import ByteTransformer
from bitlane_studies.compression.outer.inner import INNER, muon

pytestmark = pytest.mark.torch

NEEDS_MUON = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon needs torch 2.9")
EACH_INNER = [pytest.param(name, marks=NEEDS_MUON if name == "muon" else ()) for name in INNER]
EVERY, RANKS, RATE = 3, 2, 0.01


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    """Let a `DiLoCo` take the transport of a thread as its process group."""
    monkeypatch.setattr("bitlane.compress.local.diloco.TorchTransport", lambda group, timeout: group)


def inner_step(model, optimizers, seed, rank, step):
    model.zero_grad()
    loss_of(model, seed, rank, step).backward()
    for each in optimizers:
        each.step()


def textbook(name, seed, rounds, rate, momentum):
    """Return the parameters after rounds of ranks whose inner optimizers keep their state."""
    models = [build() for _ in range(RANKS)]
    inner = [INNER[name](model, RATE) for model in models]
    world = flat(models[0]).double()
    speed = torch.zeros_like(world)
    for step in range(EVERY * rounds):
        for rank, model in enumerate(models):
            inner_step(model, inner[rank], seed, rank, step)
        if (step + 1) % EVERY == 0:
            learned = world - torch.stack([flat(model).double() for model in models]).mean(0)
            speed = momentum * speed + learned
            world = world - rate * (learned + momentum * speed)
            for model in models:
                torch.nn.utils.vector_to_parameters(world.to(flat(model)), model.parameters())
    return world


@pytest.mark.parametrize("name", EACH_INNER)
@pytest.mark.parametrize(("rate", "momentum"), [(1.0, 0.0), (0.7, 0.9)])
def test_parameters_are_those_of_the_textbook(name, rate, momentum, seed):
    def work(transport):
        model = build()
        optimizers = INNER[name](model, RATE)
        outer = lambda each: torch.optim.SGD(each, rate, momentum, nesterov=momentum > 0)  # noqa: E731
        with DiLoCo(model, outer, Uncompressed(), EVERY, process_group=transport, debug=True) as diloco:
            for step in range(4 * EVERY):
                inner_step(model, optimizers, seed, transport.rank, step)
                diloco.step()
        return flat(model)

    first, second = run_ranks_in_threads(RANKS, work)
    assert torch.equal(first, second)
    expected = textbook(name, seed, 4, rate, momentum)
    torch.testing.assert_close(
        first.double(), expected, rtol=0, atol=1e-3 if name == "muon" else 2e-6
    )  # Muon computes in bfloat16


@pytest.mark.parametrize("name", EACH_INNER)
@pytest.mark.parametrize(
    "compressor", [QSGD(2, error_feedback=True), TopK(0.1, value_bits=2, chunked=True, decay=0.95)], ids=repr
)
def test_a_resumed_training_continues_identically(name, compressor, seed):
    """Each rank saves its model, its inner optimizers and the state of the rounds."""

    def work(transport):
        def make():
            model = build()
            return model, INNER[name](model, RATE), DiLoCo(model, None, compressor, EVERY, process_group=transport)

        def train(model, optimizers, diloco, steps):
            for step in steps:
                inner_step(model, optimizers, seed, transport.rank, step)
                diloco.step()

        straight = make()
        train(*straight, range(13))
        first = make()
        train(*first, range(7))
        saved = copy.deepcopy((first[0].state_dict(), [each.state_dict() for each in first[1]], first[2].state_dict()))
        model, optimizers, diloco = make()
        model.load_state_dict(saved[0])
        for each, state in zip(optimizers, saved[1], strict=True):
            each.load_state_dict(state)
        diloco.load_state_dict(saved[2])
        train(model, optimizers, diloco, range(7, 13))
        return flat(straight[0]), flat(model)

    for straight, resumed in run_ranks_in_threads(RANKS, work):
        assert torch.equal(straight, resumed)


@NEEDS_MUON
def test_muon_has_the_matrices_of_the_blocks_and_adamw_the_rest():
    model = ByteTransformer(width=8, depth=1, length=4)
    own, others = ({id(each) for group in one.param_groups for each in group["params"]} for one in muon(model, 0.1))
    names = {name for name, each in model.named_parameters() if id(each) in own}
    assert names == {name for name, each in model.named_parameters() if name.startswith("blocks") and each.dim() == 2}
    assert len(names) == 4 and own | others == {id(each) for each in model.parameters()} and not own & others


def test_a_torch_without_muon_is_one_line(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    with pytest.raises(BitlaneError, match=r"has no torch.optim.Muon: install torch 2.9 or later"):
        muon(build(), 0.1)

"""Predicted bytes are those that the kernel counts at the sockets of real ranks."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
import torch
from tests.helpers.advice_work import LARGE, SMALL, compressors_of, loss_of, random_module, round_bytes, step_bytes

from bitlane.compress import QSGD, EFSign, PowerSGD
from bitlane.compress.advice.layouts import SHAPES, known_layout, module_layout
from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.launch import launch
from bitlane.compress.compressor import vector_length
from bitlane.compress.costs import measure_step_costs, ring_costs
from bitlane.compress.registry import parse_compressor

pytestmark = [pytest.mark.torch, pytest.mark.slow]

GPT2 = 124_439_808


def test_steps_under_ddp(seed):
    modules = [(seed, width) for width in (SMALL, LARGE)]
    found = launch(step_bytes, 2, modules, timeout=600)
    predicted, names = [], []
    for own_seed, width in modules:
        module = random_module(own_seed, width)
        layout = module_layout(module)
        loss_of(module, 99).backward()
        gradient = torch.cat([each.grad.flatten() for each in reversed(list(module.parameters()))])
        for compressor in compressors_of(module, seed):
            costs = measure_step_costs(compressor, layout, 2, AlphaBetaModel(), steps=1, gradients=[gradient])
            predicted.append(costs.sent)
            names.append(f"{width} {compressor!r}")
    errors = {name: (a, b) for name, a, b in zip(names, np.mean(found, axis=0), predicted, strict=True)}
    assert {name: pair for name, pair in errors.items() if abs(pair[1] / pair[0] - 1) > 0.02} == {}


@pytest.mark.parametrize("compressor", [QSGD(bits=4, error_feedback=True), EFSign(), PowerSGD(rank=2)])
def test_rounds_of_diloco(compressor, seed):
    found = launch(round_bytes, 2, seed, SMALL, compressor, timeout=120)
    layout = module_layout(random_module(seed, SMALL))
    predicted = measure_step_costs(compressor, layout, 2, AlphaBetaModel(), steps=1, overlap=False).sent
    assert np.mean(found) == pytest.approx(predicted, rel=0.02)


def codes(values, bits):
    """Bytes of codes with a scale of 4 bytes for each group of 512 values."""
    whole, rest = divmod(values, 512)
    return whole * (4 + 64 * bits) + (4 + ceil(rest * bits / 8) if rest else 0)


@pytest.mark.parametrize(("name", "bits"), [("qsgd:bits=4", 4), ("efsign", 1)])
def test_the_layout_of_gpt2_with_a_code_for_each_value(name, bits):
    """Two ranks: each sends half of the codes to the other, and then those of its half of the average."""
    costs = measure_step_costs(parse_compressor(name), known_layout("gpt2"), 2, AlphaBetaModel(), steps=1)
    assert costs.sent == pytest.approx(codes(GPT2, bits), rel=0.001)


@pytest.mark.parametrize("rank", [1, 4])
def test_the_layout_of_gpt2_with_low_rank(rank):
    """Both factors of each matrix, and the codes of all other parameters, each column with its own scales."""
    factored = [shape for shape in SHAPES["gpt2"] if len(shape) == 2]
    lefts, rights = (sum(codes(shape[side], 8) * rank for shape in factored) for side in (0, 1))
    others = sum(codes(shape[0], 8) for shape in SHAPES["gpt2"] if len(shape) == 1)
    layout = known_layout("gpt2")
    costs = measure_step_costs(parse_compressor(f"lqsgd:rank={rank}"), layout, 2, AlphaBetaModel(), steps=1)
    header_and_frames = 32 + 5 * 144  # of a segment, at most: two averages of two rounds behind the handshake
    assert 0 < costs.sent - (lefts + rights + others) <= len(costs.shares) * header_and_frames
    assert 20 < len(costs.shares) < GPT2 / 2**20


def test_ring_all_reduce():
    layout = known_layout("gpt2")
    assert vector_length(layout) == GPT2
    assert ring_costs(layout, 2).sent == 4 * GPT2
    assert ring_costs(layout, 4, torch.bfloat16).sent == 3 * GPT2

"""Dion with threads as ranks: the numbers of a textbook, equal parameters, counted bytes, clear errors."""

from __future__ import annotations

import math

import pytest
import torch
from tests.helpers.ddp_scenes import error_text
from tests.helpers.devices import DEVICE
from tests.helpers.dion_textbook import (
    ADAM,
    MATRICES,
    OTHERS,
    TextbookDion,
    flat,
    gradient,
    mean_gradient,
    set_gradients,
    start,
    values_in,
)
from torch import nn

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.dion.optimizer import Dion
from bitlane.errors import BitlaneError, DataError

pytestmark = pytest.mark.torch

SHAPES = [*MATRICES, *OTHERS]
RATE, DECAY = 0.03, 0.2


def make(parameters, transport, fraction=0.5, momentum=0.9, bits=None, **settings):
    """Return a Dion of parameters with the shapes `SHAPES`."""
    others = torch.optim.AdamW(parameters[len(MATRICES) :], **ADAM)
    own = parameters[: len(MATRICES)]
    return Dion(own, RATE, fraction, momentum, DECAY, bits, others, process_group=transport, **settings)


def train(dion, parameters, seed, rank, steps):
    for step in steps:
        set_gradients(parameters, gradient(seed, rank, step, SHAPES))
        dion.step()


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(("fraction", "momentum"), [(0.25, 0.95), (0.5, 0.9), (1.0, 0.95), (0.5, 0.0)])
def test_parameters_and_momenta_are_those_of_the_textbook(fraction, momentum, ranks, seed, threads):
    """Tall, wide and square matrices, a kernel, a row and a column; a vector, a scalar and an embedding by AdamW."""

    def work(transport):
        parameters, found = start(seed, SHAPES), []
        dion = make(parameters, transport, fraction, momentum)
        for step in range(5):
            train(dion, parameters, seed, transport.rank, [step])
            found.append(flat(parameters).double().cpu())
        return found, dion.state_dict()["exchange"]["reducer"]["matrices"]

    book = TextbookDion(start(seed, SHAPES), len(MATRICES), RATE, fraction, momentum, DECAY)
    by_rank = threads(ranks, work)
    for step in range(5):
        book.step(mean_gradient(seed, ranks, step, SHAPES))
        assert all(torch.equal(each[step], by_rank[0][0][step]) for each, _ in by_rank)
        torch.testing.assert_close(by_rank[0][0][step], flat(book.values), rtol=0, atol=2e-3 * RATE * (step + 1))
    for number, expected in enumerate(book.momenta):
        mean = sum(each[number].double().cpu() for _, each in by_rank) / ranks
        torch.testing.assert_close(mean, expected, rtol=0, atol=1e-5 + 2e-3 * float(expected.abs().max()))
    if ranks > 1:
        assert not torch.equal(by_rank[0][1][0], by_rank[1][1][0])  # each rank has its own


@pytest.mark.parametrize(("bits", "share"), [(8, 0.02), (4, 0.02), (2, 0.1)])
def test_ranks_are_equal_and_learn_with_few_bits(bits, share, seed, threads):
    """Linear regression: ranks with half of the rows each find the weights of all rows."""
    generator = torch.Generator().manual_seed(seed)
    inputs, weights = torch.randn(64, 12, generator=generator), torch.randn(12, 20, generator=generator)
    targets = inputs @ weights

    def work(transport):
        model = nn.Linear(12, 20)
        with torch.no_grad():
            model.weight.zero_()
            model.bias.fill_(0.5)
        own, losses = slice(transport.rank, None, 2), []
        others = torch.optim.SGD([model.bias], 0.05)
        dion = Dion([model.weight], 0.3, 0.25, 0.9, 0.0, bits, others, process_group=transport, debug=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(dion, lambda step: 1 - step / 150)
        for _ in range(150):
            dion.zero_grad()
            loss = (model(inputs[own]) - targets[own]).square().mean()
            loss.backward()
            losses.append(float(loss.detach()))
            dion.step()
            schedule.step()
        return flat(model.parameters()), losses

    (first, losses), (second, _) = threads(2, work)
    assert torch.equal(first, second)
    assert losses[-1] < share * losses[0]


def test_other_types_and_memory_formats(seed, threads):
    """A kernel in channels_last, and parameters in float64 and bfloat16, follow the textbook up to their type."""
    shapes = [(6, 3, 2, 2), (5, 4), (4, 7)]
    types = [torch.float32, torch.float64, torch.bfloat16]

    def parameters():
        found = [nn.Parameter(each.detach().to(t)) for each, t in zip(start(seed, shapes), types, strict=True)]
        found[0] = nn.Parameter(found[0].detach().to(memory_format=torch.channels_last))
        return found

    def work(transport):
        own = parameters()
        dion = Dion(own, RATE, 0.5, process_group=transport, debug=True)
        for step in range(3):
            set_gradients(own, gradient(seed, transport.rank, step, shapes))
            dion.step()
        return [each.detach().double().cpu() for each in own]

    book = TextbookDion(parameters(), 3, RATE, 0.5, 0.95, 0.01)
    for step in range(3):
        book.step(mean_gradient(seed, 2, step, shapes))
    for found in threads(2, work):
        for each, expected, atol in zip(found, book.values, (1e-4, 1e-4, 0.06), strict=True):
            torch.testing.assert_close(each, expected, rtol=0, atol=atol)


def test_groups_have_their_own_rates(seed, threads):
    def work(transport):
        first, second = start(seed, [(4, 6), (4, 6)])
        groups = [{"params": [first], "lr": 0.0}, {"params": [second], "weight_decay": 0.5}]
        dion = Dion(groups, 0.1, 0.5, weight_decay=0.0, process_group=transport)
        before = [each.detach().clone() for each in (first, second)]
        dion.step()  # without gradients
        still = [torch.equal(a, b) for a, b in zip((first, second), before, strict=True)]
        torch.testing.assert_close(second.detach(), before[1] * (1 - 0.1 * 0.5))
        set_gradients([first, second], gradient(seed, 0, 0, [(4, 6), (4, 6)]))
        dion.step()
        return still, torch.equal(first, before[0]), [group["lr"] for group in dion.param_groups]

    assert threads(2, work) == [([True, False], True, [0.0, 0.1])] * 2


def test_a_closure_computes_the_gradients(seed, threads):
    def work(transport):
        (matrix,) = start(seed, [(4, 6)])
        dion = Dion([matrix], process_group=transport)

        def closure():
            dion.zero_grad()
            loss = matrix.square().sum()
            loss.backward()
            return loss

        before = closure().item()
        return dion.step(closure).item() == before, closure().item() < before

    assert threads(2, work) == [(True, True)] * 2


def test_the_start_is_that_of_rank_0(seed, threads):
    def work(transport):
        parameters = start(seed + transport.rank, SHAPES)
        make(parameters, transport)
        return flat(parameters)

    found = threads(3, work)
    assert all(torch.equal(each, flat(start(seed, SHAPES))) for each in found)


@pytest.mark.parametrize("bits", [None, 8, 3])
@pytest.mark.parametrize("fraction", [0.25, 1.0])
def test_byte_counts(fraction, bits, seed, threads):
    """r (m + n) values of a matrix, and all values of the others, with all-gather: once to each other rank."""
    ranks = 3

    def work(transport):
        parameters = start(seed, SHAPES)
        dion = make(parameters, transport, fraction, bits=bits, link_model=AlphaBetaModel(1e9, 1.0))
        begin = transport.sent
        train(dion, parameters, seed, transport.rank, range(2))
        return transport.sent - begin, dion.stats

    sides = [(shape[0], math.prod(shape[1:])) for shape in MATRICES]
    columns = [(max(1, round(fraction * min(pair))), pair) for pair in sides]
    parts = [side for r, pair in columns for side in pair for _ in range(r)] + [values_in([each]) for each in OTHERS]
    bodies = 4 * sum(parts) if bits is None else sum(4 + math.ceil(part * bits / 8) for part in parts)
    for sent, stats in threads(ranks, work):
        assert sent == stats.total.bytes_sent == 2 * (ranks - 1) * (32 + bodies)
        assert stats.total.ring_bytes == 2 * 2 * (ranks - 1) / ranks * 4 * values_in(SHAPES)


def test_nonfinite_gradients(seed, threads):
    def work(transport, nonfinite):
        parameters = start(seed, SHAPES)
        dion = make(parameters, transport, nonfinite=nonfinite, debug=True)
        train(dion, parameters, seed, transport.rank, [0])
        before, state = flat(parameters), dion.state_dict()["exchange"]["reducer"]["matrices"][0].clone()
        set_gradients(parameters, gradient(seed, transport.rank, 1, SHAPES))
        if transport.rank == 1:
            parameters[0].grad[0, 0] = math.nan
        text = error_text(dion.step)
        same = torch.equal(flat(parameters), before)
        kept = torch.equal(dion.state_dict()["exchange"]["reducer"]["matrices"][0], state)
        train(dion, parameters, seed, transport.rank, [2])
        return text, same, kept, dion.stats.skipped, not torch.equal(flat(parameters), before)

    for text, *others in threads(2, lambda transport: work(transport, "raise")):
        assert text.startswith("DataError: step 1: the gradient of rank 1 has NaN or infinite values")
        assert others == [True, True, 0, True]
    assert threads(2, lambda transport: work(transport, "skip")) == [("nothing", True, True, 1, True)] * 2


def test_too_large_gradients(seed, threads):
    def work(transport):
        (matrix,) = start(seed, [(4, 6)])
        dion = Dion([matrix], process_group=transport)
        matrix.grad = torch.ones_like(matrix) * (1e20 if transport.rank == 1 else 1)
        return error_text(dion.step)

    first, second = threads(2, work)
    assert first.startswith("RankFailed: rank 1 failed in step 0")
    assert second == "DataError: a gradient has the value 1e+20; at most 1.1e+12 can be averaged: scale the loss"


def test_debug_finds_unequal_parameters(seed, threads):
    """A learning rate that only one rank changes."""

    def work(transport):
        parameters = start(seed, SHAPES)
        dion = make(parameters, transport, debug=True)
        train(dion, parameters, seed, transport.rank, [0])
        dion.param_groups[0]["lr"] *= 1 + transport.rank
        return error_text(lambda: train(dion, parameters, seed, transport.rank, [1]))

    assert (
        threads(2, work) == ["BitlaneError: step 1: the vector of parameters of rank 1 differs from that of rank 0"] * 2
    )


@pytest.mark.parametrize("rank_setting", [{"fraction": 0.75}, {"momentum": 0.5}, {"bits": 5}])
def test_different_settings_raise_on_all_ranks(rank_setting, seed, threads):
    def work(transport):
        settings = rank_setting if transport.rank == 1 else {}
        return error_text(lambda: make(start(seed, SHAPES), transport, **settings))

    first, second = threads(2, work)
    assert first == second and first.startswith("DataError: ranks have different settings: rank 0 has DionFactors(")


def test_other_rates_on_a_rank_raise_on_all(seed, threads):
    def work(transport):
        return error_text(lambda: Dion(start(seed, [(4, 6)]), 0.1 + transport.rank, process_group=transport))

    assert set(threads(2, work)) == {
        "DataError: ranks have different settings: rank 0 has     lr: 0.1, rank 1 has     lr: 1.1"
    }


def frozen():
    return nn.Parameter(torch.zeros(2, 2, device=DEVICE), requires_grad=False)


def a_matrix(dtype=torch.float32, shape=(2, 3)):
    return nn.Parameter(torch.zeros(shape, device=DEVICE, dtype=dtype))


TWICE, SHARDED = a_matrix(), a_matrix()
SHARDED.device_mesh = "two ranks"  # as a DTensor has


@pytest.mark.parametrize(
    ("params", "settings", "message"),
    [
        (
            [a_matrix(shape=(7,))],
            {},
            r"parameter 0 of Dion has the shape \[7\], which is no matrix: give it to other_optimizer",
        ),
        ([a_matrix(), a_matrix(shape=())], {}, r"parameter 1 of Dion has the shape \[\]"),
        ([a_matrix(shape=(0, 3))], {}, r"the shape \[0, 3\] and no values"),
        ([frozen()], {}, "parameter 0 of Dion has requires_grad=False: leave it out"),
        ([SHARDED], {}, "parameter 0 of Dion is sharded over ranks, as a DTensor: Dion takes complete parameters"),
        ([a_matrix(torch.complex64)], {}, "type torch.complex64: convert it to float64"),
        ([TWICE], {"other_optimizer": torch.optim.SGD([TWICE], 0.1)}, "parameter 0 of other_optimizer occurs twice"),
        (
            [{"params": [a_matrix()], "algorithm": "adamw"}],
            {},
            "has lr and weight_decay; got algorithm",
        ),
        (a_matrix(), {}, "params must be a list of matrices"),
        ([a_matrix()], {"lr": -1.0}, "lr must be 0 or more; got -1"),
        ([a_matrix()], {"lr": "fast"}, "lr='fast': it must be a finite number"),
        ([a_matrix()], {"weight_decay": math.inf}, "weight_decay=inf: it must be a finite number"),
        ([a_matrix()], {"other_optimizer": [TWICE]}, "it must be a torch.optim.Optimizer"),
        ([a_matrix()], {"nonfinite": "pass"}, 'nonfinite="pass" has no orthonormal update'),
        ([a_matrix()], {"timeout": 0}, "timeout must be above 0 seconds; got 0"),
    ],
)
def test_wrong_arguments(params, settings, message):
    with pytest.raises(DataError, match=message):
        Dion(params, **settings)


def test_no_process_group():
    with pytest.raises(BitlaneError, match=r"no process group: call torch.distributed.init_process_group first"):
        Dion([a_matrix()])


def test_a_step_that_is_not_supported_is_refused(seed, threads):
    def work(transport):
        (matrix,) = start(seed, [(4, 6)])
        dion = Dion([matrix], process_group=transport)
        texts = [error_text(lambda: dion.add_param_group({"params": start(seed, [(2, 3)])}))]
        scaler = torch.amp.GradScaler(DEVICE.type)
        scaler.scale(matrix.sum()).backward()
        texts.append(error_text(lambda: scaler.step(dion)))
        with Dion([matrix], process_group=transport) as closed:
            pass
        return [*texts, error_text(closed.step)]

    for texts in threads(2, work):
        assert texts == [
            "DataError: Dion takes no parameters after it was made: create a new one",
            "DataError: Dion does not work with a GradScaler: use bfloat16, which needs none",
            "BitlaneError: step() after close(): create a new Dion and load the state of this one",
        ]


def test_the_other_optimizer_has_no_step_of_its_own_until_the_end(seed, threads):
    def work(transport):
        parameters = start(seed, SHAPES)
        dion = make(parameters, transport)
        train(dion, parameters, seed, transport.rank, [0])
        texts = [error_text(dion.other_optimizer.step)]
        train(dion, parameters, seed, transport.rank, [1])
        dion.close()
        return [*texts, error_text(dion.other_optimizer.step)]

    text = "DataError: step() of Dion also steps other_optimizer: do not call its own step()"
    assert threads(2, work) == [[text, "nothing"]] * 2


def test_sparse_gradients_are_refused(threads):
    def work(transport):
        table = nn.Embedding(10, 3, sparse=True, device=DEVICE)
        others = torch.optim.SGD(table.parameters(), 0.1)
        dion = Dion([a_matrix()], other_optimizer=others, process_group=transport)
        table(torch.tensor([1, 2], device=DEVICE)).sum().backward()
        return error_text(dion.step)

    assert threads(1, work)[0].startswith("DataError: sparse gradients are not supported")

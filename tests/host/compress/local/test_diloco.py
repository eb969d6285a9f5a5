"""DiLoCo with threads as ranks: the numbers of a textbook, identical bytes, rounds in the background, clear errors."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from tests.helpers.ddp_scenes import error_text
from tests.helpers.diloco_scenes import build, flat, inner_optimizer, inner_step, running_averages, textbook
from torch import nn

from bitlane.compress import QSGD, Adaptive, BitAllocation, MQGrad
from bitlane.compress.collectives.transport import RankFailed
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.local.diloco import DiLoCo
from bitlane.compress.local.local_sgd import LocalSGD
from bitlane.compress.registry import EXAMPLES, parse_compressor

pytestmark = pytest.mark.torch

RANKS = 3
ALL, HALVES = [[0, 1, 2, 3]], [[0], [1, 2, 3]]  # fragments of `build()`, which has 35, 7, 21 and 3 values
FOUR_BITS = QSGD(4, error_feedback=True)


def train(diloco, seed, rank, steps, after=lambda step: None):
    optimizer = inner_optimizer(diloco.model)
    for step in range(1, steps + 1):
        inner_step(diloco.model, optimizer, seed, rank, step)
        diloco.step()
        after(step)


@pytest.mark.parametrize(
    ("fragments", "settings", "blend"),
    [
        (ALL, {"every": 4}, 0.0),
        (ALL, {"every": 1}, 0.0),
        (ALL, {"every": 4, "blend": 0.25}, 0.25),
        (ALL, {"every": 5, "delay": 3}, 0.5),
        (ALL, {"every": 5, "delay": 3, "blend": 0.0}, 0.0),
        (HALVES, {"every": 6}, 0.0),
        (HALVES, {"every": 7, "delay": 2}, 0.5),
        (HALVES, {"every": 6, "delay": 1, "blend": 0.75}, 0.75),
    ],
)
def test_parameters_are_those_of_the_textbook(fragments, settings, blend, seed, threads):
    def work(transport):
        model, own = build(), len(fragments)
        with DiLoCo(
            model, compressor=Uncompressed(), fragments=own, process_group=transport, debug=True, **settings
        ) as diloco:
            train(diloco, seed, transport.rank, 23)
        return flat(model)

    wanted = {"delay": 0, **settings, "fragments": fragments, "blend": blend}
    for found, expected in zip(threads(RANKS, work), textbook(build(), seed, RANKS, 23, wanted), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=2e-5)


def test_float64_parameters_keep_their_digits(seed, threads):
    """What a rank has learned is averaged in float32, and added to parameters in float64."""

    def work(transport):
        model, found = build(dtype=torch.float64), []
        with torch.no_grad():
            model[0].weight += 1e-12
        with DiLoCo(model, compressor=Uncompressed(), every=1, process_group=transport) as diloco:
            for _ in range(4):
                found.append(flat(model))
                diloco.step()
            inner_step(model, inner_optimizer(model), seed, transport.rank, 5)
            found.append(flat(model))
            diloco.step()
            diloco.step()
        return [*found, flat(model)]

    ranks = threads(RANKS, work)
    for *still, own, after in ranks:
        assert all(torch.equal(still[0], each) for each in still)
        assert own.dtype == torch.float64 and torch.equal(after, ranks[0][-1])
    learned = still[0] - torch.stack([rank[-2] for rank in ranks]).mean(0)
    wanted = still[0] - 0.7 * (1 + 0.9 + 0.9**2) * learned  # two rounds of Nesterov momentum
    assert not torch.equal(wanted, still[0])
    torch.testing.assert_close(after, wanted, rtol=0, atol=2**-22 * float(learned.abs().max()))


def test_local_sgd_averages_parameters(seed, threads):
    def work(transport):
        model, found = build(), []
        local_sgd = LocalSGD(model, Uncompressed(), every=3, process_group=transport)
        train(local_sgd, seed, transport.rank, 2)
        optimizer = inner_optimizer(model)
        inner_step(model, optimizer, seed, transport.rank, 3)
        found.append(flat(model))
        local_sgd.step()
        return [*found, flat(model)]

    before, after = zip(*threads(RANKS, work), strict=True)
    assert not torch.equal(before[0], before[1])
    mean = torch.stack(before).double().mean(0)
    for each in after:
        torch.testing.assert_close(each.double(), mean, rtol=0, atol=1e-6)
        assert torch.equal(each, after[0])


def test_local_sgd_is_the_textbook_without_momentum(seed, threads):
    def work(transport):
        model = build()
        train(LocalSGD(model, Uncompressed(), every=4, process_group=transport), seed, transport.rank, 12)
        return flat(model)

    settings = {"every": 4, "fragments": ALL, "delay": 0, "blend": 0.0}
    expected = textbook(build(), seed, RANKS, 12, settings, outer=(1.0, 0.0))
    for found, wanted in zip(threads(RANKS, work), expected, strict=True):
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=2e-5)


def test_another_outer_optimizer(seed, threads):
    """AdamW with rate 0: nothing moves, so that all ranks return to the start in each round."""

    def work(transport):
        model = build()
        still = DiLoCo(model, lambda tensors: torch.optim.AdamW(tensors, lr=0.0), FOUR_BITS, 2, process_group=transport)
        train(still, seed, transport.rank, 2)
        return flat(model)

    assert all(torch.equal(each, flat(build())) for each in threads(2, work))


@pytest.mark.parametrize("text", [text for text in EXAMPLES if "mqgrad" not in text])
def test_every_compressor_conserves_and_ranks_are_identical(text, seed, threads):
    """`debug` checks that average and residuals have the sum of the pseudo-gradients."""

    def work(transport):
        model, found = build(transport.rank), []
        compressor = parse_compressor(text.replace("rank=32", "rank=2"))
        diloco = DiLoCo(model, compressor=compressor, every=2, process_group=transport, debug=True)
        train(diloco, seed, transport.rank, 8, lambda step: found.append(flat(model)))
        return found

    first, *others = threads(RANKS, work)
    for other in others:
        equal = [torch.equal(a, b) for a, b in zip(first, other, strict=True)]
        assert equal == [False, True] * 4


def test_the_default_has_four_bits_and_error_feedback(threads):
    def work(transport):
        return DiLoCo(build(), process_group=transport).compressor

    assert threads(2, work) == [FOUR_BITS] * 2


def test_a_bit_policy_counts_rounds(seed, threads):
    def work(transport):
        diloco = DiLoCo(build(), compressor=QSGD(Adaptive(4, period=1)), every=2, process_group=transport)
        train(diloco, seed, transport.rank, 8)
        return diloco.stats.rounds, diloco.state_dict()["fragments"][0]["average"]["policy"]["steps"]

    assert threads(2, work) == [(4, 4)] * 2


def test_rounds_happen_at_the_steps_of_the_schedule(seed, threads):
    def work(transport):
        model, changed = build(), []
        diloco = DiLoCo(model, compressor=Uncompressed(), every=6, fragments=2, process_group=transport)
        optimizer = inner_optimizer(model)
        for step in range(1, 19):
            inner_step(model, optimizer, seed, transport.rank, step)
            before = [each.detach().clone() for each in model.parameters()]
            diloco.step()
            now = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
            changed += [(step, [number for number, each in enumerate(now) if each])] if any(now) else []
        return changed, diloco.stats.rounds

    rounds = [(step, HALVES[1 if step % 6 else 0]) for step in (3, 6, 9, 12, 15, 18)]
    assert threads(2, work) == [(rounds, 6)] * 2


class Gate:
    """A transport whose exchanges wait for `opened`, or raise `error`."""

    def __init__(self, transport):
        self.real, self.opened, self.error, self.waiting = transport, threading.Event(), None, threading.Event()
        self.rank, self.size, self.device, self.sent = transport.rank, transport.size, transport.device, 0
        self.abort, self.close = transport.abort, transport.close
        self.opened.set()

    def exchange(self, parts, lengths):
        self.waiting.set()
        assert self.opened.wait(20)
        if self.error is not None:
            raise self.error
        return self.real.exchange(parts, lengths)


def test_a_delayed_exchange_is_awaited_when_it_is_due(seed, threads):
    def work(transport):
        gate, events = Gate(transport), []
        diloco = DiLoCo(build(), compressor=FOUR_BITS, every=5, delay=3, process_group=gate)
        train(diloco, seed, transport.rank, 4)
        gate.opened.clear()
        gate.waiting.clear()
        optimizer = inner_optimizer(diloco.model)

        def step(number):
            inner_step(diloco.model, optimizer, seed, transport.rank, number)
            diloco.step()

        for number in (5, 6, 7):  # begins at 5, due at 8
            step(number)
        events += [gate.waiting.wait(20), diloco.stats.rounds, len(running_averages()) > 0]

        def open_later():
            time.sleep(0.3)
            events.append("opened")
            gate.opened.set()

        thread = threading.Thread(target=open_later)
        thread.start()
        step(8)
        events.append("step 8")
        thread.join()
        return [*events, diloco.stats.rounds]

    assert threads(2, work) == [[True, 0, True, "opened", "step 8", 1]] * 2
    assert running_averages() == []


def test_an_error_of_the_thread_is_raised_by_the_next_step(threads):
    def work(transport):
        gate = Gate(transport)
        diloco = DiLoCo(build(), compressor=FOUR_BITS, every=5, delay=4, process_group=gate)
        gate.error = RankFailed("the cable is gone")
        for _ in range(5):
            diloco.step()
        until = time.monotonic() + 20
        while running_averages() and time.monotonic() < until:
            time.sleep(0.01)
        raised = [error_text(diloco.step), error_text(diloco.step), diloco.inner_steps]
        diloco.close()
        return raised

    assert threads(1, work) == [["RankFailed: the cable is gone", "nothing", 7]]


def test_finish_leaves_the_global_parameters_on_all_ranks(seed, threads):
    def work(transport):
        model = build()
        diloco = DiLoCo(model, compressor=FOUR_BITS, every=6, fragments=2, delay=2, process_group=transport)
        train(diloco, seed, transport.rank, 13)  # a round has begun at 12
        diloco.finish()
        rounds = diloco.stats.rounds
        return flat(model), torch.cat([each["global"] for each in diloco.state_dict()["fragments"]]), rounds

    (first, world, rounds), (second, _, _) = threads(2, work)
    assert torch.equal(first, second) and torch.equal(first, world) and rounds == 4


def test_small_outer_steps_reach_parameters_of_few_bits(threads):
    """A quarter of the last bit of bfloat16 in each round: four rounds make one bit."""
    bit = 2.0**-7

    def work(transport):
        model, found = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16), []
        nn.init.ones_(model.weight)
        local_sgd = LocalSGD(model, Uncompressed(), every=1, process_group=transport)
        for _ in range(4):
            with torch.no_grad():
                model.weight += bit if transport.rank == 0 else 0.0
            local_sgd.step()
            found.append(model.weight.item() - 1)
        return found

    assert threads(4, work) == [[0.0, 0.0, bit, bit]] * 4  # half a bit is rounded to even


def test_byte_counts(seed, threads):
    def work(transport):
        start = transport.sent
        diloco = DiLoCo(build(), compressor=Uncompressed(), every=5, fragments=2, process_group=transport)
        at_first = transport.sent - start
        stats = diloco.stats
        assert (stats.steps, stats.rounds, stats.ratio) == (0, 0, 0.0)
        train(diloco, seed, transport.rank, 11)
        return diloco.stats, transport.sent - start - at_first

    for stats, sent in threads(RANKS, work):
        assert (stats.steps, stats.rounds, stats.bytes_sent) == (11, 4, sent)
        assert stats.ring_bytes == pytest.approx(11 * 2 * (2 / 3) * 4 * 66)
        assert stats.ratio == stats.bytes_sent / stats.ring_bytes


def poison(model, rank, step):
    if rank == 1 and step == 2:
        with torch.no_grad():
            model[0].weight[0, 0] = float("nan")


@pytest.mark.parametrize("delay", [0, 1])
def test_nonfinite_values(delay, threads):
    def work(transport, nonfinite):
        model, errors = build(), []
        diloco = DiLoCo(model, compressor=FOUR_BITS, every=2, delay=delay, process_group=transport, nonfinite=nonfinite)
        for step in range(1, 6):
            poison(model, transport.rank, step)
            errors.append(error_text(diloco.step))
        return errors, flat(model), diloco.stats

    for errors, _, _ in threads(2, lambda transport: work(transport, "raise")):
        text = next(each for each in errors if "rank 1" in str(each))
        assert text.startswith("DataError: step 0: the gradient of rank 1 has NaN or infinite values")
    for errors, parameters, stats in threads(2, lambda transport: work(transport, "skip")):
        assert len(set(errors)) == 1 and torch.equal(parameters, flat(build()))
        assert (stats.rounds, stats.skipped, stats.uncompressed) == (2, 1, 0)
    for _, parameters, stats in threads(2, lambda transport: work(transport, "pass")):
        assert int(parameters.isnan().sum()) == 1 and stats.uncompressed == 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"every": 9}, "every=9"),
        ({"compressor": QSGD(2)}, "QSGD(bits=2"),
        ({"outer_optimizer": lambda tensors: torch.optim.SGD(tensors, lr=0.6)}, "lr: 0.6"),
        ({"model": nn.Linear(5, 7)}, "weight: torch.float32 [7, 5]"),
    ],
)
def test_different_settings_raise_on_all_ranks(other, message, threads):
    def work(transport):
        own = {"model": build(), **(other if transport.rank == 2 else {})}
        return error_text(lambda: DiLoCo(**own, process_group=transport))

    found = threads(3, work)
    assert len(set(found)) == 1
    assert "ranks have different settings" in found[0] and message in found[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": [torch.ones(2)]}, "a torch.nn.Module is needed; got list"),
        ({"outer_optimizer": 0.7}, "outer_optimizer must be a function that takes a list of tensors"),
        ({"outer_optimizer": lambda tensors: None}, "outer_optimizer must return a torch.optim.Optimizer"),
        ({"compressor": QSGD(MQGrad())}, "MQGrad(...) needs the loss or the time of each step"),
        ({"compressor": QSGD(BitAllocation())}, "BitAllocation(...) needs the loss or the time of each step"),
        ({"compressor": QSGD}, "a compressor is needed, such as QSGD(bits=4); got QSGD"),
        ({"nonfinite": "drop"}, "nonfinite must be one of raise, skip, pass; got 'drop'"),
        ({"timeout": 0}, "timeout must be above 0 seconds; got 0"),
        ({"link_model": "100mbit"}, "link_model='100mbit'"),
        ({"every": 0}, "every=0"),
        ({"fragments": 5}, "fragments must be from 1 to 4, the number of parameters; got 5"),
        ({"delay": 100}, "delay=100 with every=100"),
        ({"model": build().to(torch.complex64)}, "0.weight has the type torch.complex64"),
    ],
)
def test_wrong_arguments(arguments, message, threads):
    def work(transport):
        return error_text(lambda: DiLoCo(**{"model": build(), "process_group": transport, **arguments}))

    (found,) = threads(1, work)
    assert found.startswith("DataError: ") and message in found


@pytest.mark.parametrize(
    ("delay", "wanted"),
    [(0, ["NoneType", "NoneType", "NoneType", "RankFailed"]), (1, ["NoneType"] * 4 + ["RankFailed"])],
)
def test_a_failing_outer_optimizer_does_not_block_the_others(delay, wanted, threads):
    """Rank 0 fails when it applies its first average; rank 1 raises in the second round, and does not wait."""

    class Failing(torch.optim.SGD):
        def step(self):
            raise MemoryError

    def work(transport):
        diloco = DiLoCo(build(), compressor=Uncompressed(), every=2, delay=delay, process_group=transport)
        if transport.rank == 0:
            diloco.outer_optimizers[0].step = Failing(build().parameters(), lr=1.0).step
        return [type(raised(diloco.step)).__name__ for _ in wanted]

    first, second = threads(2, work)
    assert first[2 + delay - 1] == "MemoryError" and second == wanted


def raised(call):
    try:
        call()
    except Exception as error:
        return error
    return None

"""MiCRO against dense masks: exclusive parts, exact averages, k values in every step, and exact residuals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.compressor_steps import alike, integers, make, steps, summed, top_mask

from bitlane.compress import MiCRO
from bitlane.compress.codecs import rice
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.compressors.quotas import reported_counts
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

CONTROLLERS = ["quotas", "published"]


def parts_of(step, ranks, n):
    """Return the begin and end of the part of each rank."""
    return [(n * part // ranks, n * (part + 1) // ranks) for part in ((rank + step) % ranks for rank in range(ranks))]


def gradients(seed, count, ranks, n, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal((count, ranks, n))).astype(np.float32)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("density", [0.002, 0.05])
def test_dense_masks_give_the_same_bits(seed, ranks, density):
    """The largest values of each part are sent up to its quota, k in total."""
    n = 1003
    inputs, residual = gradients(seed, 10, ranks, n), np.zeros((ranks, n), np.float32)
    found = steps(MiCRO(density), inputs)
    for step, vectors in enumerate(inputs):
        held = residual + vectors
        mask = found.averages[step, 0] != 0
        assert mask.sum() == max(1, round(density * n))
        for rank, (begin, end) in enumerate(parts_of(step, ranks, n)):
            assert np.array_equal(mask[begin:end], top_mask(held[rank, begin:end], int(mask[begin:end].sum())))
        assert np.array_equal(found.averages[step, 0], np.where(mask, summed(held), np.float32(0)))
        residual = np.where(mask, np.float32(0), held)  # at all ranks, exactly
        assert np.array_equal(found.kept[step], residual)
    assert alike(found.averages)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_the_published_controller(seed, ranks):
    """The authors' rule with a common threshold, on gradients of a suitable scale."""
    n, wanted = 2000, 20
    inputs, residual = gradients(seed, 60, ranks, n, 0.03), np.zeros((ranks, n), np.float32)
    found = steps(MiCRO(wanted / n, "published"), inputs)
    threshold, seen = 1 / (2 * np.sqrt(wanted)), set()
    for step, vectors in enumerate(inputs):
        held = residual + vectors
        mask = np.zeros(n, bool)
        for rank, (begin, end) in enumerate(parts_of(step, ranks, n)):
            mask[begin:end] = np.abs(held[rank, begin:end]) >= np.float32(threshold)
        assert np.array_equal(found.averages[step, 0], np.where(mask, summed(held), np.float32(0)))
        residual = np.where(mask, np.float32(0), held)
        ratio = int(mask.sum()) / wanted
        factor = 1.005 if ratio > 1.1 else 1.00125 if ratio > 0.909 else 0.995
        seen.add(factor)
        threshold *= factor
    assert alike(found.averages) and len(seen) > 1
    assert {state["threshold"] for state in found.states} == {threshold}


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_residuals_are_exact(seed, controller, ranks):
    """Exact, because float32 represents all sums of integers."""
    inputs = integers(seed, 20, ranks, 500)
    found = steps(MiCRO(0.03, controller), inputs)
    before = np.zeros(500)
    for step in range(20):
        after = found.kept[step].sum(axis=0, dtype=np.float64)
        came_in = inputs[step].sum(axis=0, dtype=np.float64) + before
        assert np.array_equal(came_in, ranks * found.averages[step, 0].astype(np.float64) + after)
        before = after


@pytest.mark.parametrize("scale", [1e-5, 1e-2, 10.0])
@pytest.mark.parametrize("kind", ["normal", "laplace", "heavy", "layers", "uneven ranks", "falling", "rare"])
def test_density_is_exact(seed, scale, kind):
    """In every step, including the first."""
    rng, n, ranks = np.random.default_rng(seed), 6000, 4
    inputs = {
        "normal": lambda: rng.standard_normal((25, ranks, n)),
        "laplace": lambda: rng.laplace(size=(25, ranks, n)),
        "heavy": lambda: rng.standard_t(1.5, (25, ranks, n)),
        "layers": lambda: rng.standard_normal((25, ranks, n)) * np.repeat(10.0 ** rng.uniform(-3, 0, 12), n // 12),
        "uneven ranks": lambda: rng.standard_normal((25, ranks, n)) * 10.0 ** np.arange(ranks)[:, None],
        "falling": lambda: rng.standard_normal((25, ranks, n)) * np.geomspace(1, 0.1, 25)[:, None, None],
        "rare": lambda: rng.standard_normal((25, ranks, n)) * (np.arange(25) % 5 == 0)[:, None, None],
    }[kind]()
    found = steps(MiCRO(0.01), (scale * inputs).astype(np.float32))
    assert np.count_nonzero(found.averages[:, 0], axis=1).tolist() == [60] * 25


def test_the_largest_values_of_all_parts_are_sent(seed):
    """With equal gradients on all ranks, at most 5 % of the indices differ from those of top-k."""
    n, ranks, wanted = 40_000, 8, 800
    scales = np.repeat(10.0 ** np.random.default_rng(seed).uniform(-1, 1, 20), n // 20)
    vector = (gradients(seed, 1, 1, n) * scales).astype(np.float32)
    found = steps(MiCRO(wanted / n), np.repeat(vector, ranks, axis=1)).averages[0, 0] != 0
    right = top_mask(vector[0, 0], wanted)
    assert (found & right).sum() >= 0.95 * wanted


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_bytes(seed, ranks):
    """Bytes follow the formula, and are at most 0.65 of padded 64-bit indices and a ring all-reduce of values."""
    n, wanted = 40_000, 400
    inputs = gradients(seed, 1, ranks, n)
    found = steps(MiCRO(wanted / n), inputs)
    mask, counts, codes = found.averages[0, 0] != 0, [], []
    for begin, end in parts_of(0, ranks, n):
        counts.append(int(mask[begin:end].sum()))
        codes.append(len(rice.encode(np.flatnonzero(mask[begin:end]), end - begin)))
    tails = 4 + 4 * len(reported_counts(wanted))
    for rank in range(ranks):
        answers, averages = 4 * (wanted - counts[rank]), (ranks - 1) * 4 * counts[rank]
        assert found.sent[rank] == (ranks - 1) * (tails + 8 + codes[rank]) + answers + averages
    authors = ranks * (ranks - 1) * (8 + 8 * max(counts)) + 2 * (ranks - 1) * 4 * wanted
    assert sum(found.sent) - ranks * (ranks - 1) * (tails + 8) <= 0.65 * authors


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize(("n", "ranks"), [(1, 1), (1, 4), (3, 8), (9, 8)])
def test_more_ranks_than_values(seed, controller, n, ranks):
    """Some parts are empty, and each value is sent after some steps."""
    inputs = integers(seed, 30, ranks, n) + np.float32(0.5)
    found = steps(MiCRO(0.01, controller), inputs)
    assert alike(found.averages)
    assert (found.averages[:, 0] != 0).any(axis=0).all()
    assert (
        np.abs(ranks * found.averages[:, 0].sum(axis=0) + found.kept[-1].sum(axis=0) - inputs.sum(axis=(0, 1))).max()
        < 1
    )


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_zero_gradients(seed, controller, ranks):
    """Zero gradients send nothing, and the next gradient is sent."""
    inputs = np.zeros((4, ranks, 200), np.float32)
    inputs[3] = 10 * gradients(seed, 1, ranks, 200)[0]
    found = steps(MiCRO(0.05, controller), inputs)
    assert not found.averages[:3].any() and found.averages[3, 0].any()


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_one_rank_holds_its_density(seed, controller):
    """The controller counts the indices also with a single rank."""
    found = steps(MiCRO(0.02, controller), gradients(seed, 150, 1, 1000, 0.05))
    counts = np.count_nonzero(found.averages[:, 0], axis=1)
    assert counts[-1] < 10 * 20 and counts.any()


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_restored_state_continues_identically(seed, controller):
    inputs = gradients(seed, 11, 3, 400, 0.1)
    straight = steps(MiCRO(0.02, controller), inputs)
    first = steps(MiCRO(0.02, controller), inputs[:4])
    second = steps(MiCRO(0.02, controller), inputs[4:], 4, first.states)
    assert straight.averages[4:].tobytes() == second.averages.tobytes()


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_redistribution_to_another_number_of_ranks(seed, controller):
    before = steps(MiCRO(0.02, controller), integers(seed, 4, 4, 200))
    mean = (before.kept[-1].sum(axis=0) / 4).astype(np.float32)

    def work(transport):
        reducer = make(MiCRO(0.02, controller), 200, transport)
        reducer.reshard(before.states, torch.from_numpy(mean))
        return reducer.residual().cpu().numpy(), reducer.state_dict().get("threshold")

    for kept, threshold in run_ranks_in_threads(3, work):
        assert np.array_equal(kept, mean) and threshold == before.states[0].get("threshold")


def test_the_state_of_another_controller_is_rejected():
    def work(transport):
        make(MiCRO(controller="published"), 50, transport).load_state_dict({"residual": torch.zeros(50)})

    with pytest.raises(DataError, match="no threshold: it was saved with another controller"):
        run_ranks_in_threads(1, work)


@pytest.mark.parametrize(("name", "value"), [("density", 0.0), ("density", 2.0), ("controller", "best")])
def test_invalid_settings(name, value):
    with pytest.raises(DataError, match=name):
        MiCRO(**{name: value})

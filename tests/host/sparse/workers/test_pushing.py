"""Kinds of pushes: settings, what they send, seeds."""

from __future__ import annotations

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.servers.row_codecs import GradientChunk
from bitlane.sparse.workers.pushing import KINDS, Pusher, PushSettings


def minibatch(seed: int, n: int = 200, values: int = 9) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    keys = np.unique(draw.integers(0, 1 << 64, n, np.uint64))
    return draw.permutation(keys), draw.normal(size=(len(keys), values)).astype(np.float32)


def mean_sent(kind: str, keys: np.ndarray, gradients: np.ndarray, seed: int, draws: int) -> np.ndarray:
    pusher, total = Pusher(PushSettings(kind), gradients.shape[1], seed), np.zeros(gradients.shape)
    place = {key: i for i, key in enumerate(keys.tolist())}
    for _ in range(draws):
        for chunk in pusher.choose(keys, gradients):
            total[[place[key] for key in chunk.keys.tolist()]] += chunk.gradients()
    return total / draws


def test_full_is_unchanged(seed: int) -> None:
    keys, gradients = minibatch(seed)
    (chunk,) = Pusher(PushSettings(), 9, seed).choose(keys, gradients)
    assert np.array_equal(chunk.keys, keys) and chunk.gradients().tobytes() == gradients.tobytes()


@pytest.mark.parametrize(("kind", "error"), [("float16", 2.0**-10), ("ternary", 9 / 8)])
def test_rounding_is_right_on_average(kind: str, error: float, seed: int) -> None:
    keys, gradients = minibatch(seed, 20)
    found = mean_sent(kind, keys, gradients, seed, 2000)
    largest = np.abs(gradients).max(axis=1, keepdims=True)
    assert np.abs((found - gradients) / largest).max() < 6 * 0.5 * error / np.sqrt(2000) + 2.0**-16


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_gives_the_pushes(kind: str, seed: int) -> None:
    def sent(start: int) -> list[list[GradientChunk]]:
        pusher = Pusher(PushSettings(kind, 0.3, 50, entry_bits=4), 9, start)
        return [pusher.choose(*minibatch(seed + i)) for i in range(3)]

    def as_bytes(pushes: list[list[GradientChunk]]) -> list[bytes]:
        return [chunk.keys.tobytes() + chunk.rows.tobytes() for chunks in pushes for chunk in chunks]

    assert as_bytes(sent(seed)) == as_bytes(sent(seed))
    assert (as_bytes(sent(seed)) == as_bytes(sent(seed + 1))) == (kind == "full")


def test_draws_differ_from_push_to_push(seed: int) -> None:
    keys, gradients = minibatch(seed)
    pusher = Pusher(PushSettings("ternary"), 9, seed)
    first, second = (pusher.choose(keys, gradients)[0].rows for _ in range(2))
    assert not np.array_equal(first, second)


def test_counts(seed: int) -> None:
    pusher = Pusher(PushSettings("topk", 0.25, 60), 9, seed)
    received = sent = 0
    for i in range(5):
        keys, gradients = minibatch(seed + i)
        received, sent = received + len(keys), sent + sum(len(p.keys) for p in pusher.choose(keys, gradients))
    assert (pusher.rows_received, pusher.rows_sent, pusher.residual_rows) == (received, sent, 60)
    assert 0 < pusher.rows_evicted <= sent and pusher.residual_bytes > 60 * 44
    assert sum(len(chunk.keys) for chunk in pusher.flush()) == 60 and pusher.rows_sent == sent + 60


@pytest.mark.parametrize("groups", [(), (3,), (5, 0), (2, 3)])
def test_groups_make_up_a_row(groups: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="groups of a push must have 4 values in all"):
        Pusher(PushSettings("topk"), 4, 0, groups)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_minibatch_sends_nothing(kind: str) -> None:
    pusher = Pusher(PushSettings(kind), 4, 0)
    chunks = pusher.choose(np.zeros(0, np.uint64), np.zeros((0, 4), np.float32))
    assert sum(len(chunk.keys) for chunk in [*chunks, *pusher.flush()]) == 0


def test_too_large_gradients_are_refused() -> None:
    key, large = np.array([77], np.uint64), np.full((1, 1), 1500, np.float32)
    for kind in ("ternary", "topk"):
        with pytest.raises(DataError, match=f"kind '{kind}' takes sizes below 2,048; the gradient of key 77"):
            Pusher(PushSettings(kind), 1, 0).choose(key, 2 * large)
    pusher = Pusher(PushSettings("topk", 0.1, 10), 1, 0)
    other = np.array([78], np.uint64)
    keys = np.concatenate([key, other])
    pusher.choose(keys, np.array([[1500], [1501]], np.float32))
    with pytest.raises(DataError, match=r"the sum of gradients of key 77 is larger .* last gradient \[1500.0\]"):
        pusher.choose(key, large)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "top"}, "kind of a push must be one of full, float16, ternary, few, topk; got 'top'"),
        ({"values": "float"}, "values of a push must be one of ternary, fixed; got 'float'"),
        ({"share": 0}, "share of a push must be above 0 and at most 1; got 0"),
        ({"share": 1.1}, "got 1.1"),
        ({"residual_rows": -1}, "residual_rows of a push"),
        ({"entry_bits": 0}, "entry_bits of a push"),
    ],
)
def test_bad_settings_are_refused(given: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        PushSettings(**given)


def test_few_bits_are_right_on_average_and_keep_nothing(seed: int) -> None:
    """Each row is sent at once; 3 bits and a sign; the mean over many pushes is the gradient."""
    keys, gradients = np.arange(4, dtype=np.uint64), np.array([[1.0, -0.3], [0.01, 0.02], [3.0, 0.0], [-7.0, 7.0]])
    gradients = gradients.astype(np.float32)
    pusher = Pusher(PushSettings("few"), 2, seed)
    total = np.zeros((4, 2))
    for _ in range(3000):
        for chunk in pusher.choose(keys, gradients):
            total[np.searchsorted(keys, chunk.keys)] += chunk.gradients()
    assert pusher.residual_rows == 0 and sum(len(chunk.keys) for chunk in pusher.flush()) == 0
    assert np.allclose(total / 3000, gradients, atol=0.02 * np.abs(gradients).max(axis=1, keepdims=True))

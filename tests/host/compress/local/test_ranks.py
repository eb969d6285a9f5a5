"""DiLoCo over gloo: real processes, killed and resumed; nothing is left behind."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from tests.helpers import diloco_scenes
from tests.helpers.diloco_scenes import BETWEEN, KILLED, SAVED_EVERY, build, textbook

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError

pytestmark = pytest.mark.torch

RANKS = 2


@pytest.fixture(scope="module")
def scenes():
    """Return the results of both ranks for each scene."""
    found = launch(diloco_scenes.play, RANKS, timeout=200)
    return {name: [rank[name] for rank in found] for name in found[0]}


def test_parameters_are_those_of_the_textbook(scenes):
    settings = {"every": 6, "fragments": [[0], [1, 2, 3]], "delay": 2, "blend": 0.5}
    wanted = textbook(build(0), 7, RANKS, 14, settings)
    for (found, _, _, _), expected in zip(scenes["over_gloo"], wanted, strict=True):
        for each in found[::2]:
            torch.testing.assert_close(each.double(), expected.cpu(), rtol=0, atol=2e-5)
    first, second = (found[1::2] for found, _, _, _ in scenes["over_gloo"])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))  # after `finish`


def test_close_frees_files_and_threads(scenes):
    for _, counts, threads, text in scenes["over_gloo"]:
        assert len(set(counts[1:])) == 1 and threads == 0
        assert text == "BitlaneError: step() after close(): create a new DiLoCo and load the state of this one"


def test_ddp_is_refused(scenes):
    for text in scenes["refuses_ddp"]:
        assert text.startswith("DataError: DistributedDataParallel averages every gradient") and "ddp.module" in text


def test_different_settings_raise_on_all_ranks(scenes):
    first, second = scenes["different_settings"]
    assert first == second
    for text in first:
        assert text.startswith("DataError: ranks have different settings: rank 0 has Schedule(every=5")


def test_a_process_group_of_a_part_of_the_ranks(scenes):
    assert scenes["own_group"] == [(1, True)] * RANKS


def test_a_rank_that_leaves_does_not_block_the_others(scenes):
    first, second = scenes["left_alone"]
    for text, in_time, ended in first:
        assert text.startswith("DataError: no more data") and in_time and ended
    for text, in_time, ended in second:
        assert text.startswith("RankFailed") and in_time and ended


def test_a_rank_with_an_error_does_not_wait_for_an_exchange(scenes):
    assert scenes["leaves_during_an_exchange"] == [("DataError: no more data", True, True), ("nothing", True, True)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Return the final parameters of both ranks by name."""
    return launch(diloco_scenes.train_all, RANKS, tmp_path_factory.mktemp("uninterrupted"), timeout=200)


@pytest.mark.parametrize("name", KILLED)
def test_resumption_after_a_kill_is_bit_identical(name, uninterrupted, seed, tmp_path):
    rng = np.random.default_rng(seed)
    victim, exchanges = int(rng.integers(RANKS)), int(rng.integers(*BETWEEN[name]))
    start = time.monotonic()
    with pytest.raises(BitlaneError, match=f"rank {victim} was ended by signal SIGKILL"):
        launch(diloco_scenes.train_and_die, RANKS, tmp_path, name, victim, exchanges, timeout=200)
    assert time.monotonic() - start < 100
    error, seconds, threads = (tmp_path / f"error-{1 - victim}.txt").read_text().split()
    assert error == "RankFailed" and float(seconds) < 20 and threads == "0"
    found = launch(diloco_scenes.train_and_die, RANKS, tmp_path, name, None, 0, timeout=200)
    for (first_step, parameters), expected in zip(found, uninterrupted, strict=True):
        assert first_step == SAVED_EVERY
        assert torch.equal(parameters, expected[name])

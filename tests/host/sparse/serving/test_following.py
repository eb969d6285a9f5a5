"""A label is followed: swaps without mixed answers, versions that fail, roll-backs, registries that are away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from tests.helpers.sparse_serving import MemoryRegistry, constant_model, inputs_of, random_model, whole_service

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.serving import following
from bitlane.sparse.serving.client import ScoringClient
from bitlane.sparse.serving.following import Follower
from bitlane.sparse.serving.served_model import NotReady, ServedModel
from bitlane.sparse.serving.server import ScoringServer

ROW = {"keys": ("UINT64", [7]), "offsets": ("INT64", [0, 1])}


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def source() -> MemoryRegistry:
    return MemoryRegistry(constant_model(1))


def test_the_version_of_the_label_answers(source: MemoryRegistry) -> None:
    with whole_service(source) as (server, browser):
        assert source.readers == {server.follower.reader: 1} and source.after is None
        source.models[2] = constant_model(2)
        source.move_label("production", 2)
        until(lambda: server.served.version.number == 2)
        assert browser.infer(**ROW)[1]["model_version"] == "2"
        assert source.after is source.models[1]  # of a change, only the change is read
        until(lambda: source.readers == {server.follower.reader: 2})
    assert source.readers == {}


def test_a_version_that_fails_leaves_the_last_good_one(source: MemoryRegistry, monkeypatch) -> None:
    monkeypatch.setattr(following, "FIRST_PAUSE", 0.05)
    with whole_service(source) as (server, browser):
        source.models[2] = DataError("rows-00000.frozen is damaged: its checksum is not that of the manifest")
        source.move_label("production", 2)
        until(lambda: server.follower.state.problem)
        health = browser.ask("/v2/health")[1]
        assert (health["ready"], health["version"], health["label_version"]) == (True, 1, 2)
        problem = "version 2 cannot be loaded: rows-00000.frozen is damaged: its checksum is not that of the manifest"
        assert health["problem"] == problem
        assert 'bitlane_serving_following{label="production",problem="version"} 0.0' in browser.ask("/metrics")[1]
        assert browser.infer(**ROW)[1]["outputs"][0]["data"] == [1.0]
        source.models[2] = constant_model(2)  # mended
        until(lambda: server.served.version.number == 2)
        assert browser.ask("/v2/health")[1]["problem"] is None


def test_a_version_that_fails_is_not_tried_all_the_time(source: MemoryRegistry) -> None:
    served = ServedModel("ctr")
    follower = Follower(source, "production", served)
    follower._turn_to(1)
    source.models[2] = DataError("damaged")
    source.move_label("production", 2)
    for _ in range(5):
        follower.look()
    assert source.loads == [1, 2]
    source.move_label("production", 1)
    follower.look()
    assert follower.state.problem is None and served.version.number == 1


def test_a_roll_back_loads_nothing(source: MemoryRegistry) -> None:
    served = ServedModel("ctr")
    follower = Follower(source, "production", served)
    follower._turn_to(1)
    source.models[2] = constant_model(2)
    for version in (2, 1, 2):
        source.move_label("production", version)
        follower.look()
        assert served.version.number == version
    assert source.loads == [1, 2]


def test_a_registry_that_is_away_does_not_stop_the_service(source: MemoryRegistry) -> None:
    with whole_service(source) as (server, browser):
        source.unreachable = BitlaneError("no route to host")
        until(lambda: server.follower.state.problem)
        assert browser.ask("/v2/health")[1]["problem"] == "label 'production' cannot be read: no route to host"
        assert browser.infer(**ROW)[0] == 200
        source.unreachable = None
        until(lambda: server.follower.state.problem is None)


def test_without_a_first_version_the_service_does_not_start(source: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="memory has no label 'candidate'"):
        ScoringServer("ctr", source, "candidate").start()
    source.models[1] = DataError("damaged")
    with pytest.raises(DataError, match="damaged"):
        ScoringServer("ctr", source, "production").start()
    with pytest.raises(NotReady, match="model ctr is not loaded yet"):
        _ = ServedModel("ctr").version
    assert not [each for each in threading.enumerate() if each.name.startswith("bitlane-follow")]


def test_swaps_under_load_never_mix_versions(source: MemoryRegistry, seed: int) -> None:
    """Each prediction tells its version: of an answer, all are of the version that it names."""
    source.models[2] = constant_model(2)
    draw, stop, seen, wrong = np.random.default_rng(seed), threading.Event(), set(), []
    lengths = draw.integers(0, 900, 60)
    keys = draw.integers(0, 2**64, int(lengths.sum()), dtype=np.uint64)  # shared by threads of the scorer
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def ask() -> None:
        with ScoringClient(server.flight_address, deadline=20) as client:
            while not stop.is_set():
                answer = client.score(keys, offsets)
                seen.add(answer.version)
                if len(answer.predictions) != 60 or (answer.predictions != answer.version).any():
                    wrong.append(answer)

    with whole_service(source, threads=2) as (server, browser):
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for turn in range(30):
            version = 2 - turn % 2
            source.move_label("production", version)
            until(lambda version=version: server.served.version.number == version)
            status, answer = browser.ask("/v2/models/ctr/infer", {"inputs": inputs_of(ROW)})
            assert status == 200
            assert answer["outputs"][0]["data"] == [float(answer["model_version"])]
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong and seen == {1, 2}


def test_columns_and_weights_of_a_request_are_of_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose columns were read for one version is read again when another has come meanwhile."""
    model = random_model(3)
    served, source = ServedModel("ctr"), MemoryRegistry(model)
    follower = Follower(source, "production", served)
    follower._turn_to(1)
    source.models[2] = constant_model(2)
    read = []

    def swap_meanwhile(version):
        read.append(version.number)
        if len(read) == 1:
            source.move_label("production", 2)
            follower.look()
        return empty

    from bitlane.sparse.serving.requests import batch_of

    empty = batch_of(np.zeros(0, np.uint64), np.zeros(2, np.int64))
    answer = served.answer("http", swap_meanwhile)
    assert read == [1, 2] and answer.version == 2 and answer.predictions.tolist() == [2.0]

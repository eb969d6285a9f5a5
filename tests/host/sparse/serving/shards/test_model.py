"""Predictions with weights on several servers: the bits of one process, and partial ones with their flag."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow.flight")

from tests.helpers.sparse_serving import flight_service, random_model, random_request, serving
from tests.helpers.sparse_shards import Cluster, front_of, wait_until

from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.layout import Layout
from bitlane.sparse.scoring.scorer import SHARED_FEATURES, Scorer
from bitlane.sparse.serving.client import ScoringClient
from bitlane.sparse.serving.protocol import InferRequest, write_answer
from bitlane.sparse.serving.served_model import Answer
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import ShardsMissing
from bitlane.sparse.serving.shards.model import ShardedModel

OPTIONS = FrontOptions(deadline=5)


class ModelCluster(Cluster):
    """Weight servers that have the rows of a model in each version."""

    def __init__(self, model, shards: int, replicas: int = 1):
        self._rows = model.weights
        super().__init__(0, shards, replicas, values=Layout(model.spec.blocks()).values)

    def rows(self, version: int) -> dict[int, np.ndarray]:
        return self._rows

    def close(self) -> None:
        for server in self.all():
            server.stop()


@pytest.mark.parametrize(
    "spec",
    [{"kind": "lr"}, {"kind": "fm", "dim": 4, "loss": "squared_error"}, {"kind": "ffm", "fields": 4}],
    ids=lambda spec: spec["kind"],
)
def test_predictions_have_the_bits_of_one_process(seed, spec):
    model = random_model(seed, keys=400, **spec)
    servers = ModelCluster(model, 3)
    with front_of(servers, OPTIONS) as front:
        sharded = ShardedModel(model.spec, front, model.dense, 1)
        for each in range(3):
            batch = random_request(model, seed + each, rows=40)
            assert sharded.predict(batch).tobytes() == model.predict(batch).tobytes()
            assert sharded.scores(batch).tobytes() == model.scores(batch).tobytes()
    servers.close()


def test_a_missing_shard_is_told_and_its_keys_are_unknown(seed):
    """By the scorer, with and without threads, over Arrow Flight, and in JSON; nobody else scores without it."""
    model = random_model(seed, keys=400)
    servers = ModelCluster(model, 2)
    batch = random_request(model, seed, rows=SHARED_FEATURES, fields=1)
    kept = {key: row for key, row in model.weights.items() if servers.partition.owners(np.array([key], np.uint64))[0]}
    whole = model.predict(batch)
    rest = type(model)(model.spec, kept, model.intercept).predict(batch)
    assert whole.tobytes() != rest.tobytes()
    with front_of(servers, OPTIONS) as front:
        sharded = ShardedModel(model.spec, front, model.dense, 1)
        served = serving(sharded)
        scorers = [Scorer(sharded), Scorer(sharded, 2)]
        with flight_service(served) as address, ScoringClient(address, deadline=20) as client:
            for expected, missing in ((whole, ()), (rest, (0,))):
                if missing:
                    servers.servers[0][0].stop()
                    wait_until(lambda: not front.replicas[0][0].health.is_well)
                before = front.state()["requests"]
                for scorer in scorers:
                    scored = scorer.score(batch)
                    assert (scored.missing, scored.is_partial) == (missing, bool(missing))
                    assert scored.predictions.tobytes() == expected.tobytes()
                assert front.state()["requests"] == before + 4  # one to each shard, with threads too
                answer = client.score_batch(batch)
                assert answer.missing == missing and answer.predictions.tobytes() == expected.tobytes()
                assert served.counts.partial["flight"] == len(missing)
        with pytest.raises(ShardsMissing, match=r"^shard 0 did not answer"):
            sharded.predict(batch)
        for scorer in scorers:
            scorer.close()
    servers.close()


def test_partial_answers_in_json():
    for missing, parameters in (((), {"seconds": 0.5}), ((2, 5), {"seconds": 0.5, "missing_shards": [2, 5]})):
        answer = Answer(np.ones(1, np.float32), 3, 0.5, missing)
        found = json.loads(write_answer("ctr", answer, InferRequest({})))["parameters"]
        assert found.pop("partial", False) == bool(missing) and found == parameters


def test_another_width_of_rows_comes_with_a_version(seed):
    """Lanes stay open: versions need not have as many weights a key."""
    narrow, wide = random_model(seed, "lr"), random_model(seed, "fm", dim=4)
    servers = ModelCluster(narrow, 2)
    with front_of(servers, OPTIONS) as front:
        batch = random_request(narrow, seed)
        first = ShardedModel(narrow.spec, front, narrow.dense, 1)
        assert first.predict(batch).tobytes() == narrow.predict(batch).tobytes()
        servers._rows, servers.values = wide.weights, Layout(wide.spec.blocks()).values
        front.load(2)
        second = ShardedModel(wide.spec, front, wide.dense, 2)
        assert second.predict(batch).tobytes() == wide.predict(batch).tobytes()
        assert first.predict(batch).tobytes() == narrow.predict(batch).tobytes()
        assert ModelSpec("lr") == first.spec
    servers.close()

"""Services answer with the calibrated predictions of a version, by both protocols, in one process and in shards."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow.flight")
pytest.importorskip("starlette")
pytest.importorskip("sklearn")

from tests.helpers.sparse_calibration import textbook_probability
from tests.helpers.sparse_registry import saved
from tests.helpers.sparse_serving import key_tensors, whole_service
from tests.helpers.sparse_shards import wait_until
from tests.helpers.sparse_validation import Validated

from bitlane.sparse.registry.calibrating import fit_calibrator
from bitlane.sparse.registry.folders import publish_folder
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.serving.client import ScoringClient
from bitlane.sparse.serving.recording import read_record
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.front import Front
from bitlane.sparse.serving.shards.server import WeightService
from bitlane.sparse.serving.shards.source import RegistryShard, ShardedRegistry
from bitlane.sparse.serving.shards.versions import HeldVersions


def calibrated_registry(folder: Path, seed: int) -> Validated:
    """Version 1 has Platt's line, version 2 the same weights and isotonic steps."""
    given = Validated(folder / "ctr", seed)
    given.shift(1.0)
    for version, kind in ((1, "platt"), (2, "isotonic")):
        publish_folder(
            given.registry,
            saved(folder / "m", given.model),
            parent=version - 1 or None,
            shards=2,
            calibrate=lambda model, kind=kind: fit_calibrator(model, given.batches(), kind),
        )
    return given


def test_both_protocols_and_the_record_are_calibrated(tmp_path: Path, seed: int) -> None:
    """With a swap from one calibrator to the other, which shares the rows."""
    given = calibrated_registry(tmp_path, seed)
    rows, registry = given.held_out.slice(0, 100), given.registry
    registry.move_label("production", 1)
    with whole_service(registry, record=tmp_path / "record.arrow", record_share=1.0) as (server, browser):
        wait_until(lambda: browser.ask("/v2/models/ctr/ready")[0] == 200)
        with ScoringClient(server.flight_address, deadline=20) as client:
            for version in (1, 2):
                registry.move_label("production", version)
                wait_until(lambda version=version: client.score_batch(rows.slice(0, 1)).version == version)
                expected = registry.load(version).predict(rows)
                record = registry.manifest(version).description.calibrator
                wanted = [textbook_probability(record, score) for score in given.model.scores(rows).tolist()]
                np.testing.assert_allclose(expected, wanted, rtol=1e-5, atol=1e-6)
                assert client.score_batch(rows).predictions.tobytes() == expected.tobytes()
                status, answer = browser.infer(**key_tensors(rows))
                assert status == 200 and answer["model_version"] == str(version)
                assert answer["outputs"][0]["data"] == expected.tolist()
    for batch, answer, version in read_record(tmp_path / "record.arrow"):
        assert answer.tobytes() == registry.load(version).predict(batch).tobytes()


@pytest.mark.parametrize("version", [1, 2])
def test_shards_are_calibrated(tmp_path: Path, seed: int, version: int) -> None:
    given, partition = calibrated_registry(tmp_path, seed), Partition(2)
    uri = given.registry.uri
    services = [WeightService(HeldVersions(RegistryShard(uri, each, partition)), each, partition) for each in (0, 1)]
    addresses = [f"127.0.0.1:{each.port}" for each in services]
    front = Front(lambda shard, _: addresses[shard], 2, 1, FrontOptions(deadline=20))
    try:
        model = ShardedRegistry(uri, front).load(version)
        expected = given.registry.load(version).predict(given.held_out)
        assert model.predict(given.held_out).tobytes() == expected.tobytes()
        assert model.predict_partial(given.held_out)[0].tobytes() == expected.tobytes()
    finally:
        front.close()
        for service in services:
            service.refuse()
            service.shutdown()

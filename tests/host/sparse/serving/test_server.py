"""A whole service with a registry on the disk: versions on it, damaged files, a model's answers, TLS, the record."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_serving import (
    Browser,
    MemoryRegistry,
    constant_model,
    inputs_of,
    key_tensors,
    random_model,
    random_request,
    whole_service,
)

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.servers.lanes import listen
from bitlane.sparse.serving.client import ScoringClient
from bitlane.sparse.serving.recording import read_record
from bitlane.sparse.serving.server import ScoringServer, ServerOptions

ROW = {"keys": ("UINT64", [7]), "offsets": ("INT64", [0, 1])}


def until(condition) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_versions_of_a_registry_answer_as_the_models_did(tmp_path: Path, seed: int) -> None:
    """A base, a delta, and a delta with a flipped bit, which does not answer."""
    rows = planted_rows(seed, 400)
    model, registry = SparseModel(ModelSpec("fm", seed=1)), ModelRegistry(tmp_path / "ctr")
    publisher, wanted = Publisher(registry, model), {}
    for version, part in enumerate((rows.slice(0, 200), rows.slice(200, 300), rows.slice(300, 400)), 1):
        model.learn(part)
        assert publisher.publish({"auc": 0.7}).version == version
        wanted[version] = model.predict(rows)
    registry.move_label("production", 1)
    with whole_service(registry) as (server, browser):
        for version in (1, 2):
            registry.move_label("production", version)
            until(lambda version=version: server.served.version.number == version)
            status, answer = browser.infer(**key_tensors(rows))
            assert status == 200
            assert np.float32(answer["outputs"][0]["data"]) == pytest.approx(wanted[version], rel=1e-5)
            with ScoringClient(server.flight_address, deadline=20) as client:
                assert client.score_batch(rows).predictions == pytest.approx(wanted[version], rel=1e-5)
        assert registry.readers() == {server.follower.reader: 2}
        file = next((tmp_path / "ctr" / "versions" / "0000003").glob("rows-*"))
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.chmod(0o644)
        file.write_bytes(bytes(data))
        registry.move_label("production", 3)
        until(lambda: server.follower.state.problem)
        assert browser.ask("/v2/health")[1]["problem"].startswith("version 3 cannot be loaded: ")
        status, answer = browser.infer(**key_tensors(rows))
        assert np.float32(answer["outputs"][0]["data"]) == pytest.approx(wanted[2], rel=1e-5)
        registry.roll_back("production", "damaged")
        until(lambda: server.follower.state.problem is None)
        found = browser.ask("/status")[1]
        assert found.get("registry_problem") is None
        assert [each["version"] for each in found["versions"]] == [3, 2, 1]
        assert found["moves"][0]["reason"] == "damaged" and found["labels"] == {"production": 2}
    assert registry.readers() == {}


def test_a_share_of_the_requests_is_recorded(tmp_path: Path, seed: int) -> None:
    model, path = random_model(seed, "ffm", fields=4), tmp_path / "requests.arrows"
    batches = [random_request(model, seed + each) for each in range(4)]
    with whole_service(MemoryRegistry(model), record=path, record_share=1.0) as (server, browser):
        with ScoringClient(server.flight_address, deadline=20) as client:
            answers = [client.score_batch(batch).predictions for batch in batches]
        assert browser.infer(**key_tensors(batches[0], fields=True))[0] == 200
        until(lambda: browser.ask("/status")[1]["record"] == {"requests": 5, "left_out": 0, "problem": None})
    found = list(read_record(path))
    assert len(found) == 5
    for (batch, predictions, version), wanted, answer in zip(found, batches, answers, strict=False):
        assert version == 1 and np.array_equal(predictions, answer)
        for name in ("keys", "fields", "values", "offsets"):
            assert np.array_equal(getattr(batch, name), getattr(wanted, name))
    with pytest.raises(DataError, match=r"requests\.arrows exists: use a new name"):
        ScoringServer("ctr", MemoryRegistry(model), "production", ServerOptions(record=path)).start()


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    source = MemoryRegistry(constant_model(1))
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        record = tmp_path / "requests.arrows"
        for options in (ServerOptions(port=port, record=record), ServerOptions(flight_port=port, record=record)):
            with pytest.raises(BitlaneError, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
                ScoringServer("ctr", source, "production", options).start()
    assert not record.exists()
    with pytest.raises(DataError, match=r"a server on 0\.0\.0\.0 can be reached .* it needs a token and TLS"):
        ScoringServer("ctr", source, "production", ServerOptions(host="0.0.0.0"))
    with pytest.raises(DataError, match="name of a model must have no '/'"):
        ScoringServer("a/b", source, "production")
    with pytest.raises(BitlaneError, match="No such file"):
        ScoringServer("ctr", source, "production", ServerOptions(tls=(tmp_path / "a", tmp_path / "b"))).start()
    assert source.readers == {}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate by openssl")
def test_tls(tmp_path: Path) -> None:
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    key, certificate = tmp_path / "key", tmp_path / "cert"
    subprocess.run([*command.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    options = ServerOptions(host="0.0.0.0", token="t", tls=(certificate, key), poll=0.02)
    with ScoringServer("ctr", MemoryRegistry(constant_model(3)), "production", options) as server:
        port = int(server.http_address.rpartition(":")[2])
        trusting = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("localhost", port, context=trusting, timeout=20)
        body = json.dumps({"inputs": inputs_of(ROW)})
        connection.request("POST", "/v2/models/ctr/infer", body, {"authorization": "Bearer t"})
        assert json.loads(connection.getresponse().read())["outputs"][0]["data"] == [3.0]
        connection.close()
        address = f"localhost:{server.flight_address.rpartition(':')[2]}"
        with ScoringClient(address, token="t", certificates=certificate.read_text(), deadline=20) as client:
            assert client.score(np.array([7], np.uint64), np.array([0, 1])).predictions.tolist() == [3.0]
        plain = Browser(f"localhost:{port}")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.ask("/v2")


@pytest.mark.parametrize("lane", ["http", "flight"])
def test_running_requests_end_before_the_service_does(lane: str) -> None:
    model, begun, go = constant_model(3), threading.Event(), threading.Event()
    predict, found = model.predict_partial, []
    with whole_service(MemoryRegistry(model)) as (server, browser):
        client = ScoringClient(server.flight_address, deadline=20)

        def slow(batch):
            begun.set()
            assert go.wait(20)
            return predict(batch)

        def ask() -> None:
            if lane == "http":
                found.append(browser.infer(**ROW)[0])
            else:
                found.append(client.score(np.array([7], np.uint64), np.array([0, 1])).version)

        model.predict_partial = slow
        asking = threading.Thread(target=ask)
        asking.start()
        assert begun.wait(10)
        ending = threading.Thread(target=server.close)
        ending.start()
        time.sleep(0.2)
        assert ending.is_alive() and not found
        go.set()
        asking.join()
        ending.join()
        client.close()
    assert found == [200 if lane == "http" else 3]

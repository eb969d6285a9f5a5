"""`bitlane sparse serve`: one line when it is ready, answers, the end by signals, one line for what is wrong."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_serving import Browser, inputs_of

from bitlane.cli.main import main
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.serving.client import ScoringClient

READY = re.compile(r"ctr, version 1, at http://(127\.0\.0\.1:\d+) and grpc://(127\.0\.0\.1:\d+)\n")
ROW = {"keys": ("UINT64", [7]), "offsets": ("INT64", [0, 1])}


@pytest.fixture
def registry(tmp_path: Path) -> ModelRegistry:
    """A model with one version, which is in production."""
    found, model = ModelRegistry(tmp_path / "ctr"), SparseModel(ModelSpec("lr"))
    model.learn(planted_rows(1, 50))
    Publisher(found, model).publish()
    found.move_label("production", 1)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(registry: ModelRegistry, number: signal.Signals) -> None:
    command = [
        sys.executable,
        "-m",
        "bitlane.cli",
        "sparse",
        "serve",
        registry.uri,
        "--port",
        "0",
        "--flight-port",
        "0",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            ready = READY.fullmatch(process.stdout.readline())
            assert ready is not None
            browser, client = Browser(ready[1]), ScoringClient(ready[2], deadline=20)
            status, answer = browser.ask("/v2/models/ctr/infer", {"inputs": inputs_of(ROW)})
            assert status == 200
            found = client.score(np.array([7], np.uint64), np.array([0, 1]))
            assert found.predictions.tolist() == answer["outputs"][0]["data"]
            process.send_signal(number)  # the client's lane is still open
            assert process.wait(20) == 0
            assert process.stderr.read() == ""
            browser.close()
            client.close()
        finally:
            process.kill()
    assert registry.readers() == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "candidate"], "has no label 'candidate'"),
        (["--label", "7"], "has no version 7"),
        (["--host", "0.0.0.0"], "can be reached from other machines: it needs a token and TLS"),
        (["--tls-key", "key.pem"], "TLS needs both --tls-certificate and --tls-key"),
        (["--token-file", "missing"], "missing cannot be read"),
        (["--record-share", "0.5"], "--record-share needs --record"),
        (["--shards", "2", "--map"], "--map needs one process: omit --shards"),
        (["--replicas", "2"], "--replicas needs --shards"),
        (["--hedge-share", "0.2"], "--hedge-share needs --shards"),
        (["--shards", "2", "--ray-address", "a:1"], "--ray-address needs --placement ray"),
        (["--shards", "257"], "servers must be 1 to 256, the number of virtual shards; got 257"),
        (["--shards", "1", "--lookup-seconds", "0"], "the deadline must be above 0 seconds; got 0.0"),
        (
            ["--shards", "1", "--replicas", "2", "--hedge-quantile", "2"],
            "the quantile must be between 0 and 1; got 2.0",
        ),
        (["--shards", "2", "--label", "7"], "has no version 7"),
        (["--shards", "1", "--placement", "ray", "--ray-address", "a:1"], "each node has: add --shards-token-file"),
        (
            ["--shards", "1", "--placement", "ray", "--ray-address", "a:1", "--shards-token-file", "t"],
            "need TLS: add --tls-certificate",
        ),
        (["--record", "r.arrows", "--record-share", "2"], "share of recorded requests must be above 0 and at most 1"),
    ],
)
def test_what_is_wrong_is_one_line(
    registry: ModelRegistry, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sparse", "serve", registry.uri, "--port", "0", "--flight-port", "0", *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and not captured.out


@pytest.mark.parametrize("placement", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_model_in_shards(registry: ModelRegistry, placement: str) -> None:
    """Its answers have the bits of one process; its processes end with it, and the registry forgets it."""
    if placement == "ray":
        pytest.importorskip("ray")
    options = ["--port", "0", "--flight-port", "0", "--shards", "2", "--lookup-seconds", "5", "--placement", placement]
    command = [sys.executable, "-m", "bitlane.cli", "sparse", "serve", registry.uri, *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            ready = READY.fullmatch(process.stdout.readline())
            assert ready is not None
            batch = planted_rows(2, 50)
            with ScoringClient(ready[2], deadline=20) as client:
                answer = client.score_batch(batch)
            assert answer.predictions.tobytes() == registry.load(1).predict(batch).tobytes()
            assert (answer.version, answer.missing) == (1, ())
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()
    assert registry.readers() == {}

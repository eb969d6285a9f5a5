"""Models and services for the tests of serving, and float64 textbooks of their predictions."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.helpers.sparse_textbook import ffm_score, fm_score, lr_score

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.layout import Layout
from bitlane.sparse.scoring.layers import LayeredTable
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.serving.flight import ScoringService
from bitlane.sparse.serving.served_model import ServedModel, ServedVersion
from bitlane.sparse.serving.server import ScoringServer, ServerOptions
from bitlane.sparse.tables.combining import sorted_rows
from bitlane.sparse.tables.frozen import freeze

CREATED = "2026-01-02T03:04:05+00:00"


class SmallModel(FrozenModel):
    """A frozen model, and its weights by key for the textbook."""

    def __init__(self, spec: ModelSpec, weights: Mapping[int, np.ndarray], intercept: float = 0.0, version: int = 1):
        self.weights, self.intercept = dict(weights), intercept
        keys = np.array(list(weights), np.uint64)
        rows = np.array(list(weights.values()), np.float32).reshape(len(keys), -1)
        table = freeze([sorted_rows(keys, rows)], len(keys), rows.shape[1])
        dense = {"intercept": np.array([intercept], np.float32)} if spec.intercept else {}
        super().__init__(spec, LayeredTable(table), dense, version)


def random_model(seed: int, kind: str = "lr", keys: int = 50, version: int = 1, **settings) -> SmallModel:
    """A model with random weights for random keys, and a random intercept if it has one."""
    draw = np.random.default_rng(seed)
    spec = ModelSpec(kind, **settings)
    values = Layout(spec.blocks()).values
    names = draw.integers(0, 2**64, keys, dtype=np.uint64)
    weights = {int(key): draw.normal(size=values).astype(np.float32) / 2 for key in names}
    return SmallModel(spec, weights, float(np.float32(draw.normal())) if spec.intercept else 0.0, version)


def constant_model(version: int) -> SmallModel:
    """A regression that predicts its version's number for every row."""
    return SmallModel(ModelSpec("lr", "squared_error"), {0: np.zeros(1, np.float32)}, float(version), version)


def random_request(model: SmallModel, seed: int, rows: int = 12, fields: int = 4) -> Batch:
    """Rows of known and unknown keys with values, some of them empty."""
    draw = np.random.default_rng(seed)
    known = np.array(list(model.weights), np.uint64)
    lengths = draw.integers(0, 6, rows)
    lengths[draw.integers(0, rows)] = 0
    nnz = int(lengths.sum())
    keys = np.where(draw.random(nnz) < 0.7, draw.choice(known, nnz), draw.integers(0, 2**64, nnz, dtype=np.uint64))
    return Batch(
        keys.astype(np.uint64),
        draw.integers(0, fields, nnz).astype(np.uint16),
        draw.normal(size=nnz).astype(np.float32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.zeros(rows, np.float32),
    )


def textbook_predictions(model: SmallModel, batch: Batch) -> list[float]:
    """Predictions in float64, feature by feature; unknown keys contribute nothing."""
    found, spec = [], model.spec
    for r in range(batch.rows):
        part = range(batch.offsets[r], batch.offsets[r + 1])
        known = [j for j in part if int(batch.keys[j]) in model.weights]
        rows = [model.weights[int(batch.keys[j])].astype(np.float64) for j in known]
        x, fields = [float(batch.values[j]) for j in known], [int(batch.fields[j]) for j in known]
        if spec.kind == "ffm":
            score = ffm_score(rows, fields, x, spec.size, normalise=False)
            norm = sum(float(batch.values[j]) ** 2 for j in part)
            score = model.intercept + (score / norm if spec.normalise and norm else score)
        else:
            score = {"lr": lr_score, "fm": fm_score}[spec.kind](model.intercept, rows, fields, x)
        found.append(1 / (1 + math.exp(-score)) if spec.loss == "log_loss" else score)
    return found


@contextlib.contextmanager
def flight_service(served: ServedModel, **options) -> Iterator[str]:
    """Serve over Arrow Flight by threads of this process; yield the address. Clients must be closed before the end."""
    service = ScoringService(served, **options)
    try:
        yield f"127.0.0.1:{service.port}"
    finally:
        service.refuse()
        service.shutdown()


def serving(model, **options) -> ServedModel:
    """A served model with its first version."""
    served = ServedModel("ctr", **options)
    served.swap(ServedVersion(model))
    return served


class MemoryRegistry:
    """Versions and labels in memory, as a `ModelRegistry` has them, with versions that cannot be loaded."""

    def __init__(self, *models: FrozenModel, data: Mapping[str, Any] | None = None, label: str = "production"):
        self.models: dict[int, FrozenModel | BitlaneError] = {}
        self.readers: dict[str, int] = {}
        self.moves: list[SimpleNamespace] = []
        self.loads: list[int] = []
        self.unreachable: BitlaneError | None = None
        self._data = dict(data or {})
        for model in models:
            self.models[model.version] = model
            self.move_label(label, model.version)

    def move_label(self, name: str, version: int, reason: str = "") -> None:
        self.moves.append(SimpleNamespace(label=name, version=version, time=CREATED, reason=reason))

    def resolve(self, name: str) -> int:
        if self.unreachable is not None:
            raise self.unreachable
        if name.isdecimal():
            return int(name)
        if name not in self.labels():
            raise DataError(f"memory has no label {name!r}")
        return self.labels()[name]

    def manifest(self, version: int) -> SimpleNamespace:
        described = SimpleNamespace(data=self._data, metrics={"auc": 0.75 + version / 1000, "log_loss": 0.5})
        return SimpleNamespace(
            version=version, kind="base", parent=None, created=CREATED, rows=5, nbytes=100, description=described
        )

    def load(self, version: int, *, cache: Path | None = None, after: FrozenModel | None = None) -> FrozenModel:
        self.loads.append(version)
        self.after = after
        found = self.models[version]
        if isinstance(found, BitlaneError):
            raise found
        return found

    def versions(self) -> list[SimpleNamespace]:
        return [self.manifest(version) for version in self.models]

    def labels(self) -> dict[str, int]:
        return {move.label: move.version for move in self.moves}

    def history(self, name: str) -> list[SimpleNamespace]:
        return [move for move in self.moves if move.label == name]

    def note_reader(self, reader: str, version: int) -> None:
        self.readers[reader] = version

    def forget_reader(self, reader: str) -> None:
        self.readers.pop(reader, None)


class Browser:
    """Requests over HTTP on one connection, as they are."""

    def __init__(self, address: str, **headers: str):
        host, _, port = address.rpartition(":")
        self._connection, self._headers = http.client.HTTPConnection(host, int(port), timeout=20), headers

    def ask(self, path: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
        """Status and JSON, or text, of an answer."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        self._connection.request(method, path, sent, self._headers)
        answer = self._connection.getresponse()
        self.headers = dict(answer.getheaders())
        text = answer.read()
        return answer.status, json.loads(text) if self.headers.get(
            "content-type"
        ) == "application/json" else text.decode()

    def infer(self, **tensors: object) -> tuple[int, Any]:
        """Ask for predictions; a tensor is a datatype and data."""
        return self.ask("/v2/models/ctr/infer", {"inputs": inputs_of(tensors)})

    def close(self) -> None:
        self._connection.close()


def inputs_of(tensors: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Inputs of a request; each tensor is a datatype and data."""
    return [
        {"name": name, "datatype": datatype, "shape": [len(data)], "data": data}
        for name, (datatype, data) in tensors.items()
    ]


def key_tensors(batch: Batch, fields: bool = False) -> dict[str, Any]:
    """The tensors of a batch."""
    found = {
        "keys": ("UINT64", batch.keys.tolist()),
        "offsets": ("INT64", batch.offsets.tolist()),
        "values": ("FP32", batch.values.tolist()),
    }
    return {**found, "fields": ("UINT16", batch.fields.tolist())} if fields else found


@contextlib.contextmanager
def whole_service(source: MemoryRegistry, label: str = "production", **options) -> Iterator[tuple[Any, Browser]]:
    """Serve over HTTP and Arrow Flight; yield the server and a browser."""
    with ScoringServer("ctr", source, label, ServerOptions(**{"poll": 0.02, **options})) as server:
        headers = {} if options.get("token") is None else {"authorization": f"Bearer {options['token']}"}
        browser = Browser(server.http_address, **headers)
        try:
            yield server, browser
        finally:
            browser.close()

"""Answers over Arrow Flight against float64 textbooks; bad requests, deadlines and lost connections."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from tests.helpers.sparse_serving import (
    constant_model,
    flight_service,
    random_model,
    random_request,
    serving,
    textbook_predictions,
)

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.servers.connection import DeadlineExceeded
from bitlane.sparse.servers.wire import ServerBusy
from bitlane.sparse.serving.client import ScoringClient
from bitlane.sparse.serving.flight import ScoringService
from bitlane.sparse.serving.requests import RequestBounds
from bitlane.sparse.serving.served_model import ServedVersion

NONE = np.zeros(0, np.uint64)
ROW = (np.array([7], np.uint64), np.array([0, 1], np.int64))


@pytest.fixture
def client():
    with flight_service(serving(constant_model(3))) as address, ScoringClient(address, deadline=20) as found:
        yield found


@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
def test_predictions_are_those_of_the_textbook(kind: str, seed: int) -> None:
    model = random_model(seed, kind, **({"fields": 4} if kind == "ffm" else {}))
    with flight_service(serving(model)) as address, ScoringClient(address, deadline=20) as client:
        for each in range(3):
            batch = random_request(model, seed + each)
            answer = client.score_batch(batch)
            assert answer.predictions == pytest.approx(textbook_predictions(model, batch), rel=1e-5, abs=1e-6)
            assert answer.version == 1 and answer.seconds > 0


@pytest.mark.parametrize("kind", ["lr", "ffm"])
def test_values_that_are_left_out_are_1(kind: str, seed: int) -> None:
    model = random_model(seed, kind, **({"fields": 3} if kind == "ffm" else {}))
    batch = random_request(model, seed, fields=3)
    ones = Batch(batch.keys, batch.fields, np.ones_like(batch.values), batch.offsets, batch.labels)
    fields = batch.fields if kind == "ffm" else None
    with flight_service(serving(model)) as address, ScoringClient(address, deadline=20) as client:
        found = client.score(batch.keys, batch.offsets, fields=fields)
        assert found.predictions == pytest.approx(textbook_predictions(model, ones), rel=1e-5, abs=1e-6)


def test_fields_are_asked_for_where_they_count(seed: int) -> None:
    """By the server of whoever leaves them out; a client finds out when another version comes."""
    served, model = serving(constant_model(3)), random_model(seed, "ffm", fields=4)
    batch = random_request(model, seed)
    with flight_service(served) as address, ScoringClient(address, deadline=20) as client:
        assert not client.uses_fields and client.score_batch(batch).version == 3
        served.swap(ServedVersion(model))
        with pytest.raises(DataError, match="version 1 of the model uses fields: send a field for each key"):
            client.score(batch.keys, batch.offsets)
        found = client.score_batch(batch)
        assert found.predictions == pytest.approx(textbook_predictions(model, batch), rel=1e-5, abs=1e-6)
        assert client.uses_fields


@pytest.mark.parametrize("kind", ["lr", "fm"])
def test_shared_features_belong_to_each_row(kind: str, seed: int) -> None:
    model = random_model(seed, kind)
    batch = random_request(model, seed, rows=9)
    rows = [batch.slice(0, 1)] + [Batch.concatenate([batch.slice(0, 1), batch.slice(r, r + 1)]) for r in range(1, 9)]
    joined = [Batch(each.keys, each.fields, each.values, np.array([0, each.nnz]), each.labels[:1]) for each in rows[1:]]
    with flight_service(serving(model)) as address, ScoringClient(address, deadline=20) as client:
        found = client.score(batch.keys, batch.offsets, values=batch.values, shared=True)
        wanted = [textbook_predictions(model, each)[0] for each in joined]
        assert found.predictions == pytest.approx(wanted, rel=1e-5, abs=1e-6)
        with pytest.raises(DataError, match="needs them as its first row"):
            client.score(NONE, np.zeros(1, np.int64), shared=True)


def test_empty_requests_empty_rows_and_unknown_keys(client: ScoringClient) -> None:
    assert client.score(NONE, np.zeros(1, np.int64)).predictions.tolist() == []
    assert client.score(NONE, np.zeros(3, np.int64)).predictions.tolist() == [3.0, 3.0]
    assert client.score(*ROW).predictions.tolist() == [3.0]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"values": np.array([np.nan], np.float32)}, r"^server .*: value 0 is nan; values must be finite"),
        ({"values": np.array([-np.inf], np.float32)}, r"^server .*: value 0 is -inf"),
        ({"values": np.array([1.0])}, r"^values must be a float32 array of one dimension$"),
        ({"values": np.ones(2, np.float32)}, r"^1 keys need as many values; got 2$"),
        ({"keys": np.array([7])}, r"^keys must be a uint64 array of one dimension$"),
        ({"offsets": np.array([0, 1], np.int32)}, r"^offsets must be a int64 array"),
        ({"offsets": np.array([0, 2])}, r"^offsets must begin with 0 and end with the number of keys, 1$"),
        ({"offsets": np.array([0, 1, 0, 1])}, r"^server .*: offsets decrease after row 1$"),
        ({"offsets": np.array([-5, 1])}, r"^offsets must begin with 0 and end with the number of keys, 1$"),
        ({"keys": np.zeros(65, np.uint64), "offsets": np.array([0, 65])}, r"has 65 features; .* at most 64: send"),
        ({"keys": NONE, "offsets": np.zeros(10, np.int64)}, r"has 9 rows; this service accepts at most 8"),
    ],
)
def test_a_bad_request_is_one_line_and_the_next_is_served(request_, message: str) -> None:
    served = serving(constant_model(3), bounds=RequestBounds(features=64, rows=8))
    with flight_service(served) as address, ScoringClient(address, deadline=20) as client:
        client.score(*ROW)
        given = {"keys": ROW[0], "offsets": ROW[1], **request_}
        with pytest.raises(DataError, match=message) as error:
            client.score(given.pop("keys"), given.pop("offsets"), **given)
        assert "\n" not in str(error.value)
        assert client.score(*ROW).predictions.tolist() == [3.0]
        assert sum(served.counts.requests.values()) == 2
        assert served.counts.errors == ({("flight", "request"): 1} if "server" in str(error.value) else {})


def test_shared_features_count_for_each_row() -> None:
    served = serving(constant_model(3), bounds=RequestBounds(features=64))
    offsets = np.array([0, *[7] * 11])
    with (
        flight_service(served) as address,
        ScoringClient(address, deadline=20) as client,
        pytest.raises(DataError, match="has 70 features; this service accepts at most 64"),
    ):
        client.score(np.zeros(7, np.uint64), offsets, shared=True)


def test_fields_above_the_models_are_refused(seed: int) -> None:
    with (
        flight_service(serving(random_model(seed, "ffm", fields=3))) as address,
        ScoringClient(address, deadline=20) as client,
        pytest.raises(DataError, match="field 3 exceeds"),
    ):
        client.score(*ROW, fields=np.array([3], np.uint16))


def test_requests_beyond_the_limit_are_refused_at_once() -> None:
    model, begun, go = constant_model(3), threading.Event(), threading.Event()
    served = serving(model, limit=1)
    predict = model.predict_partial

    def slow(batch):
        begun.set()
        assert go.wait(20)
        return predict(batch)

    model.predict_partial = slow
    with flight_service(served) as address, ScoringClient(address, deadline=20) as first:
        with ScoringClient(address, deadline=20) as second:
            thread = threading.Thread(target=first.score, args=ROW)
            thread.start()
            assert begun.wait(10)
            with pytest.raises(ServerBusy, match="busy: 1 requests wait"):
                second.score(*ROW)
            go.set()
            thread.join()
            assert second.score(*ROW).version == 3
        assert served.counts.errors == {("flight", "busy"): 1}


def test_a_deadline_ends_the_wait_and_the_client_goes_on() -> None:
    model, go = constant_model(3), threading.Event()
    predict = model.predict_partial
    model.predict_partial = lambda batch: (go.wait(20), predict(batch))[1]
    with flight_service(serving(model)) as address, ScoringClient(address, deadline=20) as client:
        begin = time.monotonic()
        with pytest.raises(DeadlineExceeded, match="did not answer in time"):
            client.score(*ROW, deadline=0.1)
        assert 0.1 <= time.monotonic() - begin < 5
        go.set()
        assert client.score(*ROW).predictions.tolist() == [3.0]


def test_a_client_finds_a_service_that_comes_back() -> None:
    served = serving(constant_model(3))
    first = ScoringService(served)
    port = first.port
    with ScoringClient(f"127.0.0.1:{port}", deadline=20) as client:
        assert client.score(*ROW).version == 3
        first.refuse()
        with pytest.raises(DeadlineExceeded, match=r"the server is shutting down; gave up after 0\.05 s"):
            client.score(*ROW, deadline=0.05)
        first.shutdown()
        with flight_service(serving(constant_model(4)), port=port):
            assert client.score(*ROW).version == 4
            client.close()


def test_without_a_server_the_error_is_clear() -> None:
    with flight_service(serving(constant_model(3))) as address:
        pass
    with pytest.raises(BitlaneError, match="connection refused"):
        ScoringClient(address)


def test_tokens_as_those_of_parameter_servers() -> None:
    with flight_service(serving(constant_model(3)), token="secret") as address:
        for token, message in (("other", "wrong token"), (None, "this server needs a token")):
            with pytest.raises(BitlaneError, match=message):
                ScoringClient(address, token=token)
        with ScoringClient(address, token="secret", deadline=20) as client:
            assert client.score(*ROW).version == 3
    with pytest.raises(DataError, match="needs a token and TLS"):
        ScoringService(serving(constant_model(3)), "0.0.0.0")

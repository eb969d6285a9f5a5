"""HTTP: the Open Inference Protocol, its answers against textbooks and trainings, and every kind of bad request."""

from __future__ import annotations

import base64
import json
import math
import socket
import threading

import numpy as np
import pytest
from tests.helpers.sparse_serving import (
    Browser,
    MemoryRegistry,
    SmallModel,
    constant_model,
    inputs_of,
    key_tensors,
    random_model,
    random_request,
    textbook_predictions,
    whole_service,
)

from bitlane.sparse.batches.hashing import cell_key, column_key
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.serving import web
from bitlane.sparse.serving.requests import RequestBounds

INFER = "/v2/models/ctr/infer"
ROW = {"keys": ("UINT64", [7]), "offsets": ("INT64", [0, 1])}
BOUNDS = RequestBounds(features=64, rows=8, body_bytes=4096)
COLUMNS = {"kind": "columns", "label": "y", "categorical": ["city", "hour"], "numeric": ["age"], "time": "time"}


@pytest.fixture(scope="module")
def service():
    """A service whose predictions are 3."""
    with whole_service(MemoryRegistry(constant_model(3)), bounds=BOUNDS) as (server, browser):
        yield server, browser


@pytest.fixture
def browser(service) -> Browser:
    return service[1]


@pytest.mark.parametrize("kind", ["lr", "fm", "ffm"])
def test_predictions_are_those_of_the_textbook(kind: str, seed: int) -> None:
    model = random_model(seed, kind, **({"fields": 4} if kind == "ffm" else {}))
    with whole_service(MemoryRegistry(model)) as (_, browser):
        for each in range(3):
            batch = random_request(model, seed + each)
            status, answer = browser.infer(**key_tensors(batch, fields=kind == "ffm"))
            assert status == 200, answer
            (output,) = answer["outputs"]
            assert output["data"] == pytest.approx(textbook_predictions(model, batch), rel=1e-5, abs=1e-6)
            assert {name: output[name] for name in ("name", "datatype", "shape")} == {
                "name": "predictions",
                "datatype": "FP32",
                "shape": [batch.rows],
            }
            assert (answer["model_name"], answer["model_version"]) == ("ctr", "1")


def test_columns_are_hashed_as_in_the_training() -> None:
    """An oracle by hand: keys of cells, numbers as values, missing cells."""
    city, hour, age = cell_key("city", "Ulm"), cell_key("hour", 7), column_key("age")
    nothing = cell_key("city", None)
    weights = {key: np.array([each], np.float32) for key, each in ((city, 1), (hour, 2), (age, 0.5), (nothing, 8))}
    model = SmallModel(ModelSpec("lr", "squared_error"), weights, 0.25)
    wanted = [0.25 + 1 + 2 + 0.5 * 40, 0.25 + 8, 0.25 + 1 + 2]
    with whole_service(MemoryRegistry(model, data={"schema": COLUMNS})) as (_, browser):
        for cities, hours, ages in (
            (("BYTES", ["Ulm", None, "Ulm"]), ("INT64", [7, 8, 7]), ("FP32", [40, 41, None])),
            (("BYTES", ["Ulm", "", "Ulm"]), ("BYTES", ["7", "", "7"]), ("BYTES", ["40", "41", ""])),
        ):
            status, answer = browser.infer(city=cities, hour=hours, age=ages)
            assert status == 200, answer
            assert answer["outputs"][0]["data"] == [wanted[0], wanted[1] + 0.5 * 41, wanted[2]]
        status, answer = browser.infer(keys=("UINT64", [city]), offsets=("INT64", [0, 1]))
        assert answer["outputs"][0]["data"] == [1.25]  # whoever hashes sends keys


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"city": None}, "tensor 'city' is missing"),
        ({"citty": ("BYTES", ["a"])}, "unknown tensor 'citty'; did you mean 'city'?"),
        ({"age": ("FP32", [1, 2])}, "tensor 'age' has 2 rows, but 'city' has 1"),
        ({"age": ("FP32", [math.inf])}, "request, row 1: numeric column 'age' is inf, not a finite float32; "),
        ({"age": ("FP64", [1e300])}, "request, row 1: numeric column 'age' is inf, not a finite float32; "),
        ({"age": ("BYTES", ["old"])}, "request, row 1: numeric column 'age' has 'old', which is not a finite number"),
        ({"hour": ("FP32", [1.5])}, "request, row 1: categorical column 'hour' has the fraction 1.5: "),
        ({"hour": ("INT64", ["1"])}, "tensor 'hour' of datatype INT64: "),
        ({"hour": ("INT8", [300])}, "tensor 'hour' of datatype INT8: "),
    ],
)
def test_bad_columns_are_one_line(tensors, message: str) -> None:
    model = constant_model(3)
    good = {"city": ("BYTES", ["a"]), "hour": ("INT64", [1]), "age": ("FP32", [1])}
    with whole_service(MemoryRegistry(model, data={"schema": COLUMNS})) as (_, browser):
        given = {name: each for name, each in {**good, **tensors}.items() if each is not None}
        status, answer = browser.infer(**given)
        assert status == 400 and answer["error"].startswith(message), answer
        assert browser.infer(**good)[0] == 200


BAD = [
    ({"keys": ("UINT64", [7])}, "tensor 'offsets' is missing"),
    ({**ROW, "weights": ("FP32", [1])}, "unknown tensor 'weights'; there are keys, offsets, fields, values"),
    ({**ROW, "value": ("FP32", [1])}, "unknown tensor 'value'; did you mean 'values'?"),
    ({**ROW, "keys": ("INT64", [7])}, "tensor 'keys' must have datatype UINT64; got INT64"),
    ({**ROW, "keys": ("KEY", [7])}, "tensor 'keys' has datatype 'KEY'; one of BOOL, UINT8"),
    ({**ROW, "keys": ("UINT64", [-1])}, "tensor 'keys': item 0 is -1, which is not a UINT64 number"),
    ({**ROW, "keys": ("UINT64", [2**64])}, "tensor 'keys': item 0 is 18446744073709551616, which is not a UINT64"),
    ({**ROW, "keys": ("UINT64", [1.5])}, "tensor 'keys': item 0 is 1.5, which is not a UINT64 number"),
    ({**ROW, "keys": ("UINT64", ["7"])}, "tensor 'keys': item 0 is \"7\", which is not a UINT64 number"),
    ({**ROW, "keys": ("UINT64", [None])}, "tensor 'keys': item 0 is null, which is not a UINT64 number"),
    ({**ROW, "fields": ("UINT16", [65536])}, "tensor 'fields': item 0 is 65536, which is not a UINT16 number"),
    ({**ROW, "values": ("FP32", [math.nan])}, "value 0 is nan; values must be finite: omit the feature"),
    ({**ROW, "values": ("FP32", [-math.inf])}, "value 0 is -inf; values must be finite"),
    ({**ROW, "values": ("FP32", [1e39])}, "value 0 is inf; values must be finite"),
    ({**ROW, "values": ("FP32", [1, 2])}, "1 keys need as many fields and values; got 1 and 2"),
    ({"keys": ("UINT64", [7, 7]), "offsets": ("INT64", [0, 2, 1, 2])}, "offsets decrease after row 1"),
    ({**ROW, "offsets": ("INT64", [0, 2])}, "offsets must begin with 0 and end with the number of keys, 1"),
    ({**ROW, "offsets": ("INT64", [1, 1])}, "offsets must begin with 0"),
    ({**ROW, "offsets": ("INT64", [])}, "offsets must begin with 0"),
    ({"keys": ("UINT64", [7] * 65), "offsets": ("INT64", [0, 65])}, "the request has 65 features; this service"),
    ({"keys": ("UINT64", []), "offsets": ("INT64", [0] * 10)}, "the request has 9 rows; this service accepts"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("tensors", "message"), BAD)
def test_a_bad_request_is_one_line_and_the_next_is_served(browser: Browser, tensors, message: str) -> None:
    status, answer = browser.infer(**tensors)
    assert status == 400 and list(answer) == ["error"]
    assert answer["error"].startswith(message) and "\n" not in answer["error"], answer
    assert browser.infer(**ROW)[1]["outputs"][0]["data"] == [3.0]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not JSON: "),
        (b"{'inputs': []}", "the body is not JSON: "),
        (b"\xff\xfe\x00", "the body is not JSON: "),
        (b"[" * 4000, "the body is not JSON: "),
        ([], "the body must be a JSON object with a list of 'inputs'"),
        ({"inputs": {}}, "the body must be a JSON object with a list of 'inputs'"),
        ({"inputs": [3]}, "each input must be an object with a name"),
        ({"id": 3, "inputs": []}, "id must be a string; got 3"),
        (
            {"inputs": inputs_of(ROW), "outputs": [{"name": "scores"}]},
            "unknown output 'scores'; there is 'predictions'",
        ),
        ({"inputs": inputs_of(ROW) * 2}, "tensor 'keys' appears twice"),
        ({"inputs": [{**inputs_of(ROW)[0], "shape": [2]}]}, "tensor 'keys' has the shape [2], but 1 items"),
        ({"inputs": [{**inputs_of(ROW)[0], "shape": [1, 2]}]}, "tensor 'keys' must have the shape [n] or [n, 1]"),
        ({"inputs": [{**inputs_of(ROW)[0], "shape": "1"}]}, "tensor 'keys' must have the shape [n] or [n, 1]"),
        ({"inputs": [{**inputs_of(ROW)[0], "data": "7"}]}, "tensor 'keys' has no list of data"),
        ({"inputs": [{**inputs_of(ROW)[0], "data": [[7], 7]}]}, "tensor 'keys' has lists of different depth"),
    ],
)
def test_bodies_that_are_not_of_the_protocol(browser: Browser, body, message: str) -> None:
    status, answer = browser.ask(INFER, body)
    assert status == 400 and answer["error"].startswith(message), answer
    assert browser.infer(**ROW)[0] == 200


def test_empty_rows_no_rows_and_two_dimensions(browser: Browser) -> None:
    for offsets, wanted in (([0, 0, 0], [3.0, 3.0]), ([0], [])):
        status, answer = browser.infer(keys=("UINT64", []), offsets=("INT64", offsets))
        assert status == 200 and answer["outputs"][0]["data"] == wanted, answer
    inputs = inputs_of(ROW)
    inputs[0] = {**inputs[0], "shape": [1, 1], "data": [[2**64 - 1]]}
    status, answer = browser.ask(INFER, {"id": "a", "inputs": inputs, "outputs": [{"name": "predictions"}]})
    assert status == 200 and answer["id"] == "a"


def test_a_body_that_is_too_large_is_refused(service) -> None:
    """By its length, and as it comes where the length is not told."""
    server, _ = service
    for headers, body in (
        (b"content-length: 5000\r\n", b"x" * 5000),
        (b"transfer-encoding: chunked\r\n", b"1388\r\n" + b"x" * 5000 + b"\r\n0\r\n\r\n"),
    ):
        answer = raw(server.http_address, b"POST " + INFER.encode() + b" HTTP/1.1\r\nhost: a\r\n" + headers, body)
        assert answer.startswith(b"HTTP/1.1 413 ") and b"the body has more than 4,096 bytes" in answer
    browser = Browser(server.http_address)
    assert browser.infer(**ROW)[0] == 200
    browser.close()


def test_cut_connections_leave_the_service_as_it_was(service, monkeypatch: pytest.MonkeyPatch) -> None:
    server, browser = service
    head = b"POST " + INFER.encode() + b" HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n"
    for data in (b"", b"POS", head, head + b"\r\n{"):
        with socket.create_connection(address_of(server.http_address)) as connection:
            connection.sendall(data)
    monkeypatch.setattr(web, "BODY_SECONDS", 0.2)
    answer = raw(server.http_address, head, b"{")
    assert answer.startswith(b"HTTP/1.1 408 ") and b"the body did not arrive within 0.2 s" in answer
    assert browser.infer(**ROW)[0] == 200
    assert server.served.limit.count == 0


def test_what_the_protocol_tells(browser: Browser) -> None:
    assert browser.ask("/v2/health/live") == (200, {"live": True})
    assert browser.ask("/v2/health/ready") == (200, {"live": True, "ready": True})
    status, server = browser.ask("/v2")
    assert status == 200 and set(server) == {"name", "version", "extensions"} and server["name"] == "bitlane"
    wanted = {
        "name": "ctr",
        "versions": ["3"],
        "platform": "bitlane_lr",
        "inputs": [
            {"name": "keys", "datatype": "UINT64", "shape": [-1]},
            {"name": "offsets", "datatype": "INT64", "shape": [-1]},
            {"name": "fields", "datatype": "UINT16", "shape": [-1]},
            {"name": "values", "datatype": "FP32", "shape": [-1]},
        ],
        "outputs": [{"name": "predictions", "datatype": "FP32", "shape": [-1]}],
    }
    for path in ("/v2/models/ctr", "/v2/models/ctr/versions/3"):
        assert browser.ask(path) == (200, wanted)
        assert browser.ask(f"{path}/ready") == (200, {"name": "ctr", "ready": True})
        assert browser.ask(f"{path}/infer", {"inputs": inputs_of(ROW)})[0] == 200


def test_paths_that_are_not_there(browser: Browser) -> None:
    for path, status, message in (
        ("/v2/models/other", 404, "unknown model 'other'; this service has 'ctr'"),
        ("/v2/models/ctr/versions/2/ready", 404, "version 2 is not served; version 3 is"),
        ("/v2/nothing", 404, "there is no /v2/nothing"),
        (INFER, 405, "GET is not possible here"),
    ):
        assert browser.ask(path) == (status, {"error": message})
    assert browser.ask("/v2/models/other/infer", {"inputs": inputs_of(ROW)})[0] == 404


def test_columns_are_in_the_metadata() -> None:
    with whole_service(MemoryRegistry(constant_model(3), data={"schema": COLUMNS})) as (_, browser):
        inputs = browser.ask("/v2/models/ctr")[1]["inputs"]
        assert [(each["name"], each["datatype"]) for each in inputs] == [
            ("city", "BYTES"),
            ("hour", "BYTES"),
            ("age", "FP32"),
        ]


def test_requests_beyond_the_limit_get_503() -> None:
    model, begun, go = constant_model(3), threading.Event(), threading.Event()
    with whole_service(MemoryRegistry(model), limit=1) as (server, browser):
        predict = model.predict_partial

        def slow(batch):
            begun.set()
            assert go.wait(20)
            return predict(batch)

        model.predict_partial = slow
        other = Browser(server.http_address)
        found = []
        thread = threading.Thread(target=lambda: found.append(other.infer(**ROW)))
        thread.start()
        assert begun.wait(10)
        status, answer = browser.infer(**ROW)
        assert (status, answer) == (503, {"error": "busy: 1 requests wait"})
        assert browser.headers["retry-after"] == "1"
        assert browser.ask("/v2/health/ready")[0] == 200  # the event loop is free
        go.set()
        thread.join()
        assert found[0][0] == 200 and browser.infer(**ROW)[0] == 200
        other.close()


def test_a_failure_of_the_model_is_an_error_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    model = constant_model(3)
    with whole_service(MemoryRegistry(model)) as (_, browser):
        good = model.predict_partial
        model.predict_partial = lambda batch: 1 / 0
        status, answer = browser.infer(**ROW)
        assert status == 500 and answer == {"error": "ZeroDivisionError: division by zero"}
        model.predict_partial = lambda batch: (np.array([1.0, np.inf], np.float32), good(batch)[1], ())
        status, answer = browser.infer(**ROW)
        assert status == 500 and answer["error"].startswith("the prediction of row 1 is inf")
        model.predict_partial = good
        assert browser.infer(**ROW)[0] == 200


def test_a_token_is_needed_but_for_probes() -> None:
    with whole_service(MemoryRegistry(constant_model(3)), token="secret") as (server, browser):
        assert browser.infer(**ROW)[0] == 200
        basic = base64.b64encode(b"anybody:secret").decode()
        for header, status in ((f"Basic {basic}", 200), ("Bearer other", 401), ("", 401), ("Basic %%%", 401)):
            other = Browser(server.http_address, **({"authorization": header} if header else {}))
            for path in ("/", "/status", "/metrics", "/v2", "/v2/health", "/v2/models/ctr"):
                assert other.ask(path)[0] == status
            assert other.ask(INFER, {"inputs": inputs_of(ROW)})[0] == status
            assert other.ask("/v2/health/ready")[0] == 200
            if status == 401:
                other.ask("/")
                assert other.headers["www-authenticate"].startswith("Basic ")
            other.close()


def test_metrics_and_status_count_requests() -> None:
    with whole_service(MemoryRegistry(constant_model(3)), bounds=BOUNDS) as (_, browser):
        for _ in range(3):
            assert browser.infer(keys=("UINT64", [7, 8]), offsets=("INT64", [0, 1, 2]))[0] == 200
        browser.infer(keys=("UINT64", [7]))
        status, text = browser.ask("/metrics")
        assert status == 200
        for line in (
            'bitlane_serving_requests_total{lane="http"} 3.0',
            'bitlane_serving_rows_total{lane="http"} 6.0',
            'bitlane_serving_errors_total{kind="request",lane="http"} 1.0',
            'bitlane_serving_seconds_count{lane="http"} 3.0',
            'bitlane_serving_seconds_bucket{lane="http",le="+Inf"} 3.0',
            "bitlane_serving_version 3.0",
            'bitlane_serving_following{label="production",problem=""} 1.0',
        ):
            assert line in text.splitlines(), line
        status, found = browser.ask("/status")
        assert found["total"] == {"requests": {"flight": 0, "http": 3}, "rows": {"flight": 0, "http": 6}}
        assert found["errors"] == [{"lane": "http", "kind": "request", "count": 1}]
        assert found["newest_errors"][0]["message"] == "tensor 'offsets' is missing"
        assert 0 < found["minute"]["p50"] <= found["minute"]["p999"]
        assert found["versions"][0]["metrics"] == {"auc": 0.753, "log_loss": 0.5}
        assert found["labels"] == {"production": 3} and found["moves"][0]["version"] == 3


def raw(address: str, head: bytes, body: bytes) -> bytes:
    """The answer in JSON to a request that is sent as it is."""
    with socket.create_connection(address_of(address), timeout=20) as connection:
        connection.sendall(head + b"\r\n" + body)
        found = b""
        while not found.endswith(b"}"):
            found += connection.recv(1 << 16)
        return found


def address_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def test_answers_are_json_whatever_is_asked(browser: Browser) -> None:
    """Names come back in messages: as JSON, never as HTML."""
    status, answer = browser.ask(INFER, json.dumps({"inputs": [{"name": "<b>\n"}]}).encode())
    assert status == 400 and browser.headers["content-type"] == "application/json"
    assert "<b>" in answer["error"]

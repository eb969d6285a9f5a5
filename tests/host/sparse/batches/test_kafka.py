"""Messages of a fake broker to rows."""

from __future__ import annotations

import json
import math
import sys
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xxhash
from tests.helpers.sparse_text import rows_of

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.kafka import KafkaStream, open_consumer
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import ListSchema, Schema

pa = pytest.importorskip("pyarrow")

CELLS = ReadOptions(schema=Schema("click", ("user",), ("price",), time="at"), batch_rows=2)


class Message:
    """One message, as the client has them."""

    def __init__(self, value: bytes, partition: int = 0, offset: int = 0, error: str | None = None):
        self._found = {"value": value, "partition": partition, "offset": offset, "error": error, "topic": "clicks"}

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__["_found"]
        return lambda: found[name]


class Broker:
    """A consumer of given messages; it ends the stream behind the last one."""

    def __init__(self, messages: list[Message]):
        self.messages = messages
        self.stream: KafkaStream | None = None

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        assert timeout > 0
        found, self.messages = self.messages[:num_messages], self.messages[num_messages:]
        if not found and self.stream is not None:
            self.stream.stop()
        return found


def read(messages: list[Message], options: ReadOptions = CELLS, **settings: Any) -> tuple[list[Batch], KafkaStream]:
    broker = Broker(messages)
    broker.stream = KafkaStream(broker, options, **settings)
    return list(broker.stream.batches()), broker.stream


def clicks(*rows: dict[str, Any]) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def test_lines_of_json() -> None:
    rows = [
        {"click": 1, "user": "a", "price": 2.5, "at": 100},
        {"click": 0, "user": 7, "at": 101, "other": [1]},
        {"click": True, "user": None, "price": 3, "at": 102},
        {"click": False, "user": True, "price": "4.5", "at": 103},
        {"click": 1, "user": 8.0, "price": 1e-3, "at": 104},
    ]
    messages = [
        Message(clicks(*rows[:2]), 0, 5),
        Message(clicks(rows[2]), 1, 9),
        Message(clicks(*rows[3:]) + b"\n\n", 0, 6),
    ]
    found, stream = read(messages)
    assert [batch.rows for batch in found] == [3, 2]
    whole = Batch.concatenate(found)
    price = xxhash.xxh64_intdigest(b"price")
    prices: list[float | None] = [2.5, None, 3.0, 4.5, float(np.float32(1e-3))]
    users = [xxhash.xxh64_intdigest(f"user={user}".encode()) for user in ("a", "7", "", "true", "8")]
    wanted = [
        (label, [(0, user, 1.0)] + ([] if cost is None else [(1, price, cost)]))
        for label, user, cost in zip([1.0, 0.0, 1.0, 0.0, 1.0], users, prices, strict=True)
    ]
    assert rows_of(whole) == wanted
    assert whole.times is not None and whole.times.tolist() == list(range(100, 105))
    assert stream.offsets == {0: 7, 1: 10}
    assert stream.rows == 5


def test_lists_in_json() -> None:
    schema = ListSchema(fields="f", values="v")
    rows = [
        {"label": 1, "keys": [2**64 - 1, 3], "f": [0, 1], "v": [1, 0.5]},
        {"label": 0, "keys": [], "f": [], "v": []},
    ]
    found, _ = read([Message(clicks(*rows))], ReadOptions(schema=schema))
    assert rows_of(found[0]) == [(1.0, [(0, 2**64 - 1, 1.0), (1, 3, 0.5)]), (0.0, [])]


def test_transforms_and_decimal_commas() -> None:
    schema = Schema(
        "click",
        ("b",),
        ("n",),
        decimal=",",
        transforms=(("n", "log1p", ()), ("b", "buckets", (0.75, 2.0)), ("at", "hour", ("UTC",))),
    )
    rows = [{"click": 1, "n": number, "b": bucket, "at": "2020-01-01T05:00Z"} for number, bucket in PAIRS]
    found, _ = read([Message(clicks(*rows))], ReadOptions(schema=schema))
    wanted = [(0, f"b={bucket}") for bucket in (1, 1, 2, "", 0)]
    keys = [features[0][:2] for _, features in rows_of(found[0])]
    assert keys == [(field, xxhash.xxh64_intdigest(text.encode())) for field, text in wanted]
    values = [features[1][2] for _, features in rows_of(found[0])]
    assert values == pytest.approx([math.log1p(x) for x in (1.5, 1.5, 1.0, 2.0, 0.0)])
    hour = xxhash.xxh64_intdigest(b"hour(at)=5")
    assert all(features[2][:2] == (2, hour) for _, features in rows_of(found[0]))


PAIRS = [(1.5, "1,5"), ("1,5", True), (True, 2), (2, None), (0.0, 0.5)]


def arrow(columns: dict[str, Any]) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue().to_pybytes()


def test_arrow_streams() -> None:
    columns = {"click": [1, 0, 1], "user": ["a", None, "c"], "price": [1.0, None, 3.0], "at": [1, 2, 3]}
    nothing = arrow({name: pa.array(cells)[:0] for name, cells in columns.items()})
    found, stream = read([Message(arrow(columns), 3, 41), Message(nothing, 3, 42)], form="arrow")
    assert [len(features) for _, features in rows_of(found[0])] == [2, 1, 2]
    assert stream.offsets == {3: 43}


def test_offsets_are_those_behind_the_last_batch() -> None:
    messages = [Message(clicks({"click": 1, "user": "a", "at": number}), 0, number) for number in range(10)]
    stream = KafkaStream(Broker(messages), CELLS, offsets={0: 0, 1: 77})
    assert len(list(islice(stream.batches(), 2))) == 2
    assert stream.offsets == {0: 4, 1: 77}


@pytest.mark.parametrize(
    ("value", "form", "message"),
    [
        (b'{"click": 1}\n{"click"', "json", r"row 2: is no JSON: Expecting"),
        (b"[1]", "json", r"row 1: is list, not an object"),
        (b"\xff", "json", r"row 1: is no JSON"),
        (b'{"click": 1, "user": [1], "at": 1}', "json", r": column 'user': a cell is list"),
        (b'{"click": 2, "user": "a", "at": 1}', "json", r", row 1: label 2 is neither 0 nor 1"),
        (b'{"user": "a", "at": 1}', "json", r", row 1: label column 'click' is empty"),
        (b'{"click": 1, "price": 1e999, "at": 1}', "json", r", row 1: numeric column 'price' has 'inf', which is no"),
        (b"junk", "arrow", r": is no Arrow stream: "),
    ],
)
def test_an_error_names_the_message(value: bytes, form: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"^clicks, partition 2, offset 17.*{message}") as error:
        read([Message(value, 2, 17)], form=form)
    assert "\n" not in str(error.value)


def test_keys_that_are_no_64_bits() -> None:
    for keys in ([-1], [2**64], ["x"]):
        with pytest.raises(DataError, match=r"clicks, partition 0, offset 0: column 'keys': "):
            read([Message(clicks({"label": 1, "keys": keys}))], ReadOptions(schema=ListSchema()))


def test_errors_of_the_client_and_of_settings() -> None:
    with pytest.raises(BitlaneError, match=r"Kafka reports: broker down"):
        read([Message(b"", error="broker down")])
    with pytest.raises(DataError, match=r"messages do not name their columns: set schema"):
        KafkaStream(Broker([]), ReadOptions())
    with pytest.raises(DataError, match=r"form='avro' is unknown; choose 'json' or 'arrow'"):
        KafkaStream(Broker([]), CELLS, form="avro")
    with pytest.raises(DataError, match=r"start=5 must be 0: a stream goes on at its offsets"):
        next(KafkaStream(Broker([]), CELLS).batches(0, 5))


def test_a_consumer_of_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the client's names, on a client that only notes its arguments."""
    made: dict[str, Any] = {}

    class Consumer:
        def __init__(self, settings: dict[str, Any]):
            made["settings"] = settings

        def list_topics(self, topic: str, timeout: float) -> Any:
            partitions = {} if topic == "none" else {0: None, 1: None}
            return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

        def assign(self, partitions: list[tuple[str, int, int]]) -> None:
            made["assigned"] = partitions

    client = SimpleNamespace(Consumer=Consumer, TopicPartition=lambda *found: found, OFFSET_BEGINNING=-2)
    monkeypatch.setitem(sys.modules, "confluent_kafka", client)  # type: ignore[arg-type]
    consumer = open_consumer("host:9092", "clicks", {1: 500}, session_timeout_ms=6000)
    assert isinstance(consumer, Consumer)
    assert made["assigned"] == [("clicks", 0, -2), ("clicks", 1, 500)]
    assert made["settings"]["bootstrap.servers"] == "host:9092"
    assert made["settings"]["session.timeout.ms"] == 6000
    assert made["settings"]["enable.auto.commit"] is False
    with pytest.raises(BitlaneError, match=r"Kafka has no topic 'none' at host:9092"):
        open_consumer("host:9092", "none")
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)  # type: ignore[arg-type]
    with pytest.raises(BitlaneError, match=r"Reading from Kafka needs confluent_kafka: pip install confluent-kafka"):
        open_consumer("host:9092", "clicks")

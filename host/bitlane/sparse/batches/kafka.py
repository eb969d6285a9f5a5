"""Rows from Kafka, by the interface of the client `confluent-kafka`."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from time import perf_counter
from typing import Any, Protocol

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.checks import RowLocation, one_line
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.schema import ListSchema, Schema
from bitlane.support.optional import require_extra

FORMS = ("json", "arrow")
_POLL_SECONDS = 0.2


class Message(Protocol):
    """What is used of ``confluent_kafka.Message``."""

    def error(self) -> object:
        """Return an error of the client instead of a message, or None."""
        ...

    def topic(self) -> str:
        """Return the name of the topic."""
        ...

    def partition(self) -> int:
        """Return the number of the partition."""
        ...

    def offset(self) -> int:
        """Return the offset in the partition."""
        ...

    def value(self) -> bytes:
        """Return the content."""
        ...


class Consumer(Protocol):
    """What is used of ``confluent_kafka.Consumer``."""

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        """Return up to `num_messages` messages, those that came within `timeout` seconds."""
        ...


def open_consumer(servers: str, topic: str, offsets: Mapping[int, int] | None = None, **settings: Any) -> Any:
    """Return a consumer of all partitions of a topic.

    Parameters
    ----------
    servers : str
        ``host:port``, with commas in between.
    topic : str
    offsets : mapping of int to int, optional
        Next offset of each partition, as `KafkaStream.offsets` has them; the others begin at their oldest message.
    **settings
        Further settings of the client, with ``_`` for ``.``.

    Returns
    -------
    confluent_kafka.Consumer

    Raises
    ------
    BitlaneError
        confluent-kafka is not installed, or the topic is unknown.
    """
    client = require_extra("confluent_kafka", "Reading from Kafka", "confluent-kafka")
    named = {name.replace("_", "."): value for name, value in settings.items()}
    own = {"group.id": "bitlane", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = client.Consumer({"bootstrap.servers": servers, **own, **named})
    partitions = consumer.list_topics(topic, timeout=30.0).topics[topic].partitions
    if not partitions:
        raise BitlaneError(f"Kafka has no topic {topic!r} at {servers}")
    known = offsets or {}
    oldest = client.OFFSET_BEGINNING
    consumer.assign([client.TopicPartition(topic, number, known.get(number, oldest)) for number in partitions])
    return consumer


class KafkaStream:
    """Rows of messages, for ever.

    Parameters
    ----------
    consumer : Consumer
        With its partitions assigned, as `open_consumer` does.
    options : ReadOptions
        With a schema.
    form : {"json", "arrow"}, default="json"
        A message is lines of JSON objects, or a stream of Arrow record batches.
    offsets : mapping of int to int, optional
        Where the consumer begins, as in `open_consumer`.
    stop : threading.Event, optional
        Setting it ends the stream.

    Attributes
    ----------
    offsets : dict of int to int
        Next offset of each partition behind the last batch that the caller got. A checkpoint that is written once this
        batch has been learned holds them.
    wait_seconds : float
        Time that callers waited for messages.
    rows : int
        Rows that callers got.

    Raises
    ------
    DataError
        The options have no schema, or `form` is unknown.
    """

    def __init__(
        self,
        consumer: Consumer,
        options: ReadOptions,
        *,
        form: str = "json",
        offsets: Mapping[int, int] | None = None,
        stop: threading.Event | None = None,
    ):
        require_extra("numba", "Reading sparse rows", "'bitlane[sparse]'")
        require_extra("pyarrow", "Reading sparse rows", "'bitlane[sparse]'")
        if options.schema is None:
            raise DataError("messages do not name their columns: set schema")
        if options.negatives is not None:
            raise DataError("negatives are chosen by the rows' numbers, and messages have none: omit it")
        if form not in FORMS:
            raise DataError(f"form={form!r} is unknown; choose 'json' or 'arrow'")
        self.offsets = dict(offsets or {})
        self.wait_seconds = 0.0
        self.rows = 0
        self._consumer = consumer
        self._options = options
        self._schema = options.schema
        self._form = form
        self._stop = threading.Event() if stop is None else stop

    def stop(self) -> None:
        """End the stream: `batches` returns soon."""
        self._stop.set()

    def batches(self, epoch: int = 0, start: int = 0) -> Generator[Batch, None, None]:
        """Yield batches until the stream is stopped: the rows of complete messages, `batch_rows` messages at most.

        Parameters
        ----------
        epoch : int, default=0
            A stream has one epoch.
        start : int, default=0
            Must be 0: a stream goes on at `offsets`.

        Raises
        ------
        DataError
            A message cannot be used.
        BitlaneError
            The client reports an error.
        """
        del epoch
        if start:
            raise DataError(f"start={start} must be 0: a stream goes on at its offsets")
        while not self._stop.is_set():
            begin = perf_counter()
            messages = self._consumer.consume(self._options.batch_rows, _POLL_SECONDS)
            self.wait_seconds += perf_counter() - begin
            decoded, ends = [], dict[int, int]()
            for message in messages:
                if message.error() is not None:
                    raise BitlaneError(f"Kafka reports: {message.error()}")
                decoded.append(self._decode(message))
                ends[message.partition()] = message.offset() + 1
            rows = [batch for batch in decoded if batch.rows]
            self.offsets.update(ends)
            if rows:
                batch = Batch.concatenate(rows)
                self.rows += batch.rows
                yield batch

    def _decode(self, message: Message) -> Batch:
        from bitlane.sparse.batches.pieces import batch_of_rows

        name = f"{message.topic()}, partition {message.partition()}, offset {message.offset()}"
        rows = (_json_rows if self._form == "json" else _arrow_rows)(message.value(), self._schema, name)
        return batch_of_rows(rows, self._schema, self._options, RowLocation(name))


def _arrow_rows(value: bytes, schema: Schema | ListSchema, name: str) -> Any:
    import pyarrow as pa

    del schema
    try:
        table = pa.ipc.open_stream(value).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{name}: is no Arrow stream: {one_line(error)}") from error
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _json_rows(value: bytes, schema: Schema | ListSchema, name: str) -> Any:
    """Return lines of JSON objects as a record batch; a name that an object lacks is a missing cell."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for number, line in enumerate(value.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{name}, row {number}: is no JSON: {one_line(error)}") from error
        if not isinstance(row, dict):
            raise DataError(f"{name}, row {number}: is {type(row).__name__}, not an object")
        rows.append(row)
    arrays = {}
    for column in dict.fromkeys((*schema.columns, *filter(None, (schema.label, schema.time, schema.weight)))):
        cells = [row.get(column) for row in rows]
        try:
            if isinstance(schema, Schema):
                words = column in (*schema.typed, schema.label) and column not in schema.read_as_numbers
                if column in dict(schema.several):
                    lists = [_texts(cell, schema.several_separator, schema.decimal) for cell in cells]
                    arrays[column] = pa.array(lists, pa.list_(pa.string()))
                else:
                    arrays[column] = pa.array([_text(cell, words, schema.decimal) for cell in cells], pa.string())
            else:
                arrays[column] = pa.array(cells, pa.list_(pa.uint64()) if column == schema.keys else None)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"{name}: column {column!r}: {one_line(error)}") from error
    return pa.RecordBatch.from_pydict(arrays)


def _texts(cell: object, separator: str, decimal: str = ".") -> list[str | None]:
    """Return the values of a cell that has several."""
    if isinstance(cell, list):
        return [_text(entry, True, decimal) for entry in cell]
    text = _text(cell, True, decimal)
    return [] if text is None else list(text.split(separator))


def _text(cell: object, words: bool, decimal: str) -> str | None:
    """Return a cell as the text that is hashed, or read as a number; `words`: a truth value is a word."""
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool) and words:
        return str(cell).lower()
    if isinstance(cell, (bool, int)):
        return str(int(cell))
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(cell).replace(".", decimal)
    raise ValueError(f"a cell is {type(cell).__name__}")

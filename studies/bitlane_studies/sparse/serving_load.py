"""A scoring service in a process of its own, and clients that load it and take times."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.layout import Layout
from bitlane.sparse.scoring.layers import LayeredTable
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.serving.client import ScoringClient
from bitlane.sparse.serving.flight import ScoringService
from bitlane.sparse.serving.served_model import ServedModel, ServedVersion
from bitlane.sparse.tables.frozen import FrozenTable, freeze
from bitlane.sparse.tables.mixing import keys_of
from bitlane.support.priority import yield_to_others

REQUESTS = 32  # different requests, which take turns
WARM_UP = 20  # requests of a client that do not count
_CHUNK = 1 << 16
_SPAWN = multiprocessing.get_context("spawn")

Keys = NDArray[np.uint64]
Times = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """What is asked of a service.

    Attributes
    ----------
    kind : {"lr", "fm"}
        The model; factors have 8 values.
    keys : int
        That it knows.
    rows, features : int
        Of a request; features of each row, with the value 1. All keys are known, and drawn evenly.
    seed : int
    """

    kind: str
    keys: int
    rows: int
    features: int
    seed: int

    @property
    def spec(self) -> ModelSpec:
        """The description of the model."""
        return ModelSpec(self.kind, dim=8 if self.kind == "fm" else None)

    def table(self) -> FrozenTable:
        """Return random weights for random keys."""
        draw, values = np.random.default_rng(self.seed), Layout(self.spec.blocks()).values
        words = _words(self.seed, self.keys)

        def chunks() -> Iterator[tuple[Keys, NDArray[np.float32]]]:
            for at in range(0, len(words), _CHUNK):
                chunk = words[at : at + _CHUNK]
                yield (
                    keys_of(chunk),
                    np.asarray(draw.standard_normal((len(chunk), values), np.float32) / 16, np.float32),
                )

        return freeze(chunks(), len(words), values)

    def requests(self, client: int) -> tuple[list[Keys], NDArray[np.int64]]:
        """Return the keys of a client's requests, uint64 [rows * features] each, and the offsets of all."""
        draw, words = np.random.default_rng((self.seed, client)), _words(self.seed, self.keys)
        requests = [keys_of(words[draw.integers(0, len(words), self.rows * self.features)]) for _ in range(REQUESTS)]
        return requests, np.arange(self.rows + 1, dtype=np.int64) * self.features


@cache
def _words(seed: int, keys: int) -> Keys:
    return np.unique(np.random.default_rng(seed).integers(0, 2**64, keys, dtype=np.uint64))


class LoadedService:
    """A service of a load in a process of its own; a context manager.

    Attributes
    ----------
    address : str
    nbytes : int
        Of the table.
    """

    def __init__(self, load: Load):
        self._pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(load, other), daemon=True)
        self._process.start()
        other.close()
        try:
            self.address, self.nbytes = self._pipe.recv()
        except EOFError:
            raise BitlaneError("the service did not start") from None

    @contextlib.contextmanager
    def swapping(self) -> Iterator[None]:
        """A section in which the service loads its table from a file again and again, and swaps to it."""
        self._pipe.send(True)
        try:
            yield
        finally:
            self._pipe.send(False)
            self._pipe.recv()

    def __enter__(self) -> LoadedService:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def closed_loop(address: str, load: Load, seconds: float) -> tuple[Times, Times]:
    """Ask again as soon as an answer has come; return the milliseconds of each request, and those in the server."""
    requests, offsets = load.requests(0)
    times_of: list[tuple[float, float]] = []
    with ScoringClient(address, deadline=10.0) as client:
        end, at = time.perf_counter() + seconds, 0
        while at < 2 * WARM_UP or time.perf_counter() < end:
            begin = time.perf_counter()
            answer = client.score(requests[at % REQUESTS], offsets)
            times_of.append((1e3 * (time.perf_counter() - begin), 1e3 * answer.seconds))
            at += 1
    times = np.array(times_of[WARM_UP:])
    return times[:, 0], times[:, 1]


def open_loop(address: str, load: Load, clients: int, rate: float, seconds: float) -> Times:
    """Let clients in processes of their own ask at random times, `rate` requests a second in total.

    The milliseconds of a request count from the time at which it was due, whether the one before was answered or not.
    """
    queue, start = _SPAWN.Queue(), _SPAWN.Barrier(clients)
    workers = []
    for each in range(clients):
        draw = np.random.default_rng((load.seed, each, 1))
        due = np.cumsum(draw.exponential(clients / rate, max(1, int(rate / clients * seconds))))
        arguments = (address, *load.requests(1 + each), due, start, queue)
        workers.append(_SPAWN.Process(target=_ask, args=arguments, daemon=True))
    for worker in workers:
        worker.start()
    try:
        times = [queue.get(timeout=seconds + 120) for _ in workers]
    except Exception as error:
        raise BitlaneError("a client did not end") from error
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    return np.concatenate(times)


def percentiles(times: Times) -> tuple[float, ...]:
    """Return p50, p99 and p99.9."""
    return tuple(float(each) for each in np.quantile(times, (0.5, 0.99, 0.999)))


def varint_bytes(numbers: Sequence[int] | NDArray[np.integer]) -> int:
    """Return the bytes of numbers in protobuf's packed varints: 7 bits a byte, with the length and the field's tag."""
    words = np.asarray(numbers).astype(np.uint64)
    bits = np.ones(len(words), np.int64)
    for shift in range(7, 64, 7):
        bits += (words >> np.uint64(shift)) > 0
    size = int(bits.sum())
    return size + (varint_bytes_of(size) + 1 if size else 0)


def varint_bytes_of(number: int) -> int:
    """Return the bytes of one varint."""
    return max(1, -(-number.bit_length() // 7))


def _ask(address: str, requests: list[Keys], offsets: NDArray[np.int64], due: Times, start: Any, queue: Any) -> None:
    times = np.empty(len(due))
    with ScoringClient(address, deadline=30.0) as client:
        for each in range(WARM_UP):
            client.score(requests[each % REQUESTS], offsets)
        start.wait(60)
        begin = time.perf_counter()
        for each, at in enumerate(due):
            if (early := begin + at - time.perf_counter()) > 0:
                time.sleep(early)
            client.score(requests[each % REQUESTS], offsets)
            times[each] = 1e3 * (time.perf_counter() - begin - at)
    queue.put(times)


def _serve(load: Load, pipe: Any) -> None:
    """Serve until the process is killed; the pipe tells whether to swap."""
    table, served = load.table(), ServedModel("study")
    dense = {"intercept": np.zeros(1, np.float32)}
    with tempfile.NamedTemporaryFile() as file:
        for buffer in table.buffers():
            file.write(buffer)
        file.flush()
        del table
        digest = _digest(_mapped(Path(file.name)))

        def swap(number: int) -> None:
            data = _mapped(Path(file.name))
            if _digest(data) != digest:
                raise BitlaneError("the file has changed")
            version = ServedVersion(FrozenModel(load.spec, LayeredTable(FrozenTable.from_buffer(data)), dense, number))
            version.warm_up()
            served.swap(version)

        swap(1)
        service = ScoringService(served)
        pipe.send((f"127.0.0.1:{service.port}", served.version.model.table.nbytes))
        while pipe.recv():
            stop = threading.Event()
            thread = threading.Thread(target=_swap_often, args=(swap, stop))
            thread.start()
            pipe.recv()
            stop.set()
            thread.join()
            pipe.send(None)


def _swap_often(swap: Any, stop: threading.Event) -> None:
    yield_to_others()  # as the thread of a service that loads versions does
    number = 1
    while not stop.wait(0.5):
        number += 1
        swap(number)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _digest(data: mmap.mmap) -> str:
    return hashlib.sha256(data).hexdigest()

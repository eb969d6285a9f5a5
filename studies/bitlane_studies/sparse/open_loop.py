"""Requests at a steady rate, whether or not the service keeps up."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError
from bitlane.sparse.serving.client import ScoringClient
from bitlane_studies.sparse.click_stream import ClickStream

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Answered:
    """A request with its answer.

    Attributes
    ----------
    due : float
        When it was due, in seconds since the first one.
    seconds : float
        From then to its answer: a service that is behind is not excused.
    version : int
    segment, first : int
        Where its rows are in the click log.
    predictions, labels : float32 [rows]
    """

    due: float
    seconds: float
    version: int
    segment: int
    first: int
    predictions: Floats
    labels: Floats


class OpenLoop(threading.Thread):
    """Sends rows that are being shown to a service until `close` is called.

    Parameters
    ----------
    address : str
        Of Arrow Flight.
    stream : ClickStream
    rate : float
        Requests a second.
    rows : int
        Of a request; consecutive ones.
    seed : int

    Attributes
    ----------
    answered : list of Answered
    refused : list of str
    """

    def __init__(self, address: str, stream: ClickStream, rate: float, rows: int, seed: int):
        super().__init__(name="load", daemon=True)
        self._address, self._stream, self._rate, self._rows = address, stream, rate, rows
        self._draw = np.random.default_rng(seed)
        self._closing = threading.Event()
        self.answered: list[Answered] = []
        self.refused: list[str] = []

    def run(self) -> None:
        """Send."""
        begin, count = time.perf_counter(), 0
        with ScoringClient(self._address) as client:
            while not self._closing.is_set():
                due = count / self._rate
                count += 1
                self._closing.wait(max(0.0, begin + due - time.perf_counter()))
                segment, batch = self._stream.shown
                first = int(self._draw.integers(0, batch.rows - self._rows))
                rows = batch.slice(first, first + self._rows)
                try:
                    answer = client.score_batch(rows)
                except BitlaneError as error:
                    self.refused.append(str(error))
                    continue
                seconds = time.perf_counter() - begin - due
                self.answered.append(
                    Answered(due, seconds, answer.version, segment, first, answer.predictions, rows.labels)
                )

    def close(self) -> None:
        """Stop after the request that runs."""
        self._closing.set()
        self.join()

"""The link between ranks, measured."""

from __future__ import annotations

import logging
import time
from statistics import median

import torch

from bitlane.errors import DataError

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.launch import Report, launch
from ..collectives.transport import TorchTransport, Transport

LOG = logging.getLogger(__name__)
MEASURED_BYTES = 4 << 20


def measure_link(transport: Transport) -> AlphaBetaModel:
    """Measure latency and bandwidth between the ranks: medians over exchanges of 8 bytes and of 4 MiB."""
    latency = _exchange_seconds(transport, 8, 30)
    seconds = max(_exchange_seconds(transport, MEASURED_BYTES, 5) - latency, 1e-9)
    return AlphaBetaModel(latency, (transport.size - 1) * MEASURED_BYTES / seconds)


def _exchange_seconds(transport: Transport, count: int, rounds: int) -> float:
    buffers = [torch.zeros(count, dtype=torch.uint8)] * transport.size
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        transport.exchange(buffers, [count] * transport.size)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def measure_loopback(ranks: int) -> AlphaBetaModel:
    """Measure the link between `ranks` processes of this machine; raise DataError for fewer than 2."""
    if ranks < 2:
        raise DataError(f"--ranks must be 2 or more to measure a link; got {ranks}")
    LOG.info("measuring the link between %d processes of this machine", ranks)
    return launch(_measure, ranks, timeout=120.0)[0]  # type: ignore[no-any-return]


def _measure(_: Report) -> AlphaBetaModel:
    return measure_link(TorchTransport())

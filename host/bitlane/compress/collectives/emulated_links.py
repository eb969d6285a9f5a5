"""Emulated slow links between the ranks of one machine.

If the kernel and the user's rights allow it, each rank is a process in a separate network namespace, and all its
traffic is throttled. Otherwise only the transport of the compressors is throttled.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from bitlane.errors import BitlaneError, DataError

from .cost_model import AlphaBetaModel
from .namespaces import NetworkNamespaces
from .transport import Transport

LOG = logging.getLogger(__name__)
LATENCY = 100e-6  # seconds; the default of `parse_link`
_RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_LINK = re.compile(r"(?P<rate>\d+(\.\d+)?)(?P<unit>[kmg]bit)(,(?P<latency>\d+(\.\d+)?)(?P<time>us|ms|s))?")


def parse_link(text: str) -> AlphaBetaModel:
    """Return the link that a text describes.

    Parameters
    ----------
    text : str
        Bandwidth in kbit, mbit or gbit per second; optionally a comma and a latency in us, ms or s (default: 100us).

    Raises
    ------
    DataError
        If the text has another form.

    Examples
    --------
    >>> from bitlane.compress.collectives.emulated_links import parse_link
    >>> parse_link("1gbit,0.5ms")
    AlphaBetaModel(latency=0.0005, bandwidth=125000000.0)
    """
    match = _LINK.fullmatch(text)
    if not match or not float(match["rate"]):
        raise DataError(f"invalid link {text!r}: use a bandwidth and optionally a latency: 100mbit or 1gbit,0.5ms")
    bandwidth = float(match["rate"]) * _RATES[match["unit"]] / 8
    latency = float(match["latency"]) * _TIMES[match["time"]] if match["latency"] else LATENCY
    return AlphaBetaModel(latency, bandwidth)


class EmulatedLinks(Protocol):
    """Emulated links; can be pickled for other processes."""

    @property
    def description(self) -> str:
        """How the links are throttled, as text for a report."""
        ...

    def enter(self, rank: int) -> None:
        """Move this process to the namespace of a rank. Call it before any socket is opened."""
        ...

    def throttle(self, transport: Transport) -> Transport:
        """Return the transport with the delays that the namespace does not add."""
        ...


@contextmanager
def emulate_links(ranks: int, model: AlphaBetaModel) -> Iterator[EmulatedLinks]:
    """Emulate links between `ranks` ranks for the duration of the context.

    Namespaces limit the bandwidth. The transport adds the latency once per round.

    Parameters
    ----------
    ranks : int
        Number of ranks.
    model : AlphaBetaModel
        Latency and bandwidth of each link.
    """
    namespaces = NetworkNamespaces.with_unique_names(ranks, model.bandwidth)
    try:
        try:
            namespaces.create()
            links: EmulatedLinks = _NamespaceLinks(namespaces, model.latency)
        except BitlaneError as error:
            LOG.info("no network namespaces, so only the compressors' transport is throttled: %s", error)
            links = _TokenBucketLinks(model, f"a token bucket around the transport, because namespaces failed: {error}")
        yield links
    finally:
        namespaces.remove()


@dataclass(frozen=True)
class _NamespaceLinks:
    namespaces: NetworkNamespaces
    latency: float
    description: str = "network namespaces, veth pairs shaped by tbf"

    def enter(self, rank: int) -> None:
        self.namespaces.enter(rank)

    def throttle(self, transport: Transport) -> Transport:
        return ThrottledTransport(transport, AlphaBetaModel(self.latency, float("inf")))


@dataclass(frozen=True)
class _TokenBucketLinks:
    model: AlphaBetaModel
    description: str

    def enter(self, rank: int) -> None:
        """Do nothing: all ranks share the network of the machine."""

    def throttle(self, transport: Transport) -> Transport:
        return ThrottledTransport(transport, self.model)


class ThrottledTransport:
    """A transport whose rounds take as long as on a full-duplex link."""

    def __init__(self, transport: Transport, model: AlphaBetaModel):
        self.transport, self.model = transport, model
        self.rank = transport.rank
        self.size = transport.size
        self.device = transport.device
        self.sent = transport.sent

    def exchange(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        start = time.perf_counter()
        received = self.transport.exchange(buffers, lengths)
        self.sent = self.transport.sent
        outgoing = sum(len(buffer) for rank, buffer in enumerate(buffers) if rank != self.rank)
        incoming = sum(length for rank, length in enumerate(lengths) if rank != self.rank)
        if self.size > 1:
            end = start + self.model.latency + max(outgoing, incoming) / self.model.bandwidth
            time.sleep(max(0.0, end - time.perf_counter()))
        return received

    def abort(self) -> None:
        self.transport.abort()

    def close(self) -> None:
        self.transport.close()

"""Slow links between the ranks of one machine, for times that another network would have.

Each rank is a process in a network namespace of its own, where the kernel and the rights of the user allow that: then
all that it sends is slow, whatever sends it. Where they do not, a transport is slowed instead: what compressors send.
"""

from __future__ import annotations

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

LATENCY = 100e-6  # seconds, of links whose words do not tell it
_RATES = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_LINK = re.compile(r"(?P<rate>\d+(\.\d+)?)(?P<unit>[kmg]bit)(,(?P<latency>\d+(\.\d+)?)(?P<time>us|ms|s))?")


def parse_link(text: str) -> AlphaBetaModel:
    """The link that words such as "100mbit" or "1gbit,0.5ms" name: rate, latency (100us). DataError for others."""
    found = _LINK.fullmatch(text)
    if not found or not float(found["rate"]):
        raise DataError(f"link {text!r}: write a rate, and a latency if you like: 100mbit, 1gbit, 1gbit,0.5ms")
    bandwidth = float(found["rate"]) * _RATES[found["unit"]] / 8
    latency = float(found["latency"]) * _TIMES[found["time"]] if found["latency"] else LATENCY
    return AlphaBetaModel(latency, bandwidth)


class EmulatedLinks(Protocol):
    """Links that are there; can be given to processes."""

    @property
    def description(self) -> str:
        """What slows them, for the reader of a figure."""
        ...

    def enter(self, rank: int) -> None:
        """Move this process to the rank's place; before it opens a socket or starts a thread that does."""
        ...

    def throttle(self, transport: Transport) -> Transport:
        """The transport, with as much of the slowness as the place does not have."""
        ...


@contextmanager
def emulate_links(ranks: int, model: AlphaBetaModel) -> Iterator[EmulatedLinks]:
    """Links like `model` between so many ranks, while the context lasts.

    Namespaces shape the rate; the latency is waited for by the transport, once a round.
    """
    namespaces = NetworkNamespaces.with_unique_names(ranks, model.bandwidth)
    try:
        try:
            namespaces.create()
            links: EmulatedLinks = _NamespaceLinks(namespaces, model.latency)
        except BitlaneError as error:
            links = _TokenBucketLinks(model, f"a token bucket around the transport, since namespaces failed: {error}")
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
        """All ranks are in one place."""

    def throttle(self, transport: Transport) -> Transport:
        return ThrottledTransport(transport, self.model)


class ThrottledTransport:
    """A transport whose rounds take as long as on a link that sends and receives at a time."""

    def __init__(self, transport: Transport, model: AlphaBetaModel):
        self.transport, self.model = transport, model
        self.rank, self.size, self.device = transport.rank, transport.size, transport.device
        self.sent = transport.sent

    def exchange(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        began = time.perf_counter()
        received = self.transport.exchange(parts, lengths)
        self.sent = self.transport.sent
        outgoing = sum(len(part) for rank, part in enumerate(parts) if rank != self.rank)
        incoming = sum(length for rank, length in enumerate(lengths) if rank != self.rank)
        if self.size > 1:
            over = began + self.model.latency + max(outgoing, incoming) / self.model.bandwidth
            time.sleep(max(0.0, over - time.perf_counter()))
        return received

    def abort(self) -> None:
        self.transport.abort()

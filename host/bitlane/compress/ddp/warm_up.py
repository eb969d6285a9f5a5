"""Compile the loops of a compressor before the first step, once for all ranks of a machine.

Otherwise every rank compiles them in its first step, on a cold cache for ten seconds or more, which bit policies and
statistics would take for the time of a step.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from bitlane.support.cache import cache_folder

from ..codecs.wire import Header
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.echo import EchoTransport
from ..collectives.link import Link
from ..compressor import Compressor, ParameterSpan, vector_length

LAYOUT = [ParameterSpan(0, (64, 32)), ParameterSpan(2048, (40,))]  # a matrix and a vector


def warm_up(compressor: Compressor, ranks: int) -> None:
    """Make one step of a small gradient without other ranks.

    The ranks of a machine do it in turn: the first one compiles, the others load what it compiled.

    Parameters
    ----------
    compressor : Compressor
        Its loops are compiled.
    ranks : int
        Number of ranks, on which the collective depends.
    """
    link = Link(EchoTransport(ranks), "")
    reducer = compressor.reducer(LAYOUT, link, AlphaBetaModel(), torch.device("cpu"))
    if compressor.policy is not None:
        reducer.bits = compressor.policy.choices[0]  # `Auto` begins with bits that need no loops
    vector = torch.linspace(-1, 1, vector_length(LAYOUT))
    with _turn():
        link.handshake(Header(compressor.codec, reducer.bits, len(vector), 0))
        reducer.average(vector, 0)


@contextmanager
def _turn() -> Iterator[None]:
    """Wait until no other process of this user is in the context; without a folder for the lock, do not wait."""
    folder = cache_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = (folder / "codecs.lock").open("w")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

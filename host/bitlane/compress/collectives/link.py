"""The connection of a rank to the others: the handshake of a step, and exchanges of known lengths."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError

from ..codecs.wire import HEADER_BYTES, Flag, Header
from .transport import RankFailed, Transport


class Link:
    """The collectives that reducers use.

    Parameters
    ----------
    transport : Transport
        Moves bytes between ranks.
    settings : str
        The settings that must be equal on all ranks, as readable text, one a line.

    Attributes
    ----------
    seconds : float
        Time spent in exchanges so far, including waiting for other ranks.
    """

    def __init__(self, transport: Transport, settings: str):
        self.transport = transport
        self.rank = transport.rank
        self.size = transport.size
        self.device = transport.device
        self.settings, self.seconds = settings, 0.0

    def handshake(self, header: Header) -> Sequence[Header]:
        """Exchange the headers of a step: one round of 32 bytes to each rank.

        Returns
        -------
        sequence of Header
            The headers of all ranks, in order.

        Raises
        ------
        DataError
            On all ranks, if settings, step, codec, bits or count differ. The message names the rank.
        RankFailed
            If another rank has raised an exception in this step.
        """
        own = replace(header, settings_crc=zlib.crc32(self.settings.encode()), step=header.step % 2**32)
        packed = _tensor(own.pack(), self.device)
        headers = [Header.unpack(_bytes(each)) for each in self.all_gather(packed, [HEADER_BYTES] * self.size)]
        failed = [rank for rank, each in enumerate(headers) if Flag.FAILED in each.flags]
        if self.rank not in failed and failed:
            raise RankFailed(f"rank {failed[0]} failed in step {header.step}: see the error message of that rank")
        if not failed:
            self._compare(headers)
        return headers

    def _compare(self, headers: Sequence[Header]) -> None:
        """Raise DataError if headers differ. All ranks decide alike, so all take part in the exchange of settings."""
        if any(each.settings_crc != headers[0].settings_crc for each in headers):
            texts = self.gather_texts(self.settings)
            odd = next(rank for rank, text in enumerate(texts) if text != texts[0])
            first, other = _first_difference(texts[0], texts[odd])
            raise DataError(f"ranks have different settings: rank 0 has {first}, rank {odd} has {other}")
        for name in ("step", "codec", "bits", "count"):
            values = [getattr(each, name) for each in headers]
            if any(value != values[0] for value in values):
                odd = next(rank for rank, value in enumerate(values) if value != values[0])
                raise DataError(
                    f"ranks have different {name}: rank 0 has {values[0]}, rank {odd} has {values[odd]}; "
                    "start all ranks from the same checkpoint"
                )

    def gather_texts(self, text: str) -> list[str]:
        """Return the text of each rank."""
        data = text.encode()
        return [
            _bytes(each).decode()
            for each in self.all_gather(_tensor(data, self.device), self.gather_lengths(len(data)))
        ]

    def gather_lengths(self, length: int) -> list[int]:
        """Return the length of each rank, a non-negative integer."""
        packed = torch.tensor([length], dtype=torch.int64, device=self.device).view(torch.uint8)
        return [int.from_bytes(_bytes(each), "little") for each in self.all_gather(packed, [8] * self.size)]

    def gather_numbers(self, own: Sequence[float]) -> list[list[float]]:
        """Return the float64 numbers of each rank. All ranks give the same count; 8 bytes per number."""
        packed = torch.tensor(list(own), dtype=torch.float64).view(torch.uint8).to(self.device)
        return [each.cpu().view(torch.float64).tolist() for each in self.all_gather(packed, [len(packed)] * self.size)]

    def all_gather(self, body: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Send `body`, uint8 [lengths[rank]], to all ranks, and return the bodies of all ranks."""
        return self.exchange([body] * self.size, lengths)

    def exchange(self, bodies: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        """Send `bodies[j]` to rank j, and return `lengths[i]` bytes from each rank i."""
        start = perf_counter()
        try:
            return self.transport.exchange(bodies, lengths)
        finally:
            self.seconds += perf_counter() - start


def _first_difference(first: str, other: str) -> tuple[str, str]:
    """Return the first setting in which two texts differ, of each."""
    pairs = zip_longest(first.splitlines(), other.splitlines(), fillvalue="no such parameter")
    return next((a, b) for a, b in pairs if a != b)


def _tensor(data: bytes, device: torch.device) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy()).to(device)


def _bytes(tensor: Tensor) -> bytes:
    data: bytes = tensor.cpu().numpy().tobytes()
    return data

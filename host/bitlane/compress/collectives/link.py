"""A rank's end of the conversation: the round that agrees on a step, and exchanges whose lengths all know."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError

from ..codecs.wire import HEADER_BYTES, Flag, Header
from .transport import RankFailed, Transport


class Link:
    """What reducers send through.

    Parameters
    ----------
    transport: how bytes go from rank to rank.
    settings: everything that ranks have to agree on, as text that a person can compare.

    Attributes
    ----------
    seconds: spent in exchanges so far, waiting for other ranks included.
    """

    def __init__(self, transport: Transport, settings: str):
        self.transport = transport
        self.rank, self.size, self.device = transport.rank, transport.size, transport.device
        self.settings, self.seconds = settings, 0.0

    def handshake(self, header: Header) -> Sequence[Header]:
        """All ranks' headers of a step; a round of 32 bytes to each.

        Raises
        ------
        DataError: settings, steps, counts or bits differ; every rank raises it, and it says whose.
        RankFailed: a rank raised, and says so by its flag; its own error tells why.
        """
        own = replace(header, settings=zlib.crc32(self.settings.encode()), step=header.step % 2**32)
        packed = _tensor(own.pack(), self.device)
        headers = [Header.unpack(_bytes(each)) for each in self.all_gather(packed, [HEADER_BYTES] * self.size)]
        failed = [rank for rank, each in enumerate(headers) if Flag.FAILED in each.flags]
        if self.rank not in failed and failed:
            raise RankFailed(f"rank {failed[0]} failed in step {header.step}: its own error says why")
        if not failed:
            self._compare(headers)
        return headers

    def _compare(self, headers: Sequence[Header]) -> None:
        """Every rank comes to the same answer, and so to the same round that asks for the settings."""
        if any(each.settings != headers[0].settings for each in headers):
            texts = self.gather_texts(self.settings)
            odd = next(rank for rank, text in enumerate(texts) if text != texts[0])
            raise DataError(f"ranks have different settings: rank 0 has {texts[0]}, rank {odd} has {texts[odd]}")
        for name in ("step", "codec", "bits", "count"):
            values = [getattr(each, name) for each in headers]
            if any(value != values[0] for value in values):
                odd = next(rank for rank, value in enumerate(values) if value != values[0])
                raise DataError(
                    f"ranks have different {name}: rank 0 has {values[0]}, rank {odd} has {values[odd]}; "
                    "have all gone on from the same checkpoint?"
                )

    def gather_texts(self, text: str) -> list[str]:
        """Each rank's text."""
        data = text.encode()
        return [
            _bytes(each).decode()
            for each in self.all_gather(_tensor(data, self.device), self.gather_lengths(len(data)))
        ]

    def gather_lengths(self, length: int) -> list[int]:
        """Each rank's number."""
        packed = torch.tensor([length], dtype=torch.int64, device=self.device).view(torch.uint8)
        return [int.from_bytes(_bytes(each), "little") for each in self.all_gather(packed, [8] * self.size)]

    def gather_numbers(self, own: Sequence[float]) -> list[list[float]]:
        """Each rank's numbers, float64; as many from every rank, 8 bytes each."""
        packed = torch.tensor(list(own), dtype=torch.float64).view(torch.uint8).to(self.device)
        return [each.cpu().view(torch.float64).tolist() for each in self.all_gather(packed, [len(packed)] * self.size)]

    def all_gather(self, body: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Give every rank `body` uint8 [lengths[rank]], and take theirs."""
        return self.exchange([body] * self.size, lengths)

    def exchange(self, bodies: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        """Give rank j `bodies[j]`, and take `lengths[i]` bytes from rank i."""
        begun = perf_counter()
        try:
            return self.transport.exchange(bodies, lengths)
        finally:
            self.seconds += perf_counter() - begun


def _tensor(data: bytes, device: torch.device) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy()).to(device)


def _bytes(tensor: Tensor) -> bytes:
    data: bytes = tensor.cpu().numpy().tobytes()
    return data

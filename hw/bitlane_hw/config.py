"""What is fixed when the accelerator is built."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

from .contract import BURST_WORDS, CHUNK

ROW_BUFFER_MARGIN = 64  # words that may be in flight between the dot lanes and the gradient lanes


@dataclass(frozen=True)
class AcceleratorConfig:
    """Sizes of the memories; everything else is a run-time register.

    Parameters
    ----------
    max_features: features that the model memory holds; a multiple of 32, 64 at least.
    row_buffer_words: words of samples kept between the two uses of a row; a row may be
        `max_row_words` long.
    fifo_words: words prefetched a stream; must cover the read latency (see `reader`).
    address_bits: width of the addresses on the memory port.
    """

    max_features: int = 16384
    row_buffer_words: int = 4096
    fifo_words: int = 256
    address_bits: int = 40

    def __post_init__(self) -> None:
        if self.max_features < 2 * CHUNK or self.max_features % CHUNK:
            raise ValueError(f"max_features={self.max_features} must be a multiple of {CHUNK}, {2 * CHUNK} at least")
        if self.row_buffer_words <= ROW_BUFFER_MARGIN:
            raise ValueError(f"row_buffer_words={self.row_buffer_words} must exceed {ROW_BUFFER_MARGIN}")
        if self.fifo_words < 4 * BURST_WORDS:
            raise ValueError(f"fifo_words={self.fifo_words} must be {4 * BURST_WORDS} at least")
        if not 32 <= self.address_bits <= 64:
            raise ValueError(f"address_bits={self.address_bits} must be 32 to 64")

    @property
    def max_chunks(self) -> int:
        return self.max_features // CHUNK

    @property
    def max_row_words(self) -> int:
        return self.row_buffer_words - ROW_BUFFER_MARGIN

    @property
    def digest(self) -> int:
        """32 bits over the RTL's sources and this configuration: the `build` register."""
        hasher = hashlib.sha256(repr(sorted(asdict(self).items())).encode())
        for source in sorted(Path(__file__).parent.glob("*.py")):
            hasher.update(source.name.encode())
            hasher.update(source.read_bytes())
        return int.from_bytes(hasher.digest()[:4], "big")

"""Text that any machine has: the sources of Python's standard library.

The text is the same for each copy of a version of Python.
"""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import BitlaneError

BYTES = 1_900_000
HELD_OUT = 100_000  # the last bytes


@dataclass(frozen=True)
class Text:
    """A text as bytes, uint8, of training and held-out bytes, without overlap."""

    training: Tensor
    held_out: Tensor


def load_text(size: int = BYTES, held_out_bytes: int = HELD_OUT, folder: Path | None = None) -> Text:
    """Return the first `size` bytes of the Python modules in a folder, joined in the order of their names.

    Parameters
    ----------
    size : int, default: 1,900,000
        Bytes in total.
    held_out_bytes : int, default: 100,000
        How many bytes at the end are held out.
    folder : Path or None, default: None
        The folder; None for that of the standard library, without its packages.

    Raises
    ------
    BitlaneError
        If the modules have fewer bytes.
    """
    folder = folder or Path(sysconfig.get_path("stdlib"))
    text = b""
    for path in sorted(folder.glob("*.py"), key=lambda each: each.name):
        text += path.read_bytes()
        if len(text) >= size:
            break
    if len(text) < size:
        raise BitlaneError(f"the Python modules in {folder} have {len(text):,} bytes; {size:,} are needed")
    values = torch.from_numpy(np.frombuffer(text[:size], np.uint8).copy())
    return Text(values[: size - held_out_bytes], values[size - held_out_bytes :])


def windows(text: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Cut a text into windows, and return their bytes and for each byte the next one, int64 [windows, length] each."""
    count = (len(text) - 1) // length
    values = text[: count * length + 1].long()
    return values[:-1].view(count, length), values[1:].view(count, length)

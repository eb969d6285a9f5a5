"""Bitstreams of this package or of $BITLANE_OVERLAYS, a folder for each chip. pynq finds them through `for_pynq`.

`make bitstream` creates such a folder: `bitlane.bit.xz`, one configuration for all boards with the chip; `BOARD.hwh`,
the handoff of each board; `manifest.json`. They are unpacked into the cache when they are first used. Their names
contain a digest and the board, because pynq identifies bitstreams by name, also on a remote board.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from dataclasses import dataclass
from pathlib import Path

from bitlane.errors import DeviceError
from bitlane.support.atomic import atomic_write
from bitlane.support.cache import cache_folder, make_cache

from .bit_header import with_board

FOLDER = Path(__file__).parent
VARIABLE = "BITLANE_OVERLAYS"
# Boards without an overlay in the package, by their names in pynq, and how to make one.
RECIPES = {name: f"Vivado recipe bitstreams/{name.lower()}, untested" for name in ("ZCU104", "KV260")}
# Where a system with pynq has the name of its board: the device tree of an image, and the file in which XRT looks.
NAME_FILES = (Path("/proc/device-tree/chosen/pynq_board"), Path("/etc/xocl.txt"))


@dataclass(frozen=True)
class Overlay:
    """An overlay of a board.

    Attributes
    ----------
    board : str
        Name of the board in pynq, such as "Pynq-Z2".
    bitstream, handoff : Path
        The compressed bitstream, and the hardware handoff of the board.
    clock_mhz : float
        The accelerator's clock.
    width : int
        Bits of its memory port.
    location : str
        Where it comes from, for people.
    """

    board: str
    bitstream: Path
    handoff: Path
    clock_mhz: float
    width: int
    location: str


def overlays() -> dict[str, Overlay]:
    """Return the overlays of $BITLANE_OVERLAYS, or without it those of this package, by the board's name in pynq."""
    folder = Path(os.environ.get(VARIABLE) or FOLDER)
    location = f"in {folder} ({VARIABLE})" if os.environ.get(VARIABLE) else "in the package"
    results = {}
    for file in sorted(folder.glob("*/manifest.json")):
        manifest = json.loads(file.read_text())
        clock_mhz, width = float(manifest["clock_mhz"]), int(manifest["configuration"]["width"])
        for name, board in manifest["boards"].items():
            bitstream, handoff = file.with_name("bitlane.bit.xz"), file.with_name(f"{name}.hwh")
            results[board] = Overlay(board, bitstream, handoff, clock_mhz, width, location)
    return results


def overlay_for(board: str) -> Path:
    """Return the .bit for a board, next to its .hwh.

    Parameters
    ----------
    board : str
        Name of the board in pynq, such as "Pynq-Z2".

    Raises
    ------
    DeviceError
        There is no bitstream for the board.
    """
    available = overlays()
    if board not in available:
        raise DeviceError(no_overlay(board))
    return _unpack(available[board])


def no_overlay(board: str) -> str:
    """Return the message for a board without a bitstream."""
    known = ", ".join(sorted(overlays())) or "none"
    return (
        f"there is no bitstream for the board {board} (for: {known}): build one (see bitstreams/README.md), and "
        f"set {VARIABLE} to the folder that contains its folder"
    )


def this_board() -> str | None:
    """Return the name in pynq of the board that this program runs on; None on other machines."""
    names = (file.read_bytes().rstrip(b"\0\n").decode() for file in NAME_FILES if file.is_file())
    return next((name for name in names if name not in ("", "Unknown")), None)


def _unpack(overlay: Overlay) -> Path:
    compressed = overlay.bitstream.read_bytes()
    digest = hashlib.sha256(compressed).hexdigest()[:8]
    bit = cache_folder() / "overlays" / f"bitlane_{digest}.{overlay.board}.bit"
    _write(bit.with_suffix(".hwh"), overlay.handoff.read_bytes())
    if not bit.exists():
        _write(bit, with_board(lzma.decompress(compressed), overlay.board))
    return bit


def _write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all. A file with this content already stays unchanged."""
    if path.is_file() and path.read_bytes() == content:
        return
    make_cache(path.parent, "the bitstream")
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def unpack_for_pynq() -> Path:
    """Return a folder in which `pynq.Overlay("bitlane.bit")` finds the bitstream of the board that it runs on.

    On a board it has the files of that board alone, elsewhere those of all boards.
    """
    folder = cache_folder() / "overlays"
    here = this_board()
    for board, overlay in overlays().items():
        if here in (None, board):
            bit = _unpack(overlay)
            for file in (bit, bit.with_suffix(".hwh")):
                _write(folder / "bitlane.bit.d" / f"bitlane.{board}{file.suffix}", file.read_bytes())
    return folder

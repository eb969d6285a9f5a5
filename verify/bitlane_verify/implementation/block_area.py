"""The area of blocks alone, which says what a further row and a further shard consist of.

    python -m bitlane_verify.implementation.block_area              all blocks; some minutes
    python -m bitlane_verify.implementation.block_area "dot lanes"

Yosys maps each block as it maps a complete build. A block alone keeps all its ports, so it has more cells than the same
block of a build has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from amaranth.lib.wiring import Component

from bitlane.contract.config import AcceleratorConfig
from bitlane.support.text import align_columns
from bitlane_hw.control.sequencer import Sequencer
from bitlane_hw.datapath.dot import DotLanes
from bitlane_hw.datapath.dot_sum import DotSum
from bitlane_hw.datapath.gradient import GradientPass
from bitlane_hw.datapath.scalar import LossSum, Predict, Slope, StepProduct
from bitlane_hw.datapath.update import UpdateLanes
from bitlane_hw.memory.loader import Loader
from bitlane_hw.memory.reader import Reader
from bitlane_hw.memory.storer import Storer
from bitlane_hw.memory.writer import Writer

from .area_and_timing import mapped_area
from .yosys import ADDRESS_BITS

ONE = AcceleratorConfig(address_bits=ADDRESS_BITS)
ROWS = AcceleratorConfig(128, address_bits=ADDRESS_BITS)
SHARDS = AcceleratorConfig(128, shards=2, address_bits=ADDRESS_BITS)
FOUR_SHARDS = AcceleratorConfig(256, shards=4, address_bits=ADDRESS_BITS)
BLOCKS: dict[str, Callable[[], Component]] = {
    "update lanes": lambda: UpdateLanes(ONE),
    "update lanes, 2 rows": lambda: UpdateLanes(ROWS),
    "dot lanes": lambda: DotLanes(ONE),
    "sum of dot products, 2 shards": lambda: DotSum(SHARDS),
    "gradient pass": lambda: GradientPass(ONE),
    "gradient pass, 2 rows": lambda: GradientPass(ROWS),
    "prediction": lambda: Predict(ONE),
    "slope": Slope,
    "step": StepProduct,
    "sum of the loss": lambda: LossSum(1),
    "sum of the loss, 2 rows": lambda: LossSum(2),
    "sequencer": lambda: Sequencer(ONE),
    "sequencer, 2 rows": lambda: Sequencer(ROWS),
    "sequencer, 2 shards": lambda: Sequencer(SHARDS),
    "loader": lambda: Loader(ONE),
    "loader, 2 rows": lambda: Loader(ROWS),
    "storer": lambda: Storer(ONE),
    "storer, 2 rows": lambda: Storer(ROWS),
    "storer, 2 shards": lambda: Storer(SHARDS),
    "storer, 4 shards": lambda: Storer(FOUR_SHARDS),
    "reader": lambda: Reader(ONE),
    "writer": lambda: Writer(ONE),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the area of all blocks, or of the named ones."""
    parser = argparse.ArgumentParser(description="The area of blocks alone, by Yosys.")
    parser.add_argument("names", nargs="*", metavar="BLOCK", help=f"({', '.join(BLOCKS)})")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.names if name not in BLOCKS]:
        parser.error(f"unknown block {unknown[0]!r}; choose from {', '.join(map(repr, BLOCKS))}")
    rows = [["block", "LUT", "FF", "BRAM36", "DSP"]]
    for name in arguments.names or BLOCKS:
        print(f"{name}: mapping ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as work:
            found = mapped_area(BLOCKS[name](), Path(work))
        rows.append([name, f"{found.lut:,}", f"{found.ff:,}", f"{found.bram36:g}", f"{found.dsp}"])
    print(align_columns(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

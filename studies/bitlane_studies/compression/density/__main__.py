"""Measure how exactly MiCRO holds its density: `python -m bitlane_studies.compression.density`.

The output has a row for each controller and kind of gradient, with these columns:

first in    the first step with a density within 10 % of the requested one
within      share of the steps after the first 20 with such a density
least, most smallest and largest density after the first 20 steps, relative to the requested one
total       indices of all steps, relative to the requested number
index       bytes of the encoded indices, relative to their entropy
bytes       all bytes sent, relative to the authors' format for the same selections
"""

from __future__ import annotations

import argparse
import sys

from bitlane.compress.compressors.micro import MiCRO
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns

from .gradients import KINDS, SyntheticGradients
from .study import SETTLING, DensityResult, run_density

HEADINGS = ["gradients", "scale", "controller", "first in", "within", "least", "most", "total", "index", "bytes"]


def main() -> int:
    """Run the command and return its exit status: 0, or 1 after an error message."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.compression.density", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--density", type=float, default=0.01, help="share of the values that is sent (default: 0.01)")
    parser.add_argument("--values", type=int, default=50_000, help="values of a gradient (default: 50,000)")
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks, each a thread (default: 4)")
    parser.add_argument(
        "--steps", type=int, default=2000, help=f"number of steps, more than {SETTLING} (default: 2,000)"
    )
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=KINDS,
        default=KINDS,
        metavar="KIND",
        help=f"kinds of gradients: {', '.join(KINDS)} (default: all)",
    )
    parser.add_argument(
        "--scales",
        type=float,
        nargs="+",
        default=[1e-5, 1e-2, 10.0],
        help="scales of the gradients (default: 1e-5 0.01 10)",
    )
    parser.add_argument(
        "--controllers",
        nargs="+",
        choices=("quotas", "published"),
        default=("quotas", "published"),
        help="controllers of MiCRO (default: both)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the gradients (default: 0)")
    arguments = parser.parse_args()
    if min(arguments.values, arguments.ranks) < 1 or arguments.steps <= SETTLING:
        parser.error(f"--values and --ranks must be 1 or more, and --steps more than {SETTLING}")
    try:
        print(_table(arguments))
    except BitlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _table(arguments: argparse.Namespace) -> str:
    rows = [HEADINGS]
    for controller in arguments.controllers:
        compressor = MiCRO(arguments.density, controller)
        for kind in arguments.kinds:
            for scale in arguments.scales:
                if sys.stderr.isatty():
                    print(f"\r\033[K{controller}, {kind}, {scale:g}", end="\r", file=sys.stderr, flush=True)
                gradients = SyntheticGradients(kind, scale, arguments.values, arguments.seed)
                result = run_density(compressor, gradients, arguments.ranks, arguments.steps)
                rows.append([kind, f"{scale:g}", controller, *cells(result)])
    return align_columns(rows)


def cells(result: DensityResult) -> list[str]:
    """Format a result as the columns from "first in" on."""
    later = result.ratios[SETTLING:]
    return [
        "never" if result.first_in_band is None else str(result.first_in_band),
        f"{result.share_in_band:.1%}",
        f"{later.min():.3f}",
        f"{later.max():.3f}",
        f"{result.total:.3f}",
        f"{result.index_bytes / result.entropy:.3f}" if result.entropy else "-",
        f"{result.sent / result.authors_bytes:.3f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())

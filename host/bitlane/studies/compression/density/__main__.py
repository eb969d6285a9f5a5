"""How MiCRO holds its density: `python -m bitlane.studies.compression.density`.

It prints a line for each controller and gradient.

within: of the steps from the 20th on, those within 10 % of the density asked for. least, most: density of a step, from
the 20th on, over the density asked for. total: places in all, over those asked for. index: bytes of the codes of places
over their entropy. bytes: of everything that is sent, over the authors' format for the same selections.
"""

from __future__ import annotations

import argparse
import sys

from bitlane.compress.compressors.micro import MiCRO
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns

from .gradients import KINDS, SyntheticGradients
from .study import SETTLING, DensityResult, run_density

HEADS = ["gradients", "scale", "controller", "first in", "within", "least", "most", "total", "index", "bytes"]


def main() -> int:
    """The command: 0, or 1 and one line on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane.studies.compression.density", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--density", type=float, default=0.01, help="share of values that is sent (0.01)")
    parser.add_argument("--values", type=int, default=50_000, help="values of a gradient (50,000)")
    parser.add_argument("--ranks", type=int, default=4, help="ranks, each a thread (4)")
    parser.add_argument("--steps", type=int, default=2000, help=f"steps, more than {SETTLING} (2,000)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--scales", type=float, nargs="+", default=[1e-5, 1e-2, 10.0], help="(1e-5 0.01 10)")
    parser.add_argument("--controllers", nargs="+", choices=("quotas", "published"), default=("quotas", "published"))
    parser.add_argument("--seed", type=int, default=0, help="of the gradients (0)")
    arguments = parser.parse_args()
    if min(arguments.values, arguments.ranks) < 1 or arguments.steps <= SETTLING:
        parser.error(f"values and ranks are at least 1, and steps more than {SETTLING}")
    try:
        print(_table(arguments))
    except BitlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _table(arguments: argparse.Namespace) -> str:
    rows = [HEADS]
    for controller in arguments.controllers:
        compressor = MiCRO(arguments.density, controller)
        for kind in arguments.kinds:
            for scale in arguments.scales:
                if sys.stderr.isatty():
                    print(f"\r\033[K{controller}, {kind}, {scale:g}", end="\r", file=sys.stderr, flush=True)
                gradients = SyntheticGradients(kind, scale, arguments.values, arguments.seed)
                outcome = run_density(compressor, gradients, arguments.ranks, arguments.steps)
                rows.append([kind, f"{scale:g}", controller, *cells(outcome)])
    return align_columns(rows)


def cells(outcome: DensityResult) -> list[str]:
    """An outcome as the columns from "first in" on."""
    later = outcome.ratios[SETTLING:]
    return [
        "never" if outcome.settled is None else str(outcome.settled),
        f"{outcome.held:.1%}",
        f"{later.min():.3f}",
        f"{later.max():.3f}",
        f"{outcome.total:.3f}",
        f"{outcome.index_bytes / outcome.entropy:.3f}" if outcome.entropy else "-",
        f"{outcome.sent / outcome.authors:.3f}",
    ]


if __name__ == "__main__":
    raise SystemExit(main())

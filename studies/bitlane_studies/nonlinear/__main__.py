"""Compare polynomials and refetching with plain rounding: `python -m bitlane_studies.nonlinear --data cod-rna`.

The study trains logistic regression and a linear SVM with each method at each number of stored bits. All trainings use
the row order, learning rate and epochs of full precision. It prints one table for each loss and whether the table
confirms the paper's finding.
"""

from __future__ import annotations

import argparse
import sys

from bitlane.errors import BitlaneError

from . import load_task, schedule_of, study, table, verdict
from .tasks import SYNTHETIC


def main() -> int:
    """Run the command. Return 0, or print one line on stderr and return 1."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.nonlinear", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", default="cod-rna", help=f"a data set of two classes, or {SYNTHETIC} (default: %(default)s)"
    )
    parser.add_argument(
        "--bits",
        type=int,
        nargs="+",
        default=[4, 8, 12],
        help="even numbers of stored bits per feature (default: 4 8 12)",
    )
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each method (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        task = load_task(arguments.data)
        for loss in ("log_loss", "hinge"):
            schedule = schedule_of(task, loss)
            outcomes = study(task, schedule, arguments.bits, range(arguments.seeds), _show)
            _show("")
            print(table(task, schedule, outcomes), verdict(outcomes), sep="\n\n", end="\n\n", flush=True)
    except BitlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _show(training: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{training}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

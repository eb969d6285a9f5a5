"""Text about the savings of optimal levels."""

from __future__ import annotations

from collections.abc import Sequence

from bitlane.contract.precision import Precision
from bitlane.evaluation.level_savings import Savings
from bitlane.support.text import fill_lines, stacked_columns

SHOWN = 12  # features that are shown, of those that save most


def savings_summary(savings: Savings, features: Sequence[str], name: str, rows: int) -> str:
    """Return a table of the features [s] with the largest savings, the total, and a conclusion.

    Parameters
    ----------
    savings : Savings
    features : sequence of str
    name : str
        Name of the data set.
    rows : int
    """
    bits, levels = savings.bits, Precision(savings.bits).levels
    uniform, optimal = float(savings.uniform.sum()), float(savings.optimal[:, -1].sum())
    shown = savings.order[:SHOWN]
    cells = [
        ["", "variance", "variance", "optimal over"],
        ["", "uniform", "optimal", "uniform"],
        *(_row(features[j], float(savings.uniform[j]), float(savings.optimal[j, -1])) for j in shown),
        _row(f"all {len(features)}", uniform, optimal),
    ]
    some = [f"the {len(shown)} features that save most:"] if len(shown) < len(features) else []
    above = [
        f"{name}: {rows:,} rows, {len(features)} features that vary; double sampling, {bits} bits a feature: "
        f"{levels:,} levels",
        "variance of a draw, mean over the rows, in scaled units squared; each feature reaches -1 or 1",
        *some,
    ]
    below = [
        _verdict(savings, uniform),
        "`bitlane train --levels optimal` trains with them, at 3, 4 or 5 bits a feature",
    ]
    return f"{fill_lines(*above)}\n\n{stacked_columns(cells, header=2)}\n\n{fill_lines(*below)}"


def _row(name: str, uniform: float, optimal: float) -> list[str]:
    return [name, f"{uniform:.4g}", f"{optimal:.4g}", f"{optimal / uniform:.3g}" if uniform else "-"]


def _verdict(savings: Savings, uniform: float) -> str:
    """Return the number of bits that optimal levels save, as text."""
    if not uniform:
        return "uniform levels hold every value as it is: there is nothing to save"
    if savings.bits == 2:
        return "2 bits are the fewest that can be stored: the optimal levels are a feature's least and largest value"
    if savings.enough == savings.bits:
        return (
            f"optimal levels with {savings.bits - 2} bits have more variance, in sum, than uniform ones with "
            f"{savings.bits}"
        )
    return (
        f"optimal levels with {savings.enough} bits have no more variance, in sum, than uniform ones with "
        f"{savings.bits}"
    )

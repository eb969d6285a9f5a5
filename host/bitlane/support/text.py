"""Text in aligned columns."""

from __future__ import annotations

from collections.abc import Sequence


def align_columns(cells: Sequence[Sequence[str]], header: int = 1, left: int = 1) -> str:
    """Return rows of cells as aligned text.

    Parameters
    ----------
    cells : sequence of sequences of str
    header : int, default=1
        Rows above the rule.
    left : int, default=1
        Columns aligned left; the others are aligned right.
    """
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    lines.insert(header, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def option_of(name: str) -> str:
    """Return the option of the command line that sets an argument: ``--batch-rows`` of ``batch_rows``."""
    return "--" + name.replace("_", "-")

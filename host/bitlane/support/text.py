"""Text in columns."""

from __future__ import annotations

from collections.abc import Sequence


def align_columns(cells: Sequence[Sequence[str]], header: int = 1, left: int = 1) -> str:
    """Rows of cells as text: the first `left` columns flush left, the others right; a rule below `header`."""
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

"""Text: aligned columns, and names."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence

LINE = 80  # characters of a line of a terminal


def align_columns(cells: Sequence[Sequence[str]], header: int = 1, left: int = 1, *, wrap: bool = False) -> str:
    """Return rows of cells as aligned text.

    Parameters
    ----------
    cells : sequence of sequences of str
    header : int, default=1
        Rows above the rule.
    left : int, default=1
        Columns aligned left; the others are aligned right.
    wrap : bool, default=False
        Whether the last column, which is aligned left, goes on in further rows so that all lines fit `LINE`.
    """
    if wrap:
        cells = _wrapped(cells)
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < left or (wrap and column == len(widths) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    lines.insert(header, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def shown_name(name: str) -> str:
    """Return a name for messages: quoted if it has blanks, which could not be seen at its ends otherwise."""
    return repr(name) if not name or any(each.isspace() for each in name) else name


def fill_lines(*lines: str) -> str:
    """Return lines of prose, each broken at blanks where it is longer than `LINE`."""
    return "\n".join(textwrap.fill(line, LINE, break_on_hyphens=False, break_long_words=False) for line in lines)


def stacked_columns(cells: Sequence[Sequence[str]], header: int = 1, left: int = 1) -> str:
    """Return rows of cells as aligned text that fits `LINE`: as one table, or as several below each other.

    Each table begins with the first column. A single column that is wider than a line stays so.

    Parameters
    ----------
    cells, header, left
        As for `align_columns`.
    """
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    tables: list[list[int]] = []
    for column in range(1, len(widths)):
        if not tables or sum(widths[each] + 2 for each in (*tables[-1], column)) - 2 > LINE:
            tables.append([0])
        tables[-1].append(column)
    return "\n\n".join(
        align_columns([[row[each] for each in table] for row in cells], header, sum(each < left for each in table))
        for table in tables or [[0]]
    )


def _wrapped(cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return cells with more rows, in which those of the last column are short."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    room = max(16, LINE - sum(width + 2 for width in widths))
    rows: list[list[str]] = []
    for *first, last in cells:
        pieces = textwrap.wrap(last, room, break_on_hyphens=False) or [""]
        rows.append([*first, pieces[0]])
        rows += [[""] * len(first) + [piece] for piece in pieces[1:]]
    return rows


def shown_option(name: str, value: object) -> str:
    """Return an option as somebody has written it: ``--header`` of True, ``--no-header`` of False."""
    option = option_of(name)
    return option.replace("--", "--no-", 1) if value is False else option


def option_of(name: str) -> str:
    """Return the option of the command line that sets an argument: ``--batch-rows`` of ``batch_rows``."""
    return "--" + name.replace("_", "-")


def near_names(name: str, names: Sequence[str], least: float = 0.5) -> str:
    """Return "; did you mean ...?" with the names similar to `name`, at `least` of 1, or "" if there are none."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=least)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def some_names(names: Sequence[str]) -> str:
    """Return names as text, at most eight of them."""
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown

"""What every reader of CSV checks before it reads: text, separator and column names. Its errors name the remedy."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Collection, Iterable

from bitlane.errors import DataError

HEAD_BYTES = 1 << 16  # enough for the column names
SEPARATORS = {",": ",", ";": ";", "\t": "tab", "|": "|"}  # and how `--sep` spells them
CONVERT = "convert it, such as by iconv -f latin1 -t utf-8 OLD > NEW"
UNNAMED = "Unnamed: "  # pandas' name of a column without a name, followed by its position


def separator(text: str) -> str:
    r"""Return the character that `text` names: itself, or a tab for ``tab`` and ``\t``.

    Raises
    ------
    DataError
        It is more than one character, or a quotation mark or line break.
    """
    found = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(found) != 1 or found in '"\r\n':
        raise DataError(f"separator {text!r}: use one character, such as ';', or tab")
    return found


def numbered_names(count: int) -> tuple[str, ...]:
    """Return the names of columns without a header: x0, x1, ..."""
    return tuple(f"x{number}" for number in range(count))


def column_of(given: str, columns: Collection[str]) -> str:
    """Return the name of a column without a header, which its number names too; -1 is the last one."""
    if given.lstrip("-").isdigit() and -len(columns) <= int(given) < len(columns):
        return numbered_names(len(columns))[int(given)]
    return given


def named_header(names: Iterable[str]) -> list[str]:
    """Return column names where an empty one is pandas': ``Unnamed: 0``."""
    return [name if name.strip() else f"{UNNAMED}{position}" for position, name in enumerate(names)]


def first_row(head: bytes, between: str) -> list[str]:
    """Return the cells of the first row of a text, decoded."""
    text = head.decode("utf-8-sig", "replace")
    rows = csv.reader(text.splitlines(keepends=True), delimiter=between)
    return next((row for row in rows if row), [])


def check_head(
    head: bytes, file: str, between: str, *, header: bool, ignored: Collection[str] = (), remedy: str = CONVERT
) -> None:
    """Refuse a file whose first bytes are no CSV with this separator, or whose columns lack names.

    Parameters
    ----------
    head : bytes
        The beginning of the file.
    file : str
        Its name, for the errors.
    between : str
        The separator.
    header : bool
        Whether the first row has the names of the columns.
    ignored : collection of str
        Columns that may lack a name.
    remedy : str
        What to do with bytes that are no UTF-8.

    Raises
    ------
    DataError
        The bytes are no UTF-8, another separator is meant, or a column has no name.
    """
    check_utf8(head, file, remedy)
    cells = first_row(head, between)
    if len(cells) == 1:
        for other, shown in SEPARATORS.items():
            count = len(first_row(head, other)) if other != between else 1
            if count > 1:
                wrong = SEPARATORS.get(between, between)
                raise DataError(
                    f"{file} has one column with the separator {wrong!r}, {count} with {shown!r}: use --sep '{shown}'"
                )
    if header:
        for position, name in enumerate(named_header(cells), 1):
            if name.startswith(UNNAMED) and name not in ignored:
                raise DataError(
                    f"{file}: column {position} has no name; pandas writes row numbers so: use --ignore '{name}', "
                    "or name it in the file"
                )


def check_utf8(head: bytes, file: str, remedy: str = CONVERT) -> None:
    """Raise DataError, with a remedy, if bytes are no UTF-8; a character that the end cuts is valid."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        raise not_utf8(file, error.start, remedy) from None


def not_utf8(file: str, position: int | None = None, remedy: str = CONVERT) -> DataError:
    """Return the error of a file that is no UTF-8, with the position of the first wrong byte if it is known."""
    where = "" if position is None else f" (byte {position})"
    return DataError(f"{file} is not UTF-8 text{where}: {remedy}")

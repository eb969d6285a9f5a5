"""Parse FASM, nextpnr's text format for configured features, into single features.

The package `fasm` on PyPI reads it too, with a parser generator and a C++ build. One regular expression is enough here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bitlane.errors import BitlaneError

LINE = re.compile(
    r"""\s*
    (?: (?P<name> [A-Za-z_]\w* (?:\.\w+)*)
        (?: \[ (?P<high>\d+) (?: : (?P<low>\d+) )? \] )?
        (?: \s*=\s* (?: (?P<width>\d+)? ' (?P<base>[bodh]) (?P<digits>[0-9A-Fa-f_]+) | (?P<decimal>[0-9_]+) ) )?
    )?
    \s* (?: \{ [^{}]* \} )?  # annotations have no effect
    \s* (?: \#.* )?
    """,
    re.VERBOSE,
)
BASES = {"b": 2, "o": 8, "d": 10, "h": 16}


@dataclass(frozen=True)
class Feature:
    """A feature that is set.

    Attributes
    ----------
    tile : str
        Name of the tile, such as INT_L_X0Y0.
    name : str
        Name of the feature in its tile; a bit of a vector is name[7], without leading zeros.
    location : str
        File and line of the feature, for messages.
    """

    tile: str
    name: str
    location: str


def parse(text: str, source: str) -> Iterator[Feature]:
    """Yield the features that `text` sets in order; a vector yields one for each bit that is 1.

    `source` is the name of the file. Raises BitlaneError with the line for text that is not FASM, for a value that is
    wider than its vector, and for a vector without a value.
    """
    for number, line in enumerate(text.splitlines(), 1):
        location = f"{source}, line {number}"
        match = LINE.fullmatch(line)
        if match is None:
            raise BitlaneError(f"{location}: {_shown(line)!r} is not FASM")
        if match["name"] is None:
            continue
        tile, _, name = match["name"].partition(".")
        if not name:
            raise BitlaneError(f"{location}: {_shown(line)!r} has no feature; expected TILE.FEATURE")
        value = _value(match, location)
        if match["high"] is None:
            indices = [""] * value
        else:
            low = int(match["low"] or match["high"])
            indices = [f"[{low + bit}]" for bit in range(value.bit_length()) if value >> bit & 1]
        yield from (Feature(tile, name + index, location) for index in indices)


def _value(match: re.Match[str], location: str) -> int:
    """Return the value of the line; the default is 1."""
    high = int(match["high"] or 0)
    low = int(match["low"] or high)
    bits = high - low + 1
    if bits < 1:
        raise BitlaneError(f"{location}: {match['name']}[{high}:{low}] has its limits in the wrong order")
    if match["decimal"] is None and match["digits"] is None:
        if bits > 1:
            raise BitlaneError(f"{location}: {match['name']}[{high}:{low}] has no value")
        return 1
    digits, base = match["decimal"] or match["digits"], BASES[match["base"] or "d"]
    try:
        value = int(digits.replace("_", ""), base)
    except ValueError as error:
        raise BitlaneError(f"{location}: {_shown(digits)!r} is not a number of base {base}") from error
    if value.bit_length() > min(bits, int(match["width"] or bits)):
        raise BitlaneError(f"{location}: the value of {match['name']} has more than its {bits} bits")
    return value


def _shown(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."

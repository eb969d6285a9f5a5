"""Transforms of columns that a schema declares: what they are, and the one rule of their application.

The numbers of a column are clipped first, then their ``log1p`` is taken, then they are standardised (`Schema.scales`).
Buckets make a category of a raw number, and hour and weekday categories of a time. The model keeps the transforms with
their settings, so files, tables and requests have raw values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

Transform = tuple[str, str, tuple[Any, ...]]  # column, one of `KINDS`, and its settings
ON_NUMBERS = ("clip", "log1p")  # in the order of their application
PARTS = {"hour": 24, "weekday": 7}  # of a time, and how many there are; weekday 0 is Monday
KINDS = (*ON_NUMBERS, "buckets", *PARTS)
POWERS = tuple(float(2**n) for n in range(41))
LOG_EDGES = (*(-power for power in reversed(POWERS)), 0.0, *POWERS)  # of buckets that double

Floats = NDArray[np.float64]


def as_transforms(given: Sequence[Sequence[Any]]) -> tuple[Transform, ...]:
    """Return transforms as tuples, with edges that a float32 can have; JSON has lists.

    Raises
    ------
    DataError
        One is unknown, appears twice, or has settings that it cannot have.
    """
    transforms = tuple((str(column), str(kind), tuple(settings)) for column, kind, settings in given)
    seen = set()
    for column, kind, settings in transforms:
        if kind not in KINDS:
            raise DataError(f"column {column!r} has the transform {kind!r}; {', '.join(KINDS)} are known")
        if (column, kind) in seen:
            raise DataError(f"column {column!r} has the transform {kind} twice")
        seen.add((column, kind))
        _CHECKS[kind](column, settings)
    return tuple((column, kind, _plain(kind, settings)) for column, kind, settings in transforms)


def check_columns(
    transforms: Sequence[Transform], numeric: Collection[str], hashed: Collection[str], label: str
) -> None:
    """Raise DataError for a transform of a column that cannot have it."""
    for column, kind, _ in transforms:
        if kind in ON_NUMBERS and column not in numeric:
            raise DataError(f"column {column!r} has the transform {kind}, which is one of numeric columns")
        if kind == "buckets" and column not in hashed:
            raise DataError(f"column {column!r} has buckets, which make it a category: it must be categorical")
        if kind in PARTS and column == label:
            raise DataError(f"column {column!r} is the label, and no feature is made of it")


def part_name(column: str, part: str) -> str:
    """Return the name of the feature that is a part of a time."""
    return f"{part}({column})"


def changed(numbers: Floats, transforms: Mapping[str, tuple[Any, ...]]) -> Floats:
    """Return the numbers of a column, float64 [rows], after its transforms by kind.

    ``log1p`` of x is ``sign(x) log(1 + |x|)``: negative numbers have one too, and the order of numbers stays.
    """
    if "clip" in transforms:
        numbers = np.clip(numbers, *transforms["clip"])
    if "log1p" in transforms:
        numbers = np.copysign(np.log1p(np.abs(numbers)), numbers)
    return numbers


def text_of_transform(kind: str, settings: Sequence[Any]) -> str:
    """Return a transform in words."""
    if kind == "clip":
        return f"clipped to {settings[0]:g} to {settings[1]:g}"
    if kind == "buckets":
        return f"{len(settings) + 1} buckets"
    return f"in {settings[0]}" if kind in PARTS else kind


def _plain(kind: str, settings: Sequence[Any]) -> tuple[Any, ...]:
    if kind == "buckets":
        return tuple(_rounded(edge) for edge in settings)
    return tuple(float(end) for end in settings) if kind == "clip" else tuple(settings)


def _rounded(edge: float) -> float:
    return float(np.float32(edge))


def _check_clip(column: str, settings: Sequence[Any]) -> None:
    ends = [*settings]
    if len(ends) != 2 or not all(_is_finite(end) for end in ends) or not ends[0] < ends[1]:
        raise DataError(f"column {column!r}: clip must be [low, high], two finite numbers; got {ends}")


def _check_log(column: str, settings: Sequence[Any]) -> None:
    if settings:
        raise DataError(f"column {column!r}: log1p has no settings; got {[*settings]}")


def _check_buckets(column: str, settings: Sequence[Any]) -> None:
    edges = [*settings]
    if not all(_is_finite(edge) and abs(edge) < 3e38 for edge in edges):
        raise DataError(f"column {column!r}: edges must be finite numbers; got {edges[:3]}")
    rounded = [_rounded(edge) for edge in edges]
    if any(low >= high for low, high in pairwise(rounded)):
        raise DataError(f"column {column!r}: edges must increase, as float32; got {edges[:5]}")


def _check_part(column: str, settings: Sequence[Any]) -> None:
    from zoneinfo import ZoneInfo  # reads the tables of the system

    zone = settings[0] if len(settings) == 1 else None
    try:
        ZoneInfo(zone if isinstance(zone, str) else "")
    except (LookupError, OSError, ValueError) as error:
        raise DataError(
            f"column {column!r}: the zone {zone!r} is unknown here: use a name such as UTC or Europe/Berlin; a system "
            "without zones needs the package tzdata"
        ) from error


def _is_finite(number: object) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and math.isfinite(number)


_CHECKS = {
    "clip": _check_clip,
    "log1p": _check_log,
    "buckets": _check_buckets,
    **dict.fromkeys(PARTS, _check_part),
}

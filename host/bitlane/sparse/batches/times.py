"""Times: from text in ISO 8601, and as the one text of an instant."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError

_CLOCK = r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?"
_ISO = re.compile(rf"(\d{{4}})-(\d\d)-(\d\d)(?:[T ]{_CLOCK})?\s*(?:Z|z|UTC|([+-])(\d\d):?(\d\d)?)?")
_TIME_OF_DAY = re.compile(_CLOCK)
_QUARTER = 900  # seconds; a zone changes its offset at most once in so many
_EPOCH = datetime(1970, 1, 1)
NANOSECONDS = 10**9
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": NANOSECONDS}  # units of Arrow


def nanoseconds_of(text: str) -> int | None:
    """Return a time as nanoseconds since 1970 in UTC, or None if a text is no time.

    A text is a date, or a date and a time of day, as in ISO 8601 and as pandas, polars and Arrow write them:
    ``2026-11-27``, ``2026-11-27T08:00Z``, ``2026-11-27 09:00:00.25+01:00``. A text without a zone is in UTC.
    """
    found = _ISO.fullmatch(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, zone_hour, zone_minute = found.groups()
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return None
    if sign:
        east = timedelta(hours=int(zone_hour), minutes=int(zone_minute or 0))
        try:
            moment += east if sign == "-" else -east
        except OverflowError:
            return None
    elapsed = moment - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * NANOSECONDS + _nanoseconds(fraction)


def clock_nanoseconds_of(text: str) -> int | None:
    """Return a time of day, such as ``08:00:00.25``, as nanoseconds since midnight; None if a text is none."""
    found = _TIME_OF_DAY.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = (int(each or 0) for each in found.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * NANOSECONDS + _nanoseconds(found[4])


def seconds_of_counts(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts of seconds, milliseconds, microseconds or nanoseconds since 1970 in seconds, float64 [n].

    The size says which: below 10^11 (the year 5138) a count is of seconds, below 10^14 of milliseconds, and so on.
    """
    thousands = np.searchsorted([1e11, 1e14, 1e17], np.abs(counts), side="right")
    seconds: NDArray[np.float64] = counts / 1000.0**thousands
    return seconds


def local_seconds(seconds: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """Return what the clocks of a zone show: seconds since 1970 there, int64 [n], of seconds since 1970 in UTC.

    Raises
    ------
    DataError
        A year is not between 1 and 9999.
    """
    if zone == "UTC":
        return seconds
    from zoneinfo import ZoneInfo  # reads the tables of the system

    info = ZoneInfo(zone)
    quarters, codes = np.unique(seconds // _QUARTER, return_inverse=True)
    first = _offsets(quarters * _QUARTER, info)
    offsets: NDArray[np.int64] = first[codes]
    changing = (first != _offsets(quarters * _QUARTER + _QUARTER - 1, info))[codes]
    offsets[changing] = _offsets(seconds[changing], info)
    return seconds + offsets


def _offsets(seconds: NDArray[np.int64], zone: tzinfo) -> NDArray[np.int64]:
    """Return how many seconds a zone is ahead of UTC at some times: int64 [n]."""
    try:
        moments = [(_EPOCH + timedelta(seconds=each)).replace(tzinfo=timezone.utc) for each in seconds.tolist()]
        there = [moment.astimezone(zone).utcoffset() or timedelta() for moment in moments]
    except OverflowError:
        raise DataError(
            f"times of {seconds.min()} to {seconds.max()} seconds since 1970 are not all within the years 1 to 9999"
        ) from None
    return np.array([offset // timedelta(seconds=1) for offset in there], np.int64)


def time_text(count: int, per_second: int) -> str:
    """Return the text of a time: ``2026-11-27`` at midnight, else ``2026-11-27T08:00:00.25``, in UTC.

    Parameters
    ----------
    count : int
        Of units since 1970.
    per_second : int
        Units of a second.

    Raises
    ------
    DataError
        The year is not between 1 and 9999.
    """
    seconds, rest = divmod(count, per_second)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise DataError(f"a time of {seconds} seconds since 1970 is not within the years 1 to 9999") from None
    if not (rest or seconds % 86_400):
        return moment.date().isoformat()
    return f"{moment.isoformat(timespec='seconds')}{_fraction(rest, per_second)}"


def clock_text(count: int, per_second: int) -> str:
    """Return the text of a time of day, ``08:00:00.25``, from its count of units since midnight."""
    seconds, rest = divmod(count, per_second)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours:02}:{minutes:02}:{seconds % 60:02}{_fraction(rest, per_second)}"


def _nanoseconds(fraction: str | None) -> int:
    return int((fraction or "").ljust(9, "0"))


def _fraction(rest: int, per_second: int) -> str:
    return f".{rest:0{len(str(per_second)) - 1}}".rstrip("0") if rest else ""

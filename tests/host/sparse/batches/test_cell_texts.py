"""The one text of a value: against texts by hand, and random values written by Python in other ways."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.cell_texts import text_of_boolean, text_of_integer, text_of_number, text_of_text
from bitlane.sparse.batches.times import (
    NANOSECONDS,
    clock_nanoseconds_of,
    clock_text,
    nanoseconds_of,
    seconds_of_counts,
    time_text,
)


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("number", "7", "7"),
        ("number", "7.0", "7"),
        ("number", " 7 ", "7"),
        ("number", "+7", "7"),
        ("number", "-0", "0"),
        ("number", "-0.0", "0"),
        ("number", "007", "007"),
        ("number", "1.50", "1.5"),
        ("number", ".5", "0.5"),
        ("number", "1e-5", "0.00001"),
        ("number", "1e3", "1000"),
        ("number", "1.152921504606847e+18", "1152921504606846976"),
        ("number", "1152921504606846977", "1152921504606846977"),
        ("number", "1e999", "1e999"),
        ("number", "red", "red"),
        ("number", "nan", None),
        ("boolean", "True", "true"),
        ("boolean", "FALSE", "false"),
        ("boolean", "1.0", "true"),
        ("boolean", "maybe", "maybe"),
        ("time", "2018-05-01 00:00:00", "2018-05-01"),
        ("time", "2018-05-01T02:00:00.500+02:00", "2018-05-01T00:00:00.5"),
        ("time", "2018-05-01T00:00:00.000000Z", "2018-05-01"),
        ("time", "08:15:00.250000", "08:15:00.25"),
        ("time", "2018-02-30", "2018-02-30"),
        ("time", "25:00", "25:00"),
        ("time", "NaT", None),
        ("text", "1.50", "1.50"),
        ("text", "NA", "NA"),
        ("text", "", None),
    ],
)
def test_texts_by_hand(kind: str, text: str, wanted: str | None) -> None:
    assert text_of_text(text, kind) == wanted


def test_numbers_have_one_text(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        value = float(rng.choice([rng.normal(), round(rng.normal(), 3), rng.integers(-(10**9), 10**9), 2.0**60]))
        text = text_of_number(value, "number")
        assert text is not None and float(text) == value
        for written in (repr(value), f"{value:.17g}" if value == int(value) else repr(value), f" {value!r}"):
            assert text_of_text(written, "number") == text
        short = np.float32(value)
        assert np.float32(text_of_number(short, "text")) == short
        exact = Decimal(int(rng.integers(-(10**6), 10**6))).scaleb(-int(rng.integers(5)))
        assert text_of_text(f"{exact}000" if "." in str(exact) else f"{exact}.00", "number") == text_of_text(
            str(exact), "number"
        )
    assert [text_of_number(each, "number") for each in (np.inf, -np.inf, np.nan)] == ["inf", "-inf", None]


def test_booleans_and_numbers_of_two_values_meet() -> None:
    assert [text_of_boolean(value, kind) for kind in ("boolean", "text", "number") for value in (True, False)] == [
        *("true", "false") * 2,
        "1",
        "0",
    ]
    assert [text_of_integer(value, "boolean") for value in (0, 1, 2)] == ["false", "true", "2"]
    assert text_of_number(1.0, "boolean") == "true"


def test_times_against_datetime(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        moment = datetime.datetime(1, 1, 2) + datetime.timedelta(
            days=int(rng.integers(3_652_000)), seconds=int(rng.integers(86_400)), microseconds=int(rng.integers(10**6))
        )
        zone = datetime.timezone(datetime.timedelta(minutes=int(rng.integers(-840, 840))))
        wanted = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) * 1000
        assert nanoseconds_of(moment.isoformat()) == nanoseconds_of(f"{moment} UTC") == wanted
        if 2 < moment.year < 9998:
            local = moment.replace(tzinfo=datetime.timezone.utc).astimezone(zone)
            assert nanoseconds_of(str(local)) == wanted
        text = time_text(wanted, NANOSECONDS)
        assert nanoseconds_of(text) == wanted and time_text(wanted // 1000, 10**6) == text
        since = clock_nanoseconds_of(moment.time().isoformat())
        assert since == wanted % (86_400 * NANOSECONDS)
        assert clock_nanoseconds_of(clock_text(since, NANOSECONDS)) == since
    with pytest.raises(DataError, match="not within the years 1 to 9999"):
        time_text(10**12, 1)


def test_the_size_of_a_count_says_its_unit() -> None:
    seconds = np.array([1_525_132_800.0, 0.0, -1.5, 86_400.0])
    for power in (0, 3, 6, 9):
        counts = seconds[:1] * 10**power
        assert seconds_of_counts(counts).tolist() == [1_525_132_800]
    assert seconds_of_counts(seconds).tolist() == seconds.tolist()

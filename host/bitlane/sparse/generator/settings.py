"""What a click log is made of: the settings of `ClickLog`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bitlane.errors import DataError
from bitlane.support.scalars import as_integer, as_number

MOST_FIELDS = 1024
MOST_KEYS = 10**15  # ranks are exact in float64 far beyond


@dataclass(frozen=True)
class ClickLogSettings:
    """Settings of a click log.

    Attributes
    ----------
    fields : int, default=10
        Columns; each row has one key of each.
    keys : int, default=1,000,000
        Keys that can appear at any one time, of all fields together.
    growth : float, default=2.0
        Keys of a field over those of the field before; 1 for fields of one size.
    zipf : float, default=1.1
        Exponent s of the popularity within a field: the key of rank r appears in proportion to ``r ** -s``.
    dim : int, default=4
        Length of the factors of the true model.
    linear, interactions : float, default=1.0
        Standard deviations over keys of the two terms of the true logit: sum of weights, sum over pairs of fields.
    base_rate : float, default=0.2
        Share of clicks in the first 65,536 rows.
    churn : float, default=0.0
        How many times each rank changes its key in a million rows. Keys fade in and out: each rises from nothing for
        ``1 / churn`` million rows, then fades for as long.
    turn : float, default=0.0
        Radians that the true weights and factors turn in a million rows. At ``pi / 2`` nothing of the old is left; at
        ``pi`` weights have the opposite sign, and products of factors are as they were. The variance stays the same.
    start_time : int, default=1,700,000,000
        Time of the first row in seconds since 1970.
    rows_per_second : float, default=1000.0
    seed : int, default=0
        Of keys, truth and clicks; 0 to 2**64 - 1.

    Raises
    ------
    DataError
        A value outside its range; the message names it.
    """

    fields: int = 10
    keys: int = 1_000_000
    growth: float = 2.0
    zipf: float = 1.1
    dim: int = 4
    linear: float = 1.0
    interactions: float = 1.0
    base_rate: float = 0.2
    churn: float = 0.0
    turn: float = 0.0
    start_time: int = 1_700_000_000
    rows_per_second: float = 1000.0
    seed: int = 0

    def __post_init__(self) -> None:
        as_integer("fields", self.fields, 1, MOST_FIELDS)
        as_integer("keys", self.keys, self.fields, MOST_KEYS)
        as_integer("dim", self.dim, 1, 1024)
        as_integer("start_time", self.start_time, 0)
        as_integer("seed", self.seed, 0, (1 << 64) - 1)
        for name in ("zipf", "linear", "interactions", "churn", "turn"):
            self._check(name, 0.0, 1e6)
        self._check("growth", 1.0, 100.0)
        self._check("base_rate", 1e-6, 1 - 1e-6)
        self._check("rows_per_second", 1e-6, 1e12)

    def _check(self, name: str, least: float, most: float) -> None:
        value: Any = getattr(self, name)
        if not least <= as_number(name, value) <= most:
            raise DataError(f"{name}={value!r}: it must be a number from {least:g} to {most:g}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Keys of each field at any one time: at least 1, in total `keys`."""
        weights = [self.growth ** float(f + 1 - self.fields) for f in range(self.fields)]
        spare = self.keys - self.fields
        sizes = [1 + int(spare * (weight / sum(weights))) for weight in weights]
        sizes[-1] += self.keys - sum(sizes)
        return tuple(sizes)

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the columns in files: f0, f1, ..."""
        return tuple(f"f{f}" for f in range(self.fields))

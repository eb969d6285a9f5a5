"""Random tables for the encoder in hardware: its settings, its source region, and the regions of the host's encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.encoding import ValueType, row_parts
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words
from bitlane.contract.precision import Precision
from bitlane.contract.prng import INDEX_STEP
from bitlane.quantization.positions import position_map
from bitlane.quantization.scaling import Scaling, fit_scaling
from bitlane.quantization.source import VALUE_TYPES, holds_scales, pack_source
from bitlane.support.rng import seed_word
from bitlane.training.samples import SampleEncoder

DTYPES = tuple(VALUE_TYPES)


@dataclass(frozen=True)
class EncoderCase:
    """An encoding: what it reads, and what the host's encoder makes of the same rows."""

    geometry: Geometry
    settings: dict[str, int]
    seed: int
    source: Words
    regions: list[Words]  # the base region, then each draw region


def random_table(rng: np.random.Generator, dtype: np.dtype[Any], rows: int, features: int) -> NDArray[Any]:
    """Return values of all sizes that the type has, with columns of few values and of large offsets among them."""
    if dtype == np.float32:
        scale = 10.0 ** rng.integers(-12, 12, features)
        X = scale * (rng.normal(size=(rows, features)) + rng.choice((0, 1, 1000), features))
        X[0] += np.where(X[0] < X[-1], -scale, scale)  # no column whose values hardly differ: it has no scale
        X[rng.random(X.shape) < 0.05] = 0.0
        return X.astype(np.float32)
    info = np.iinfo(dtype)
    low = rng.integers(info.min, info.max, features)
    high = np.minimum(low + (info.max - info.min >> rng.integers(0, info.bits, features)) + 1, info.max)
    return rng.integers(low, high + 1, (rows, features)).astype(dtype)


def random_case(
    seed: int, base_bits: int, sets: int, outputs: int = 1, max_features: int = 128, dtype: Any = None, rows: int = 0
) -> EncoderCase:
    """Return a random encoding of at most this size: some of its values may lie outside the range of its scaling."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[rng.integers(len(DTYPES))] if dtype is None else np.dtype(dtype)
    rows = rows or int(rng.integers(1, 12))
    bits = 2 * int(rng.integers(1, base_bits // 2 + 1))
    precision = (
        Precision(bits + 2 * (rng.random() < 0.3), "double") if rng.random() < 0.7 else Precision(bits, "nearest")
    )
    X = random_table(rng, dtype, rows + 2, int(rng.integers(1, max_features)))
    y = rng.normal(size=(rows + 2, outputs))
    known = slice(None, None if rng.random() < 0.7 else -2)  # the scaling does not know all rows
    stored = rng.random() < 0.3
    scaling = fit_scaling(X[known], y[known], bool(rng.integers(2)) or stored, intercept_value=float(stored))
    scaling = _known_only(scaling, X)
    if not len(scaling.active):
        return random_case(seed + 1, base_bits, sets, outputs, max_features, dtype, rows)
    first = int(rng.integers(3)) if rows > 1 else 2
    chosen, used = slice(first, first + rows), int(rng.integers(1, sets + 1)) * precision.draws
    number = int(rng.integers(40))  # of the first draw set; after the last of a group comes its first
    numbers = [number // 16 * 16 + (number + i) % 16 for i in range(used)]
    encoder = SampleEncoder(X[chosen], y[chosen], scaling, precision, seed, first_row=first)
    geometry = Geometry.of(precision, scaling.stored_features, rows, 4, 1, outputs)
    base = bool(rng.integers(2)) or not used
    mapped = position_map(scaling, precision)
    if not holds_scales(mapped, base_bits):  # a column whose spread is tiny beside its offset
        return random_case(seed + 1, base_bits, sets, outputs, max_features, dtype, rows)
    source = pack_source(X[chosen], scaling.labels(y[chosen]), mapped, geometry, base_bits)
    return EncoderCase(
        geometry=geometry,
        settings={
            "value_type": int(VALUE_TYPES[dtype]),
            "last_part": row_parts(geometry.features) - 1,
            "rows": rows,
            "base": int(base),
            "base_digits": precision.base_digits,
            "sets": used,
            "first_set": number % 16,
        },
        seed=(seed_word(seed, number // 16) + first * INDEX_STEP) % (1 << 32),
        source=source,
        regions=[
            encoder.base(geometry, 0) if base else np.empty(0, np.uint64),
            *encoder.draws(geometry, 0, numbers),
        ],
    )


def _known_only(scaling: Scaling, X: NDArray[Any]) -> Scaling:
    """Return a scaling without the columns in which some scaled value is 2 or more: see `position_bits`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.abs((X - scaling.center) / np.where(scaling.scale == 0, np.inf, scaling.scale)).max(axis=0) >= 2
    return Scaling(
        scaling.center,
        np.where(far, 0.0, scaling.scale),
        scaling.label_center,
        scaling.label_scale,
        scaling.fit_intercept,
        scaling.margins,
        scaling.intercept_value,
    )


assert set(ValueType) == set(VALUE_TYPES.values())

"""Random jobs for any build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.formats import BOUND, LABEL, LEVEL, MASTER, RESIDUAL, WEIGHT_EXPONENT
from bitlane.contract.further import FurtherLoss, SoftwareConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import (
    CODEBOOK_BITS,
    MAX_DIGITS,
    PORT_WIDTHS,
    PORTS,
    ROWS_PER_BEAT,
    SHARDS,
    WORD_BITS,
    level_slots,
)
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.packing import Words, pack_base, pack_draws
from bitlane.contract.prng import MAX_CUT, SEED_BITS
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.driver.job import Job

Random = np.random.Generator


def _small(
    width: int, outputs: int, level_slots: int = 0, random: bool = False, shards: int = 1, ports: int = 1
) -> AcceleratorConfig:
    """Return a small build: random runs often reach the limits of its memories."""
    return AcceleratorConfig(
        width,
        outputs,
        max_features=512,
        row_buffer_beats=512,
        level_slots=level_slots,
        random_rounding=random,
        shards=shards,
        ports=ports,
    )


SMALL = _small(64, 1)


# Codebooks for 512 features of up to five levels or 256 features of nine, and random rounding.
SMALL_TABLE = _small(64, 1, level_slots=128, random=True)


# The builds that `make test` compiles.
TESTED = (SMALL, SMALL_TABLE, _small(128, 2))


DIGIT_LANES = tuple(config for config in TESTED if not config.table_lanes)


SHARDED = (
    _small(128, 1, shards=2),
    _small(128, 1, level_slots=64, random=True, shards=2),
    _small(256, 2, random=True, shards=2),
    _small(256, 1, shards=4),
    _small(512, 1, shards=8),
)


# A port has words of several shards, of one, or of some rows of one.
SEVERAL_PORTS = (
    _small(128, 2, ports=2),
    _small(128, 1, level_slots=64, random=True, shards=2, ports=2),
    _small(256, 2, random=True, shards=2, ports=4),
    _small(512, 1, shards=8, ports=4),
    _small(512, 1, shards=2, ports=8),
)


CONFIGS = (
    *TESTED,
    *SHARDED,
    *SEVERAL_PORTS,
    _small(64, 3),
    _small(128, 2, random=True),
    _small(256, 1),
    AcceleratorConfig(512),
    _small(128, 2, level_slots=128),
    _small(512, 1, level_slots=128),
)


def grid(widths: Sequence[int]) -> list[AcceleratorConfig]:
    """Return a build with each number of shards and ports that the widths allow, with digit lanes and with tables.

    Every second one rounds at random.
    """
    found: list[AcceleratorConfig] = []
    for width in widths:
        words = width // WORD_BITS
        for shards, ports in product(SHARDS, PORTS):
            if words // shards not in ROWS_PER_BEAT or width // ports not in PORT_WIDTHS:
                continue
            for slots in (0, 128 // shards):
                outputs = 1 + (len(found) % 3 == 0)
                found.append(_small(width, outputs, slots, len(found) % 4 in (1, 2), shards, ports))
    return found


# The same builds as devices in software, which have more objectives.
SOFTWARE_CONFIGS = tuple(SoftwareConfig(**asdict(config)) for config in CONFIGS)


EPOCH_BEATS = 2500  # of a random epoch, about, at most


def random_job(
    chosen: Random,
    config: AcceleratorConfig = SMALL,
    features: int = 512,
    rows: int | None = None,
    epochs: int = 4,
    batch: int | None = None,
) -> Job:
    """Return a random job for a build: all modes, small sizes, partial batches and beats, saturation.

    Parameters
    ----------
    chosen : numpy.random.Generator
        The source of all choices.
    config : AcceleratorConfig
        The build.
    features, epochs : int
        Upper limits.
    rows : int, optional
        Upper limit; the default is 40 * (words per beat + 1). Epochs of more than about `EPOCH_BEATS` beats get fewer.
    batch : int, optional
        Rows of a mini-batch; the default is random.

    Returns
    -------
    Job
    """
    rows_per_beat = config.rows_per_beat
    base_bits = int(chosen.choice(CODEBOOK_BITS)) if config.table_lanes else 0
    features = min(features, config.max_features)
    if config.table_lanes:
        features = min(features, config.level_slots // level_slots(base_bits) * config.chunk_features)
    features = _size(chosen, features, (1, 31, 32, 33, 64, 65, (features + 1) // 2, features))
    draws = config.table_lanes or bool(chosen.random() < 0.6)
    digits = base_bits // 2 + 1 if config.table_lanes else _size(chosen, MAX_DIGITS, (1, 2, 3, 4, MAX_DIGITS))
    most = rows_per_beat * max(1, EPOCH_BEATS // (-(-features // config.chunk_features) * digits))
    most = min(most, 40 * (config.words_per_beat + 1) if rows is None else rows)
    special = (1, 2, 3, 4, 5, 8, rows_per_beat, 4 * rows_per_beat, 4 * rows_per_beat + 1, most)
    rows = _size(chosen, most, special)
    geometry = Geometry(
        features,
        rows,
        base_digits=digits - draws,
        draws=draws,
        batch=batch or _size(chosen, 2 * rows, (1, 2, rows_per_beat, rows_per_beat + 1, 2 * rows_per_beat, rows)),
        rows_per_beat=rows_per_beat,
        outputs=config.outputs,
        half_digit=base_bits % 2 == 1,
        codebook=config.table_lanes,
        shards=config.shards,
        ports=config.ports,
    )
    shape = (geometry.rows, geometry.features)
    largest_label = 1 << int(chosen.integers(LABEL.bits))

    def base() -> Words:
        codes = chosen.integers(0, 1 << geometry.base_bits, shape).astype(np.uint32)
        labels = chosen.integers(-largest_label, largest_label, (geometry.rows, geometry.outputs))
        return pack_base(codes, labels.astype(np.int16), geometry)

    sets = int(chosen.integers(1, 3, endpoint=True))
    reach = int(chosen.choice([0, 24, MASTER.bits - 1]))  # weights of zero, small, or of any size
    master = chosen.integers(-(1 << reach), 1 << reach, (geometry.outputs, geometry.features))
    settings = random_settings(chosen, 2 * geometry.chunks <= config.max_chunks, config.random_rounding)
    if isinstance(config, SoftwareConfig):
        settings = with_random_objective(chosen, settings)
    return Job(
        geometry,
        base_regions=[base() for _ in range(1 if draws else sets)],
        draw_regions=[
            pack_draws(chosen.integers(0, 4, shape).astype(np.uint8), geometry) for _ in range(sets if draws else 0)
        ],
        state=ModelState(master.clip(MASTER.minimum, MASTER.maximum).astype(np.int32), settings),
        epochs=int(chosen.integers(1, epochs, endpoint=True)),
        snapshots=bool(chosen.integers(2)),
        levels=random_levels(chosen, geometry) if config.table_lanes else None,
    )


def random_levels(chosen: Random, geometry: Geometry) -> NDArray[np.int32]:
    """Return sorted levels, int32 [levels, features]: of any size, near zero, or at few values and both limits."""
    shape = (geometry.levels, geometry.features)
    reach = 1 << int(chosen.choice([LEVEL.bits - 1, LEVEL.fraction, 4]))
    levels = chosen.integers(-reach, reach, shape)
    if chosen.random() < 0.3:
        levels = chosen.choice([LEVEL.minimum, -1, 0, LEVEL.maximum], shape)
    return np.sort(levels, axis=0).astype(np.int32)


def random_settings(chosen: Random, two_models: bool, rounding: bool = False) -> Settings:
    """Return random settings; staleness 1 only if `two_models` fit the model memory, cuts only with `rounding`."""
    step = _mantissa_exponent(chosen)
    return Settings(
        step=step,
        step_negative=step if chosen.random() < 0.5 else _mantissa_exponent(chosen),
        penalty_step=_mantissa_exponent(chosen) if chosen.random() < 0.8 else 0,
        decay=int(chosen.choice([NO_DECAY, int(chosen.integers(NO_DECAY // 2, NO_DECAY))])),
        phase=int(chosen.integers(1 << 32)),
        loss=Loss(int(chosen.choice(list(Loss)))),
        prox=Prox(int(chosen.choice(list(Prox)))),
        bounds=_bounds(chosen),
        unpenalized_intercept=bool(chosen.integers(2)),
        staleness=int(two_models and chosen.integers(2)),
        weight_exponent=int(chosen.integers(WEIGHT_EXPONENT.minimum, WEIGHT_EXPONENT.maximum + 1)),
        model_cut=_cut(chosen) if rounding else 0,
        scaled_gradient_cut=_cut(chosen) if rounding else 0,
        seed=int(chosen.integers(1 << SEED_BITS)) if rounding else 0,
    )


def with_random_objective(chosen: Random, settings: Settings) -> Settings:
    """Return the settings with a random further loss, or none, and with elastic net or without."""
    reach = 1 << int(chosen.integers(RESIDUAL.bits))  # of epsilon: small ones as often as large ones
    return replace(
        settings,
        further_loss=FurtherLoss(int(chosen.choice(list(FurtherLoss)))),
        epsilon=int(chosen.integers(reach)),
        prox=Prox.L1 if chosen.random() < 0.4 else settings.prox,
        shrink_step=_mantissa_exponent(chosen) if chosen.random() < 0.7 else 0,
        shrink_phase=int(chosen.integers(1 << 32)),
    )


def _cut(chosen: Random) -> int:
    """Return the bits that random rounding leaves out: often none, often the fewest or the most."""
    if chosen.random() < 0.3:
        return 0
    return int(chosen.choice([1, MAX_CUT]) if chosen.random() < 0.5 else chosen.integers(1, MAX_CUT + 1))


def _size(chosen: Random, largest: int, special: tuple[int, ...]) -> int:
    """Return one of the special sizes, or any size: small ones as often as large ones."""
    if chosen.random() < 0.5:
        return min(largest, int(chosen.choice(special)))
    return int((largest + 1) ** chosen.random())


def _mantissa_exponent(chosen: Random) -> int:
    normal = chosen.random() < 0.9
    mantissa = chosen.integers(1 << 15, 1 << 16) if normal else chosen.integers(1 << 16)  # others result from decay
    return int(mantissa) | int(chosen.integers(0, 32 if chosen.random() < 0.2 else 24)) << 16


def _bounds(chosen: Random) -> tuple[int, int]:
    """Return bounds of the box: around zero, on one side, at one point, or the limits of the format."""
    low, high = sorted(int(end) for end in chosen.integers(BOUND.minimum, BOUND.maximum, 2) >> chosen.integers(16))
    choices = [(low, high), (0, max(0, high)), (low, low), (BOUND.minimum, BOUND.maximum)]
    return choices[chosen.integers(len(choices))]

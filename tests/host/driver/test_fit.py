"""What a build can run: its smallest job always, and otherwise the advice of the error."""

from __future__ import annotations

import re

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.geometry import Geometry
from bitlane.driver.fit import check_fit
from bitlane.errors import DataError
from bitlane.levels.codebooks import choose_precision


def geometry_of(config: AcceleratorConfig, bits: int, features: int) -> Geometry:
    precision = choose_precision(bits, "double", "optimal" if config.table_lanes else "uniform")
    return Geometry.of(precision, features, 1, 1, config.rows_per_beat, config.outputs)


def random_config(rng: np.random.Generator) -> AcceleratorConfig:
    """Return a build with small memories; DataError if there is no such build."""
    return AcceleratorConfig(
        width=int(rng.choice([64, 128, 256, 512])),
        outputs=int(rng.integers(1, 16)),
        max_features=64 << rng.integers(4),
        row_buffer_beats=64 + int(rng.integers(0, 40)),
        level_slots=int(rng.choice([0, 16, 32, 128])),
    )


def test_a_build_runs_its_smallest_job_or_is_refused(seed: int) -> None:
    """The shortest row has 2 bits a feature, with tables 3."""
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(500):
        try:
            config = random_config(rng)
        except DataError as error:
            assert re.fullmatch(r"row_buffer_beats=6[45] must be at least 6[56], for a row of one chunk", str(error))
            refused += 1
            continue
        check_fit(config, geometry_of(config, 3 if config.table_lanes else 2, 1), 0, "a device")
    assert 0 < refused < 250


def test_fewer_bits_as_advised_fit_and_more_do_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    advised = removed = 0
    while not (advised > 20 and removed > 20):
        try:
            config = random_config(rng)
        except DataError:
            continue
        choices = [3, 4, 5] if config.table_lanes else [2, 4, 6, 8, 16, 32]
        features = int(rng.integers(1, config.max_features + 1))
        fitting = []
        for bits in choices:
            geometry = geometry_of(config, bits, features)
            if geometry.level_slots <= config.level_slots and geometry.row_words <= config.max_row_words:
                fitting.append(bits)
        geometry = geometry_of(config, choices[-1], features)
        if geometry.row_words <= config.max_row_words:
            continue
        with pytest.raises(DataError, match=r"a row of \d+ features takes") as caught:
            check_fit(config, geometry, 0, "a device")
        if found := re.search("lower bits to (\\d+) or below", str(caught.value)):
            bits = int(found[1])
            assert geometry_of(config, bits, features).row_words <= config.max_row_words
            longer = bits + (1 if config.table_lanes else 2)
            assert geometry_of(config, longer, features).row_words > config.max_row_words
            advised += 1
        else:
            assert not fitting
            beats = int(re.search(r"row_buffer_beats=(\d+)", str(caught.value))[1])  # type: ignore[index]
            larger = AcceleratorConfig(config.width, config.outputs, config.max_features, beats, level_slots=1024)
            enough = larger if config.table_lanes else AcceleratorConfig(row_buffer_beats=beats)
            assert geometry_of(enough, choices[0], features).row_words == enough.max_row_words
            removed += 1

"""Words of builds with shards, against a packer with Python integers that follows `docs/design.md`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import PORTS
from bitlane.contract.packing import pack_base, pack_draws, pack_master, unpack_base, unpack_draws, unpack_master
from bitlane.contract.shards import join_ports, port_regions, shard_base, shard_draws, shard_models, unshard_models
from bitlane.errors import DataError

SIDE_BY_SIDE = [(shards, rows) for shards in (2, 4, 8) for rows in (1, 2, 4, 8)]


def random_geometry(rng: np.random.Generator) -> Geometry:
    shards, rows_per_beat = SIDE_BY_SIDE[rng.integers(len(SIDE_BY_SIDE))]
    base_bits = int(rng.integers(1, 4))
    table = bool(rng.integers(2))
    digits, half = divmod(base_bits, 2) if table else (int(rng.integers(4)), 0)
    rows = int(rng.integers(1, 80))
    return Geometry(
        int(rng.choice([1, 32, 33, 32 * shards, rng.integers(1, 40 * shards)])),
        rows,
        digits,
        table or digits == 0 or bool(rng.integers(2)),
        int(rng.integers(1, rows + 9)),
        rows_per_beat,
        int(rng.integers(1, 4)),
        half_digit=bool(half),
        codebook=table,
        shards=shards,
        ports=max(1, shards * rows_per_beat // 8),
    )


def value_at(values: list[int], place: int) -> int:
    return values[place] if place < len(values) else 0


def row_of_shard(codes: list[int], shard: int, geometry: Geometry, digits: int, half: bool) -> list[int]:
    """Return the words of a row in a shard: feature j of its chunk c is feature 32 (S c + shard) + j."""
    words = []

    def chunk(number: int) -> list[int]:
        return [value_at(codes, 32 * (geometry.shards * number + shard) + j) for j in range(32)]

    for number in range(geometry.chunks):
        if half and number % 2 == 0:
            words.append(sum((code >> 2 * digits) << j for j, code in enumerate(chunk(number) + chunk(number + 1))))
        words += [
            sum((code >> 2 * k & 3) << 2 * j for j, code in enumerate(chunk(number))) for k in reversed(range(digits))
        ]
    return words


def groups_of(geometry: Geometry) -> list[list[int]]:
    """Return the rows of each group."""
    rows, batch, columns = geometry.rows, geometry.batch, geometry.rows_per_beat
    return [
        list(range(first, min(first + columns, start + batch, rows)))
        for start in range(0, rows, batch)
        for first in range(start, min(start + batch, rows), columns)
    ]


def group_words(group: list[int], codes: list[list[int]], geometry: Geometry, digits: int, half: bool) -> list[int]:
    """Return the beats of a group: the words of shard 0, one for each row, then those of shard 1, and so on."""
    columns = [
        row_of_shard(codes[group[row]] if row < len(group) else [], shard, geometry, digits, half)
        for shard in range(geometry.shards)
        for row in range(geometry.rows_per_beat)
    ]
    return [column[i] for i in range(len(columns[0])) for column in columns]


def label_words(labels: list[list[int]], groups: list[list[int]], geometry: Geometry, output: int) -> list[int]:
    """Return a label beat: word (shard, row) has the labels of this row in four groups, from group 4 * shard on."""
    return [
        sum(
            (labels[groups[i][row]][output] & 0xFFFF) << 16 * (i % 4)
            for i in range(4 * shard, min(4 * shard + 4, len(groups)))
            if row < len(groups[i])
        )
        for shard in range(geometry.shards)
        for row in range(geometry.rows_per_beat)
    ]


def packed_base(codes: list[list[int]], labels: list[list[int]], geometry: Geometry) -> list[int]:
    words, groups = [], groups_of(geometry)
    for number, group in enumerate(groups):
        if number % (4 * geometry.shards) == 0:
            for output in range(geometry.outputs):
                words += label_words(labels, groups[number : number + 4 * geometry.shards], geometry, output)
        words += group_words(group, codes, geometry, geometry.base_digits, geometry.half_digit)
    return words


def test_words_follow_the_layout_and_come_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        geometry = random_geometry(rng)
        shape = geometry.rows, geometry.features
        codes = rng.integers(0, 1 << geometry.base_bits, shape).astype(np.uint32)
        labels = rng.integers(-32768, 32768, (geometry.rows, geometry.outputs)).astype(np.int16)
        drawn = rng.integers(0, 4, shape).astype(np.uint8)
        base, draws = pack_base(codes, labels, geometry), pack_draws(drawn, geometry)
        assert base.tolist() == packed_base(codes.tolist(), labels.tolist(), geometry), geometry
        rows = drawn.tolist()
        assert draws.tolist() == [
            word for group in groups_of(geometry) for word in group_words(group, rows, geometry, 1, half=False)
        ]
        assert len(base) == geometry.base_beats * geometry.beat_bytes // 8 == geometry.base_words
        again, labels_again = unpack_base(base, geometry)
        assert np.array_equal(again, codes) and np.array_equal(labels_again, labels)
        assert np.array_equal(unpack_draws(draws, geometry), drawn)


def test_some_groups_are_packed_as_in_the_complete_region(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        geometry = random_geometry(rng)
        codes = rng.integers(0, 1 << geometry.base_bits, (geometry.rows, geometry.features)).astype(np.uint32)
        labels = rng.integers(-32768, 32768, (geometry.rows, geometry.outputs)).astype(np.int16)
        base = pack_base(codes, labels, geometry)
        cut = geometry.label_groups * int(rng.integers(geometry.groups // geometry.label_groups + 1))
        for groups in (range(cut), range(cut, geometry.groups)):
            rows, span = geometry.rows_of(groups), geometry.base_span(groups)
            assert np.array_equal(pack_base(codes[rows], labels[rows], geometry, groups), base[span])
            again, labels_again = unpack_base(base[span], geometry, groups)
            assert np.array_equal(again, codes[rows]) and np.array_equal(labels_again, labels[rows])


def test_models_lie_beat_by_beat_side_by_side(seed: int) -> None:
    """In beat k of a chunk, word (shard, row) holds the values 2 i and 2 i + 1 of this shard, with i = P k + row."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        geometry = random_geometry(rng)
        models = rng.integers(-(2**31), 2**31, (geometry.outputs, geometry.features)).astype(np.int32)
        expected = []
        for model in models.tolist():
            for chunk in range(geometry.chunks):
                for beat in range(16 // geometry.rows_per_beat):
                    for shard in range(geometry.shards):
                        for row in range(geometry.rows_per_beat):
                            lane = 2 * (beat * geometry.rows_per_beat + row)
                            first = 32 * (geometry.shards * chunk + shard) + lane
                            low, high = (value_at(model, first + i) & 0xFFFF_FFFF for i in (0, 1))
                            expected.append(low | high << 32)
        words = shard_models(pack_master(models), geometry)
        assert words.tolist() == expected and words.nbytes == geometry.model_bytes
        again = unpack_master(unshard_models(words, geometry), geometry.features)
        assert np.array_equal(again, models)


def test_a_port_has_the_same_words_of_every_beat(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        geometry = random_geometry(rng)
        ports = int(rng.choice([each for each in PORTS if geometry.words_per_beat // each in (1, 2, 4, 8)]))
        geometry = replace(geometry, ports=ports)
        words = rng.integers(0, 1 << 63, geometry.base_words, dtype=np.uint64)
        parts = port_regions(words, geometry)
        size, mine = geometry.words_per_beat, geometry.words_per_beat // ports
        for port, part in enumerate(parts):
            expected = [int(words[i]) for i in range(len(words)) if i % size // mine == port]
            assert part.tolist() == expected
        assert np.array_equal(join_ports(list(parts), geometry), words)
        assert geometry.record_words == max(1 << geometry.outputs.bit_length(), mine)


def test_without_shards_nothing_moves() -> None:
    geometry = Geometry(40, 9, 1, True, 4)
    words = np.zeros(geometry.base_words, np.uint64)
    assert shard_base(words, geometry) is words and shard_draws(words, geometry) is words
    assert geometry.unsharded == geometry


def test_sizes_of_a_build_and_of_data_agree() -> None:
    for shards, rows in SIDE_BY_SIDE:
        ports = max(1, shards * rows // 8)
        config = AcceleratorConfig(64 * shards * rows, shards=shards, ports=ports, max_features=64 * shards)
        geometry = Geometry(64 * shards, 1, 1, True, 1, rows, shards=shards, ports=ports)
        assert (
            (config.rows_per_beat, config.words_per_beat)
            == (rows, shards * rows)
            == (
                geometry.rows_per_beat,
                geometry.words_per_beat,
            )
        )
        assert config.max_chunks == geometry.chunks == 2 and config.chunk_features == 32 * shards
        assert config.label_groups == geometry.label_groups == 4 * shards
        assert ports * config.chunk_bytes * geometry.chunks == geometry.model_bytes
        assert config.shard_width == 64 * rows and config.beat_bytes == geometry.beat_bytes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shards": 3}, "shards=3 must be one of 1, 2, 4, 8, and at most width / 64 = 8"),
        ({"shards": 4, "width": 128}, "shards=4 must be one of 1, 2, 4, 8, and at most width / 64 = 2"),
        ({"shards": 4, "max_features": 128}, "max_features=128 must be a power of two of at least 256"),
        ({"level_slots": 1024, "encoder": 1}, "encoder=1 needs level_slots=0, not level_slots=1024"),
        ({"ports": 4, "width": 128}, "ports=4 must be one of 1, 2, 4, 8, 16, and each must have 64 to 512 of the 128"),
        ({"ports": 3}, "ports=3 must be one of 1, 2, 4, 8, 16, "),
        (
            {"shards": 8, "width": 4096},
            "ports=1 must be one of 1, 2, 4, 8, 16, and each must have 64 to 512 of the 4096",
        ),
        ({"shards": 2, "width": 2048, "ports": 4}, "width=2048 with shards=2 has 16 rows a beat: at most 8"),
    ],
)
def test_builds_that_do_not_exist_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        AcceleratorConfig(**{"width": 512, **changes})
    with pytest.raises(DataError, match="shards=3: it must be 1, 2, 4 or 8"):
        Geometry(4, 1, 1, True, 1, rows_per_beat=4, shards=3)
    with pytest.raises(
        DataError, match=r"ports=4: it must be 1, 2, 4, 8 or 16, and each port .* rows_per_beat = 2 words"
    ):
        Geometry(4, 1, 1, True, 1, rows_per_beat=2, ports=4)
    with pytest.raises(DataError, match=r"ports=1: it must be .* rows_per_beat = 64 words"):
        Geometry(4, 1, 1, True, 1, rows_per_beat=8, shards=8)

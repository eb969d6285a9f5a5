"""The build-time configuration: errors name illegal values, limits are accepted, and derived sizes are correct."""

from __future__ import annotations

from typing import Any

import pytest

from bitlane.contract.config import AcceleratorConfig


@pytest.mark.parametrize(
    "bad",
    [
        *({"width": width} for width in (0, 32, 63, 65, 192, 8192)),
        *({"outputs": outputs} for outputs in (-1, 0, 16)),
        {"max_features": 32},
        {"max_features": 100},
        {"max_features": 0},
        {"row_buffer_beats": 64},
        {"fifo_beats": 63},
        {"address_bits": 31},
        {"address_bits": 65},
        *({"level_slots": slots} for slots in (-16, 8, 17, 48)),
        *({"shards": shards} for shards in (0, 2, 3)),
        *({"ports": ports} for ports in (0, 2, 3)),
    ],
    ids=str,
)
def test_errors_name_the_illegal_value(bad: dict[str, Any]) -> None:
    ((name, value),) = bad.items()
    with pytest.raises(ValueError, match=f"{name}={value} must"):
        AcceleratorConfig(**bad)


@pytest.mark.parametrize(("beats", "slots"), [(64, 0), (65, 16)])
def test_a_row_buffer_holds_a_row(beats: int, slots: int) -> None:
    with pytest.raises(ValueError, match=f"row_buffer_beats={beats} must be at least {beats + 1}, for a row of one"):
        AcceleratorConfig(128, row_buffer_beats=beats, level_slots=slots)
    AcceleratorConfig(128, row_buffer_beats=beats + 1, level_slots=slots)


@pytest.mark.parametrize(
    "good",
    [
        *({"width": width} for width in (64, 128, 256, 512)),
        *({"outputs": outputs} for outputs in (1, 15)),
        {"max_features": 64},
        {"row_buffer_beats": 65},
        {"fifo_beats": 64},
        {"address_bits": 32},
        {"address_bits": 64},
        {"level_slots": 0},
        {"level_slots": 16},
    ],
    ids=str,
)
def test_limits_are_allowed(good: dict[str, Any]) -> None:
    ((name, value),) = good.items()
    assert getattr(AcceleratorConfig(**good), name) == value


def test_derived_sizes() -> None:
    config = AcceleratorConfig(max_features=128, row_buffer_beats=200)
    assert config.max_chunks == 4
    assert config.max_row_words == 136


@pytest.mark.parametrize(
    ("width", "rows_per_beat", "chunk_beats", "record_beats"),
    [
        # a chunk has 16 words; a record has the first power of two above `outputs` words, and at least one beat
        (64, 1, 16, {1: 2, 2: 4, 3: 4, 4: 8, 7: 8, 8: 16, 15: 16}),
        (128, 2, 8, {1: 1, 2: 2, 3: 2, 4: 4, 15: 8}),
        (256, 4, 4, {1: 1, 3: 1, 4: 2, 15: 4}),
        (512, 8, 2, {1: 1, 7: 1, 8: 2, 15: 2}),
    ],
)
def test_beat_sizes(width: int, rows_per_beat: int, chunk_beats: int, record_beats: dict[int, int]) -> None:
    for outputs, beats in record_beats.items():
        config = AcceleratorConfig(width=width, outputs=outputs)
        assert config.rows_per_beat == rows_per_beat
        assert config.beat_bytes == 8 * rows_per_beat
        assert config.chunk_beats == chunk_beats
        assert config.record_beats == beats
        assert config.record_bytes == beats * 8 * rows_per_beat
        assert beats * rows_per_beat >= 1 + outputs, "cycles and losses fit"


@pytest.mark.parametrize(
    ("ports", "outputs", "record_beats"), [(1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 2), (8, 15, 16)]
)
def test_sizes_of_a_port(ports: int, outputs: int, record_beats: int) -> None:
    """Rows, chunks and beats stay what they are; bytes are those of a port."""
    config = AcceleratorConfig(512, outputs, shards=2, ports=ports)
    assert (config.rows_per_beat, config.chunk_beats, config.beat_bytes) == (4, 4, 64)
    assert config.port_width == 512 // ports and config.port_bytes == 64 // ports
    assert config.chunk_bytes * ports == 2 * 128
    assert config.record_beats == record_beats and config.record_bytes == record_beats * 64 // ports

"""The build-time configuration: refused values are named, and every choice has its own digest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bitlane_hw.config import AcceleratorConfig


@pytest.mark.parametrize(
    "bad",
    [
        {"max_features": 32},
        {"max_features": 100},
        {"max_features": 0},
        {"row_buffer_words": 64},
        {"fifo_words": 63},
        {"address_bits": 31},
        {"address_bits": 65},
    ],
)
def test_a_refused_value_is_named(bad: dict[str, Any]) -> None:
    ((name, value),) = bad.items()
    with pytest.raises(ValueError, match=f"{name}={value} must"):
        AcceleratorConfig(**bad)


@pytest.mark.parametrize(
    "good",
    [{"max_features": 64}, {"row_buffer_words": 65}, {"fifo_words": 64}, {"address_bits": 32}, {"address_bits": 64}],
)
def test_limits_are_allowed(good: dict[str, Any]) -> None:
    AcceleratorConfig(**good)


def test_derived_sizes() -> None:
    config = AcceleratorConfig(max_features=128, row_buffer_words=200)
    assert config.max_chunks == 4
    assert config.max_row_words == 136


def test_digest() -> None:
    config = AcceleratorConfig()
    assert config.digest == AcceleratorConfig().digest
    assert 0 <= config.digest < 1 << 32
    others = [
        replace(config, max_features=128),
        replace(config, row_buffer_words=128),
        replace(config, fifo_words=64),
        replace(config, address_bits=32),
    ]
    assert len({config.digest, *(other.digest for other in others)}) == 5

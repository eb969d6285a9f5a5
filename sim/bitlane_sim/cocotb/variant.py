"""The configuration of a block's bench: small, of the width and the outputs that the pytest side asks for."""

from __future__ import annotations

import os

from bitlane.contract.config import AcceleratorConfig

_WIDTH, _OUTPUTS = "BENCH_WIDTH", "BENCH_OUTPUTS"


def small(width: int = 64, outputs: int = 1) -> AcceleratorConfig:
    """A configuration for a block's bench."""
    return AcceleratorConfig(width, outputs, max_features=128, row_buffer_beats=128, fifo_beats=64)


def environment(config: AcceleratorConfig) -> dict[str, str]:
    """How the simulator's side learns of it."""
    return {_WIDTH: str(config.width), _OUTPUTS: str(config.outputs)}


def chosen() -> AcceleratorConfig:
    """On the simulator's side, the configuration that was asked for."""
    return small(int(os.environ[_WIDTH]), int(os.environ[_OUTPUTS]))

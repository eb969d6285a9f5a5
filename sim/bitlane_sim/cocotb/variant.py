"""The small configuration of a block's testbench; environment variables pass it to the simulator."""

from __future__ import annotations

import os

from bitlane.contract.config import AcceleratorConfig

_WIDTH, _OUTPUTS = "BENCH_WIDTH", "BENCH_OUTPUTS"


def small(width: int = 64, outputs: int = 1) -> AcceleratorConfig:
    """Return a small configuration of this width and number of outputs."""
    return AcceleratorConfig(width, outputs, max_features=128, row_buffer_beats=128, fifo_beats=64)


def environment(config: AcceleratorConfig) -> dict[str, str]:
    """Return the environment variables that pass a configuration to the simulator."""
    return {_WIDTH: str(config.width), _OUTPUTS: str(config.outputs)}


def chosen() -> AcceleratorConfig:
    """Return the configuration of the environment variables, in the simulator."""
    return small(int(os.environ[_WIDTH]), int(os.environ[_OUTPUTS]))

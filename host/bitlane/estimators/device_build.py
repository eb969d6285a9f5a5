"""The build of a device that an estimator opens by its name."""

from __future__ import annotations

from dataclasses import replace

from bitlane.contract.config import ROW_BUFFER_MARGIN, AcceleratorConfig
from bitlane.contract.further import SoftwareConfig
from bitlane.contract.layout import CHUNK, WORD_BITS
from bitlane.devices import DeviceSpec
from bitlane.training.options import TrainingOptions

SOFTWARE = {"auto", "cpu", "emulator"}
MOST_CHUNK_WORDS = CHUNK * 32 // WORD_BITS  # of a chunk with 32 stored bits


def device_build(options: TrainingOptions, features: int, device: DeviceSpec) -> AcceleratorConfig:
    """Return the build of a device that is opened for a table of this width; boards have their own.

    Devices in software are as wide as the table; a simulator of the RTL would be compiled for minutes.
    """
    build = SoftwareConfig if options.objective.more_objectives else AcceleratorConfig
    usual = build(level_slots=options.precision.level_slots, random_rounding=options.random_rounding)
    devices = device if isinstance(device, list | tuple) else [device]
    if not all(isinstance(each, str) and each in SOFTWARE for each in devices):
        return usual
    chunks = features // CHUNK + 1  # with an intercept
    return replace(
        usual,
        max_features=max(usual.max_features, 1 << (chunks * CHUNK * (1 + bool(options.staleness)) - 1).bit_length()),
        row_buffer_beats=max(usual.row_buffer_beats, ROW_BUFFER_MARGIN + MOST_CHUNK_WORDS * chunks),
    )

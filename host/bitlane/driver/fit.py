"""Whether a build of the accelerator can run data of a given shape."""

from __future__ import annotations

from dataclasses import replace

from bitlane.contract.config import ROW_BUFFER_MARGIN, AcceleratorConfig
from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane.contract.further import FurtherLoss, SoftwareConfig
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import (
    CODEBOOK_BITS,
    DEFAULT_LEVEL_SLOTS,
    DIGIT_BITS,
    MAX_DIGITS,
    WORD_BITS,
    level_slots,
)
from bitlane.contract.settings import Settings
from bitlane.errors import DataError


def check_fit(config: AcceleratorConfig, geometry: Geometry, staleness: int, name: str) -> None:
    """Raise DataError if the build cannot run data of this shape.

    Parameters
    ----------
    config : AcceleratorConfig
        Options of the build.
    geometry : Geometry
        Shape of the data.
    staleness : int
        0 or 1; with 1 the memory holds two models.
    name : str
        Name of the device, for the message.
    """
    _check_port(config, geometry, name)
    _check_lanes(config, geometry, name)
    if geometry.features > config.max_features:
        raise DataError(
            f"X has {geometry.features} features, but {name} holds {config.max_features}: "
            "remove features, or open a device with a larger max_features"
        )
    if staleness and 2 * geometry.chunks > config.max_chunks:
        raise DataError(
            f"X has {geometry.features} features, but with staleness=1 {name} holds "
            f"{config.max_chunks // 2 * config.chunk_features}: use staleness=0, or open a device with a larger "
            "max_features"
        )
    if geometry.row_words > config.max_row_words:
        raise DataError(
            f"a row of {geometry.features} features takes {geometry.row_words} words, but {name} buffers "
            f"{config.max_row_words}: {_shorter_row(geometry, config.max_row_words)}"
        )
    if geometry.level_slots > config.level_slots:
        most = config.level_slots // level_slots(geometry.base_bits) * config.chunk_features
        raise DataError(
            f"X has {geometry.features} features, but {name} holds codebooks of {geometry.levels} levels for {most}: "
            "remove features, lower bits, or open a device with "
            f"level_slots={1 << (geometry.level_slots - 1).bit_length()}"
        )


def check_rounding(config: AcceleratorConfig, settings: Settings, name: str) -> None:
    """Raise DataError if the settings ask for random rounding and the build has none."""
    if (settings.model_cut or settings.scaled_gradient_cut) and not config.random_rounding:
        raise DataError(f"{name} has no random rounding: open a device with random_rounding=True")


def check_objective(config: AcceleratorConfig, settings: Settings, name: str) -> None:
    """Raise DataError if the settings ask for an objective that only devices in software have, and this one has not."""
    if settings.more_objectives and not isinstance(config, SoftwareConfig):
        further = settings.further_loss != FurtherLoss.NONE
        what = f"loss={settings.further_loss.name.lower()!r}" if further else "penalty='elasticnet'"
        raise DataError(f"{name} has no {what}: use device='cpu', or a device opened with SoftwareConfig()")


def check_encoder(config: AcceleratorConfig, geometry: Geometry, name: str) -> None:
    """Raise DataError if the build has no encoder that writes samples of this shape."""
    if not config.encoder:
        raise DataError(f"{name} has no encoder: open a device with encoder=4, or encode on the host")
    if geometry.codebook or geometry.base_bits > ENCODER_BASE_BITS:
        raise DataError(
            f"base_bits={geometry.base_bits}, codebook={geometry.codebook}: the encoder of {name} has uniform levels "
            f"with at most {ENCODER_BASE_BITS} base bits: encode on the host"
        )


def _check_port(config: AcceleratorConfig, geometry: Geometry, name: str) -> None:
    packed = WORD_BITS * geometry.words_per_beat, geometry.outputs
    if packed != (config.width, config.outputs):
        raise DataError(
            f"the data is packed for width={packed[0]} and outputs={packed[1]}, but {name} has width={config.width} "
            f"and outputs={config.outputs}: open a device with width={packed[0]} and outputs={packed[1]}"
        )
    for option in ("shards", "ports"):
        packed_for, built = getattr(geometry, option), getattr(config, option)
        if packed_for != built:
            raise DataError(
                f"the data is packed for {option}={packed_for}, but {name} has {option}={built}: open a device "
                f"with {option}={packed_for}"
            )


def _shorter_row(geometry: Geometry, words: int) -> str:
    """Return what makes a row of `words` words or fewer: fewer bits, or with the fewest bits fewer features."""
    if geometry.codebook:
        digits = [divmod(base_bits, DIGIT_BITS) for base_bits in CODEBOOK_BITS]
        shapes = [replace(geometry, base_digits=whole, half_digit=bool(half)) for whole, half in digits]
    else:
        shapes = [replace(geometry, base_digits=digits - geometry.draws) for digits in range(1, MAX_DIGITS + 1)]
    fitting = [shape.stored_bits for shape in shapes if shape.row_words <= words]
    if fitting:
        return f"lower bits to {fitting[-1]} or below"
    least = shapes[0].row_words + ROW_BUFFER_MARGIN
    return f"remove features, or build the hardware with row_buffer_beats={least} and bits={shapes[0].stored_bits}"


def _check_lanes(config: AcceleratorConfig, geometry: Geometry, name: str) -> None:
    if geometry.codebook and not config.table_lanes:
        raise DataError(
            f"the features have codebooks, but {name} has no table lanes: open a device with "
            f"level_slots={DEFAULT_LEVEL_SLOTS}"
        )
    if config.table_lanes and not geometry.codebook:
        raise DataError(
            f"the features have uniform levels, but {name} has table lanes, which read codebooks only: open a device "
            "with level_slots=0"
        )

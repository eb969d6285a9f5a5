"""Which register values are refused."""

from __future__ import annotations

from amaranth.hdl import Cat, Value

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.layout import CHUNK_MODEL_BYTES, CODEBOOK_BITS, MAX_DIGITS, MAX_EPOCHS, MAX_ROWS
from bitlane.contract.modes import Loss
from bitlane.contract.prng import MAX_CUT
from bitlane_hw.common.payloads import base_bits

from .registers import fields_of


def misaligned(address: Value, size: int) -> Value:
    """1 where `address` is no multiple of `size`, a power of two."""
    return address[: size.bit_length() - 1].any()


def configuration_errors(registers, config: AcceleratorConfig, settings: Value, row_words: Value) -> Value:
    """A 1 where a run must not start (`ErrorCode.CONFIGURATION`): a bit for every rule of `docs/registers.md`.

    settings: `settings_layout` and row_words: of a row, of these registers, right where features and digits are within
    their own limits.
    """
    r = registers
    mode = fields_of("mode", r.mode)
    beats = (r.base_address, r.base_stride, r.draw_address, r.draw_stride)
    addresses = (*beats, r.model_in, r.model_out, r.trace)
    cuts = fields_of("cuts", r.cuts) if config.random_rounding else None
    low, high = (r.bounds.word_select(half, 16).as_signed() for half in (0, 1))
    return Cat(
        (r.features == 0) | (r.features > config.max_features),
        (r.groups == 0) | (r.groups > MAX_ROWS),
        (r.batch_groups == 0) | (r.batch_groups > MAX_ROWS),
        *((tail == 0) | (tail > config.rows_per_beat) for tail in (mode.batch_tail, mode.epoch_tail)),
        (r.epochs == 0) | (r.epochs > MAX_EPOCHS),
        r.draw_sets == 0,
        _digits_wrong(mode, config),
        *_levels_wrong(settings, config),
        row_words > config.max_row_words,
        (r.decay < DECAY_RANGE[0]) | (r.decay > DECAY_RANGE[1]),
        mode.loss > max(Loss),
        low > high,
        mode.staleness & (settings.chunks > config.max_chunks // 2),
        *((cut > MAX_CUT for cut in (cuts.model_cut, cuts.scaled_gradient_cut)) if cuts is not None else ()),
        *(address[config.address_bits :].any() for address in addresses),
        *(misaligned(address, config.beat_bytes) for address in beats),
        *(misaligned(address, CHUNK_MODEL_BYTES) for address in (r.model_in, r.model_out)),
        misaligned(r.trace, config.record_bytes),
    )


def _digits_wrong(mode: Value, config: AcceleratorConfig) -> Value:
    if config.table_lanes:
        return ~mode.draws | (mode.base_digits < min(CODEBOOK_BITS)) | (mode.base_digits > max(CODEBOOK_BITS))
    digits = mode.base_digits + mode.draws
    return (digits == 0) | (digits > MAX_DIGITS)


def _levels_wrong(settings: Value, config: AcceleratorConfig) -> tuple[Value, ...]:
    """1 where the tables have no room for all chunks' levels; without tables no rule."""
    return ((settings.chunks << base_bits(settings) << 1) > config.level_slots,) if config.table_lanes else ()

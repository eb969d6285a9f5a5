"""The rules that register values must satisfy before a run may start."""

from __future__ import annotations

from amaranth.hdl import Cat, Value

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import ENCODER_BASE_BITS, ValueType, region_bytes
from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.layout import CODEBOOK_BITS, DIGIT_BITS, MAX_DIGITS, MAX_EPOCHS, MAX_ROWS
from bitlane.contract.modes import Loss
from bitlane.contract.prng import MAX_CUT
from bitlane.contract.registers import SOURCE_ADDRESS, of_port
from bitlane_hw.common.payloads import base_bits

from .registers import fields_of


def misaligned(address: Value, size: int) -> Value:
    """Return 1 if `address` is not a multiple of `size`, a power of two."""
    return address[: size.bit_length() - 1].any()


def configuration_errors(registers, config: AcceleratorConfig, settings: Value, row_words: Value) -> Value:
    """Return a bit for each rule of `docs/registers.md`: 1 if the registers violate it (`ErrorCode.CONFIGURATION`).

    Parameters
    ----------
    registers : object with the members of Registers
        Register values.
    config : AcceleratorConfig
        Sizes of the build.
    settings : settings_layout
        Geometry derived from the registers.
    row_words : Value
        Words of a row, derived from the registers. Like `settings` it has to be right only if the features and digits
        satisfy their own rules.
    """
    r = registers
    mode = fields_of("mode", r.mode)
    streams, models = (
        [getattr(r, of_port(name, port)) for port in range(1, config.ports) for name in names]
        for names in (("base_address", "draw_address"), ("model_in", "model_out"))
    )
    beats = (r.base_address, r.base_stride, r.draw_address, r.draw_stride, *streams)
    models = (r.model_in, r.model_out, *models)
    addresses = (*beats, *models, r.trace)
    cuts = fields_of("cuts", r.cuts) if config.random_rounding else None
    low, high = (r.bounds.word_select(half, 16).as_signed() for half in (0, 1))
    return Cat(
        (r.features == 0) | (r.features > config.max_features),
        (r.groups == 0) | (r.groups > MAX_ROWS),
        (r.batch_groups == 0) | (r.batch_groups > MAX_ROWS),
        *((tail == 0) | (tail > config.rows_per_beat) for tail in (mode.batch_tail, mode.epoch_tail)),
        (r.epochs == 0) | (r.epochs > MAX_EPOCHS),
        r.draw_sets == 0,
        _invalid_digits(mode, config),
        *_too_many_levels(settings, config),
        row_words > config.max_row_words,
        (r.decay < DECAY_RANGE[0]) | (r.decay > DECAY_RANGE[1]),
        mode.loss > max(Loss),
        low > high,
        mode.staleness & (settings.chunks > config.max_chunks // 2),
        *((cut > MAX_CUT for cut in (cuts.model_cut, cuts.scaled_gradient_cut)) if cuts is not None else ()),
        *(address[config.address_bits :].any() for address in addresses),
        *(misaligned(address, config.port_bytes) for address in beats),
        *(misaligned(address, config.chunk_bytes) for address in models),
        misaligned(r.trace, config.record_bytes),
    )


def encoding_errors(registers, config: AcceleratorConfig) -> Value:
    """Return a bit for each rule of `docs/registers.md` for an encoding: 1 if the registers violate it."""
    r = registers
    encode, mode = fields_of("encode", r.encode), fields_of("mode", r.mode)
    digits, tails = mode.base_digits, (mode.batch_tail, mode.epoch_tail)
    addresses = [
        getattr(r, of_port(name, port))
        for port in range(config.ports)
        for name in (SOURCE_ADDRESS, "base_address", "draw_address")
    ]
    grouped = config.rows_per_beat > 1  # else the batches make no difference
    return Cat(
        (r.features == 0) | (r.features > config.max_features),
        (r.groups == 0) | (r.groups > MAX_ROWS),
        digits > ENCODER_BASE_BITS // DIGIT_BITS,
        encode.value_type > max(ValueType),
        encode.encode_sets > config.encoder,
        ~encode.encode_base & (encode.encode_sets == 0),
        *(address[config.address_bits :].any() for address in addresses),
        *(misaligned(address, region_bytes(config.port_bytes)) for address in (*addresses, r.draw_stride)),
        *([(r.batch_groups == 0) | (r.batch_groups > MAX_ROWS)] if grouped else ()),
        *((tail == 0) | (tail > config.rows_per_beat) for tail in (tails if grouped else ())),
    )


def _invalid_digits(mode: Value, config: AcceleratorConfig) -> Value:
    """Return 1 if the lanes of this build do not support the number of digits."""
    if config.table_lanes:
        return ~mode.draws | (mode.base_digits < min(CODEBOOK_BITS)) | (mode.base_digits > max(CODEBOOK_BITS))
    digits = mode.base_digits + mode.draws
    return (digits == 0) | (digits > MAX_DIGITS)


def _too_many_levels(settings: Value, config: AcceleratorConfig) -> tuple[Value, ...]:
    """Return, with table lanes only, 1 if the codebooks of all chunks do not fit in the level memories."""
    return ((settings.chunks << base_bits(settings) << 1) > config.level_slots,) if config.table_lanes else ()

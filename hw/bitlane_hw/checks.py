"""Which register values are refused."""

from __future__ import annotations

from amaranth.hdl import Cat, Value

from .config import AcceleratorConfig
from .contract import CHUNK_MODEL_BYTES, DECAY_RANGE, MAX_DIGITS, MAX_EPOCHS, MAX_ROWS, TRACE_BYTES, WORD_BYTES


def misaligned(address: Value, size: int) -> Value:
    """1 where `address` is no multiple of `size`, a power of two."""
    return address[: size.bit_length() - 1].any()


def configuration_error(registers, config: AcceleratorConfig, row_words: Value) -> Value:
    """1 where a run must not start (`ErrorCode.CONFIGURATION`): every rule of `docs/registers.md`.

    row_words: chunks * digits, right where features and digits are within their own limits.
    """
    r = registers
    digits = r.base_digits + r.draws
    words = (r.base_address, r.base_stride, r.draw_address, r.draw_stride)
    addresses = (*words, r.model_in, r.model_out, r.trace)
    return Cat(
        (r.features == 0) | (r.features > config.max_features),
        (r.rows == 0) | (r.rows > MAX_ROWS),
        (r.batch == 0) | (r.batch > MAX_ROWS),
        (r.epochs == 0) | (r.epochs > MAX_EPOCHS),
        r.sets == 0,
        (digits == 0) | (digits > MAX_DIGITS),
        row_words > config.max_row_words,
        (r.decay < DECAY_RANGE[0]) | (r.decay > DECAY_RANGE[1]),
        *(address[config.address_bits :].any() for address in addresses),
        *(misaligned(address, WORD_BYTES) for address in words),
        *(misaligned(address, CHUNK_MODEL_BYTES) for address in (r.model_in, r.model_out)),
        misaligned(r.trace, TRACE_BYTES),
    ).any()

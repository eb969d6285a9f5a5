"""Low precision of the model and of the gradient (ZipML, eq. 2).

Samples are stored with few bits. The weights that dot products read, and the gradients, can be rounded at random as
well, without bias, while the machine runs. Weights have 32 bits in [-8, 8) times a power of two
(`bitlane.training.weight_range`); dot products read 24 of them without rounding. The gradient of a row is its stored
sample times the scaled gradient (step times slope), which is what is rounded.
"""

from __future__ import annotations

from bitlane.contract.fixed_point import decode_float
from bitlane.contract.formats import MASTER, SCALED_GRADIENT, STEP_FRACTION, WEIGHT
from bitlane.contract.prng import MAX_CUT
from bitlane.errors import DataError
from bitlane.support.scalars import is_integer

MODEL_BITS = (MASTER.bits - MAX_CUT, WEIGHT.bits - 1)
GRADIENT_BITS = (2, SCALED_GRADIENT.bits)


def uses_random_rounding(model_bits: int | None, gradient_bits: int | None) -> bool:
    """Return whether weights or gradients are rounded at random, which needs a device with random rounding."""
    return model_bits is not None or gradient_bits is not None


def model_cut(bits: int | None) -> int:
    """Return the register `model_cut`: the low bits of a master weight that dot products do not read.

    Parameters
    ----------
    bits : int or None
        Bits of a weight, including the sign, 2 to 23. None: the 24 bits without rounding.

    Returns
    -------
    int
        0 for None.

    Raises
    ------
    DataError
        Another number of bits.
    """
    return 0 if bits is None else MASTER.bits - _check_bits("model_bits", bits, MODEL_BITS)


def check_gradient_bits(bits: int | None) -> None:
    """Raise DataError unless the bits of rounded gradients are None or a number that the hardware has."""
    if bits is not None:
        _check_bits("gradient_bits", bits, GRADIENT_BITS)


def scaled_gradient_cut(bits: int | None, step: int) -> int:
    """Return the register `scaled_gradient_cut`: the low bits that rounding removes from a scaled gradient.

    `bits` counts the bits, including the sign, of a scaled gradient with a slope from -1 to 1. A larger slope takes
    more bits; nothing is clipped. The unit falls with the step: see `Settings.cut_at`.

    Parameters
    ----------
    bits : int or None
        2 to 32; None for no rounding.
    step : int
        The step register.

    Returns
    -------
    int
        0 for None.

    Raises
    ------
    DataError
        Another number of bits, or so few bits for this step that the unit would exceed the range of the hardware.
    """
    check_gradient_bits(bits)
    if bits is None:
        return 0
    largest = int(2 * decode_float(step, STEP_FRACTION) * 2**SCALED_GRADIENT.fraction)  # |s| where both slopes are 1
    cut = max(0, largest.bit_length() - (bits - 1))
    if cut > MAX_CUT:
        raise DataError(
            f"gradient_bits={bits} is too few for a step of {decode_float(step, STEP_FRACTION):g}: "
            f"choose {bits + cut - MAX_CUT}, or lower learning_rate / batch_size"
        )
    return cut


def _check_bits(name: str, value: int, limits: tuple[int, int]) -> int:
    low, high = limits
    if not is_integer(value) or not low <= value <= high:
        raise DataError(f"{name}={value!r}: must be None or an integer from {low} to {high}")
    return value

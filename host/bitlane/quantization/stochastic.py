"""End-to-end low precision (ZipML, eq. 2): how many bits the model that dot products see, and the gradient, are given.

Samples are stored in few bits; these two are rounded at random, without bias, while the machine works. Weights are 32
bits in [-8, 8), of which dot products otherwise see 24. A row's gradient is its stored sample times a coefficient, step
times slope: it is the coefficient that is rounded.
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
    """Whether anything is rounded at random, so that a device has to be able to."""
    return model_bits is not None or gradient_bits is not None


def model_cut(bits: int | None) -> int:
    """The register of that name: low bits of a master weight that dot products do not see; 0 for None.

    bits: of a weight in [-8, 8), sign and all, 5 to 23; None for the 24 that they see otherwise, without rounding.
    DataError for another number.
    """
    return 0 if bits is None else MASTER.bits - _check_bits("model_bits", bits, MODEL_BITS)


def scaled_gradient_cut(bits: int | None, step: int) -> int:
    """The register of that name, as if of bits were so many, sign and all, where slopes are from -1 to 1; 0 for None.

    A larger slope takes more bits, and nothing is clipped. The unit stays when the step decays.

    Parameters
    ----------
    bits: 2 to 32; None for no rounding.
    step: register of the first epoch.

    Raises
    ------
    DataError: another number, or so few bits for so large a step that the unit would be more than the hardware has.
    """
    if bits is None:
        return 0
    _check_bits("gradient_bits", bits, GRADIENT_BITS)
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
        raise DataError(f"{name}={value!r}: it must be None or an integer from {low} to {high}")
    return value

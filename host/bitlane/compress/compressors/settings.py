"""Checks of settings that several compressors have, where a compressor is made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bitlane.errors import DataError
from bitlane.policies.protocol import BitPolicy
from bitlane.support.scalars import as_number, is_integer

from ..codecs.sparse import VALUE_BITS
from ..collectives.residuals import RESIDUAL_DTYPES


def checked_bits(bits: int | BitPolicy, allowed: Sequence[int], by_group: bool = False) -> int | BitPolicy:
    """Return a number of bits as an int, or a bit policy; raise DataError for other values.

    A policy that chooses the bits of each group needs a compressor that can send them (`by_group`).
    """
    if isinstance(bits, int | np.integer) and is_integer(bits) and int(bits) in allowed:
        return int(bits)
    if isinstance(bits, int | np.integer | type) or not hasattr(bits, "start") or not set(bits.choices) <= set(allowed):
        raise DataError(
            f"bits={bits!r}: use an integer from {allowed[0]} to {allowed[-1]}, or a bit policy with such choices, "
            "such as MQGrad(); EFSign() sends 1 bit"
        )
    if getattr(bits, "by_group", False) and not by_group:
        raise DataError(
            f"bits={bits!r} chooses the bits of each group, for the random rounding of QSGD without error feedback: "
            "use it with that, or use another policy, such as MQGrad()"
        )
    return bits


def checked_density(density: float) -> float:
    """Return a density as a float; raise DataError unless it is a number above 0 and at most 1."""
    if not 0 < as_number("density", density) <= 1:
        raise DataError(f"density must be above 0 and at most 1; got {density}")
    return float(density)


def checked_value_bits(bits: int) -> int:
    """Return the bits of a sparse value as an int; raise DataError for other numbers."""
    if not is_integer(bits) or int(bits) not in VALUE_BITS:
        raise DataError(f"value_bits must be 2, 4 or 8, or 32 for float32; got {bits!r}")
    return int(bits)


def checked_decay(decay: float, error_feedback: bool = True) -> float:
    """Return the factor of residuals as a float; raise DataError for other values, or if there are no residuals."""
    if not 0 < as_number("decay", decay) <= 1:
        raise DataError(f"decay must be above 0 and at most 1; got {decay}")
    if decay != 1 and not error_feedback:
        raise DataError(f"decay={decay} needs error_feedback=True; without it there are no residuals")
    return float(decay)


def checked_flag(name: str, value: object) -> bool:
    """Return a setting that is on or off; raise DataError for other values."""
    if not isinstance(value, bool):
        raise DataError(f"{name}={value!r}: it must be True or False")
    return value


def check_residual_dtype(dtype: str, error_feedback: bool = True) -> None:
    """Raise DataError unless `dtype` names a type of residuals; bfloat16 needs error feedback."""
    if dtype not in tuple(RESIDUAL_DTYPES):
        reason = ", because float16 overflows above 65504 and has no small gradients" if dtype == "float16" else ""
        raise DataError(f"residual_dtype must be one of {', '.join(RESIDUAL_DTYPES)}; got {dtype!r}{reason}")
    if dtype != "float32" and not error_feedback:
        raise DataError(f"residual_dtype={dtype!r} needs error_feedback=True; without it there are no residuals")


def replace_setting(settings: object, **values: object) -> None:
    """Set fields of a frozen dataclass in its `__post_init__`, to what a check returned."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)

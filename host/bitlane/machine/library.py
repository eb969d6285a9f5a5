"""The C files of this folder as one library, built on this machine and called by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from bitlane.contract.fixed_point import PHASE_BITS
from bitlane.contract.formats import (
    LABEL,
    LEVEL,
    LEVEL_SCALED_GRADIENT,
    MASTER,
    RESIDUAL,
    SCALED_GRADIENT,
    SHRINK_SHIFT,
)
from bitlane.contract.further import FurtherLoss
from bitlane.contract.layout import CHUNK, DIGIT_BITS, LABELS_PER_WORD
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.packing import CUT_BITS
from bitlane.contract.prng import INDEX_STEP, ROUND_KEYS, SEED_STEP
from bitlane.contract.sigmoid_lut import LUT_ADDRESS_BITS
from bitlane.reference.blocks import BASE_SHIFT, DRAW_SHIFT, HALF, LARGEST_EXPONENT, LEVEL_SHIFT
from bitlane.reference.further_losses import FURTHER_LOSS_SHIFT, LARGEST_SLOPE, ONE
from bitlane.reference.machine import (
    CELL_BITS,
    HALF_LOSS_SHIFT,
    LEVEL_COEFFICIENT_SHIFT,
    LOSS_SHIFT,
)
from bitlane.support.c_library import load_library

from .plan import Arrays, Rules, Shape

# As fast as -O3, which takes twice the time to compile: at -O2 gcc leaves loops of unknown length as they are.
OPTIMIZE = ("-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic")
# In this order they are one file.
SOURCES = [
    Path(__file__).with_name(f"{name}.c")
    for name in ("state", "integers", "lanes", "weights", "scalar", "digits", "codebooks", "epoch")
]
NUMBERS = {
    "CHUNK": CHUNK,
    "DIGIT_BITS": DIGIT_BITS,
    "LABELS_PER_WORD": LABELS_PER_WORD,
    "CUT_BITS": CUT_BITS,
    "SIGMOID_CELLS": 1 << LUT_ADDRESS_BITS,
    "CELL_BITS": CELL_BITS,
    "LOSS_SHIFT": LOSS_SHIFT,
    "HALF_LOSS_SHIFT": HALF_LOSS_SHIFT,
    "FURTHER_LOSS_SHIFT": FURTHER_LOSS_SHIFT,
    "LARGEST_SLOPE": LARGEST_SLOPE,
    "LABEL_SHIFT": RESIDUAL.fraction - LABEL.fraction,
    "LEVEL_COEFFICIENT_SHIFT": LEVEL_COEFFICIENT_SHIFT,
    "LEVEL_SHIFT": LEVEL_SHIFT,
    "LEVEL_FRACTION": LEVEL.fraction,
    "BASE_SHIFT": BASE_SHIFT,
    "DRAW_SHIFT": DRAW_SHIFT,
    "HALF": HALF,
    "LARGEST_EXPONENT": LARGEST_EXPONENT,
    "PHASE_BITS": PHASE_BITS,
    "SHRINK_SHIFT": SHRINK_SHIFT,
    "ONE": ONE,
    "LOSS_SQUARES": Loss.SQUARES,
    "LOSS_HINGE": Loss.HINGE,
    **{f"FURTHER_{loss.name}": loss for loss in FurtherLoss},
    **{f"PROX_{prox.name}": prox for prox in Prox},
    "PROX_L1_AND_SHRINK": len(Prox),  # of the C code alone: a batch of elastic net in which the phase carries
}
FORMATS = {
    "MASTER": MASTER,
    "RESIDUAL": RESIDUAL,
    "SCALED": SCALED_GRADIENT,
    "LEVEL_SCALED": LEVEL_SCALED_GRADIENT,
}


def constants() -> dict[str, str]:
    """Return the macros that the C files need: the numbers of the contract, as C writes them."""
    limits = {
        f"{name}_{end}": limit
        for name, form in FORMATS.items()
        for end, limit in (("LOW", form.minimum), ("HIGH", form.maximum))
    }
    numbers = {name: f"INT64_C({number:d})" for name, number in limits.items()}
    numbers |= {name: f"{number:d}" for name, number in NUMBERS.items()}
    numbers |= {"SEED_STEP": f"UINT32_C({SEED_STEP})", "INDEX_STEP": f"UINT32_C({INDEX_STEP})"}
    return numbers | {"ROUND_KEYS": ",".join(map(str, ROUND_KEYS))}


def structure(record: type[tuple[Any, ...]], kind: Any) -> type[ctypes.Structure]:
    """Return the C structure of a NamedTuple whose fields all have one type of ctypes."""
    fields = [(name, kind) for name in record._fields]  # type: ignore[attr-defined]
    return type(record.__name__, (ctypes.Structure,), {"_fields_": fields})


CShape = structure(Shape, ctypes.c_int64)
CRules = structure(Rules, ctypes.c_int64)
CArrays = structure(Arrays, ctypes.c_void_p)


@cache
def run_epoch() -> Callable[..., None]:
    """Return the function that runs an epoch: it takes a shape, rules, arrays, and the addresses of both regions.

    It changes the arrays, and runs without the interpreter's lock.

    Raises
    ------
    LibraryError
        There is no C compiler, it fails, or the library cannot be written or loaded.
    """
    function: Callable[..., None] = load_library(SOURCES, constants(), OPTIMIZE)["bitlane_run_epoch"]
    pointers = [ctypes.POINTER(each) for each in (CShape, CRules, CArrays)]
    types = [*pointers, ctypes.c_void_p, ctypes.c_void_p]
    function.argtypes, function.restype = types, None  # type: ignore[attr-defined]
    return function

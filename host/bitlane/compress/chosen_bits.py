"""What passes between a bit policy and a reducer: the bits of a step, and a sample of the gradient."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from bitlane.policies.protocol import BitChooser, chooses_groups

from .compressor import Reducer, Sampler, has_widths


def set_bits(chooser: BitChooser, reducer: Reducer) -> None:
    """Set the bits of the next step."""
    reducer.bits = chooser.bits
    if chooses_groups(chooser) and has_widths(reducer):
        reducer.widths = chooser.widths(reducer.group_count)


def mean_bits(reducer: Reducer) -> float:
    """Return the bits per value in the next step, as a mean over groups."""
    widths = reducer.widths if has_widths(reducer) else None
    return reducer.bits if widths is None else float(np.mean(widths))


def begin_sample(chooser: BitChooser | None, reducer: Reducer, vector: Tensor) -> Sampler | None:
    """Begin a sample of a gradient that is about to be averaged; None if the chooser asks for none."""
    if chooser is None or not chooses_groups(chooser) or not chooser.sampled_bits or not has_widths(reducer):
        return None
    return reducer.sample(vector, chooser.sampled_bits)

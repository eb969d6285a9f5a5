"""What a bit policy measures of a gradient, in groups of values that share a scale (`GroupSample`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bitlane.policies.protocol import GroupSample

from ..codecs import linear
from ..codecs.groups import GROUP, Groups

SAMPLED_GROUPS = 128  # at most: 65,536 values
ROUNDED_GROUPS = 16  # of these, whose errors of rounding are estimated


def begin_sample(
    vector: Tensor, groups: Groups, choices: Sequence[int], average_rounded: bool
) -> Callable[[Tensor], GroupSample]:
    """Begin a sample of a gradient, which the average will overwrite.

    Parameters
    ----------
    vector : Tensor, float32 [groups.count]
        The gradient, on any device; not empty.
    groups : Groups
        Values that share a scale.
    choices : sequence of int
        Bits for which the errors of rounding are estimated.
    average_rounded : bool
        Whether the average is rounded, too.
    """
    peaks = _tops(vector, groups).cpu().numpy().astype(np.float64) ** 2
    energy = float(vector @ vector)
    chosen = _spaced(len(groups), SAMPLED_GROUPS)
    indices = torch.from_numpy(_indices(groups, chosen)).to(vector.device)

    def sampled_values(of: Tensor) -> NDArray[np.float32]:
        values: NDArray[np.float32] = of[indices].cpu().numpy()
        return values

    own = sampled_values(vector)

    def complete(average: Tensor) -> GroupSample:
        exact = own.astype(np.float64)
        sampled, rounded = Groups(groups.lengths[chosen]), _spaced(len(chosen), ROUNDED_GROUPS)
        few = Groups(sampled.lengths[rounded])
        return GroupSample(
            groups.lengths,
            peaks,
            energy,
            float(np.square(exact).sum()),  # BLAS would start threads for these
            float((exact * sampled_values(average)).sum()),
            float(few.lengths @ peaks[chosen[rounded]]),
            linear.expected_errors(own[_indices(sampled, rounded)], few, choices),
            float(average_rounded),
        )

    return complete


def _indices(groups: Groups, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the values of some groups."""
    lengths = groups.lengths[chosen]
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(groups.starts[chosen] - ends + lengths, lengths)


def _spaced(count: int, most: int) -> NDArray[np.int64]:
    """Return the numbers of at most `most` evenly spaced groups of `count`, ascending."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _tops(vector: Tensor, groups: Groups) -> Tensor:
    """Return the largest magnitude of each group, float32 [groups]."""
    starts = groups.starts
    full = int((groups.lengths == GROUP).sum())
    if (groups.lengths[:full] == GROUP).all():  # these as rows, since one call for each group takes long
        rows, others = [vector[: full * GROUP].view(-1, GROUP).abs().amax(1)], range(full, len(groups))
    else:
        rows, others = [], range(len(groups))
    return torch.cat([*rows, *(vector[starts[i] : starts[i + 1]].abs().amax(0, keepdim=True) for i in others)])

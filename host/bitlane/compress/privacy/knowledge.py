"""What an attacker makes of a payload: a gradient as it is, or all the gradients that the codec sends as these bytes.

The naive attacker takes the decoded payload for the gradient. One who knows the codec knows that many gradients have
this payload, the right one among them, and compares a dummy's gradient with the nearest of these, which for the right
image is its own gradient: codes are intervals, signs are half lines with a mean, what a sparse codec leaves out is
smaller than what it sends. Of a matrix that was sent as factors, products with it are known, and nothing else: these
are compared. Random rounding is noise to who does not know the words; they are a function of a seed that is no secret
among ranks, and with them an interval is no wider than that of the nearest level.

What a rank keeps back from earlier steps is unknown to both, and taken for zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ..compressor import Compressor, Layout
from ..dense import QSGD, EFSign
from ..groups import GROUP
from ..lowrank import LQSGD, PowerSGD, _has_factors, _shape
from ..orthonormal import orthonormal
from ..randomness import seed_of, words
from ..wire import CodecId

Compare = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From gradients of dummies, float32 [k, n]: what is compared of them, and with what; both float32 [k, any]."""


def naive(seen: Tensor) -> Compare:
    """The gradient itself, with `seen` float32 [k, n]."""
    return lambda gradients: (gradients, seen)


def knowing(compressor: Compressor | None, layout: Layout, seen: Tensor) -> Compare:
    """By what the codec tells of the gradient of a first step; `seen` float32 [k, n] is its payload, decoded."""
    if isinstance(compressor, QSGD):
        return _nearest(*_intervals(compressor, seen))
    if isinstance(compressor, EFSign):
        return _signs(seen)
    if isinstance(compressor, (PowerSGD, LQSGD)):
        return _products(compressor, layout, seen)
    if compressor is not None and compressor.codec is CodecId.SPARSE:
        return _nearest(*_bounds(seen))
    return naive(seen)


def _nearest(low: Tensor, high: Tensor) -> Compare:
    return lambda gradients: (gradients, torch.minimum(torch.maximum(gradients.detach(), low), high))


def _intervals(settings: QSGD, seen: Tensor) -> tuple[Tensor, Tensor]:
    """What is rounded to the levels `seen`, in the first step."""
    most = _each(_grouped(seen).abs().amax(2), seen)
    step = most / (2 ** (settings.policy.start().bits - 1) - 1)
    below = 0.5
    if not settings.error_feedback:
        drawn = words(seed_of(settings.seed, 0, 0, 0), np.arange(seen.shape[1]))
        below = torch.from_numpy((drawn / 2.0**32).astype(np.float32))
    low = seen - below * step
    return torch.maximum(low, -most), torch.minimum(low + step, most)


def _signs(seen: Tensor) -> Compare:
    """Values of these signs, whose mean magnitude in each group is that of `seen`."""
    sign, magnitude = torch.sign(seen), _grouped(seen).abs().sum(2)

    def compare(gradients: Tensor) -> tuple[Tensor, Tensor]:
        right = (gradients.detach() * sign).clamp_min(0)
        scale = magnitude / _grouped(right).sum(2).clamp_min(torch.finfo().tiny)
        return gradients, right * sign * _each(scale, seen)

    return compare


def _bounds(seen: Tensor) -> tuple[Tensor, Tensor]:
    """What was sent is exact; what was not is no larger than the least that was."""
    there = seen != 0
    least = torch.where(there, seen.abs(), torch.inf).amin(1, keepdim=True)
    return torch.where(there, seen, -least), torch.where(there, seen, least)


def _products(settings: PowerSGD | LQSGD, layout: Layout, seen: Tensor) -> Compare:
    """M Q and M^T P of every matrix M that was sent as factors, and all else as it is.

    Q is drawn from the seed. P is what the columns of `seen` span, and M Q = P P^T M Q.
    """
    sides: list[tuple[Tensor, Tensor] | None] = []
    number = 0
    for place in layout:
        if not _has_factors(place, settings):
            sides.append(None)
            continue
        m, n = _shape(place)
        matrices = seen[:, place.begin : place.end].view(-1, m, n)
        left = torch.linalg.svd(matrices, full_matrices=False)[0][:, :, : settings.rank]
        drawn = [words(seed_of(settings.seed, 0, number, k), np.arange(n)) / 2.0**31 - 1 for k in range(settings.rank)]
        right = orthonormal(torch.from_numpy(np.array(drawn, np.float32))).T
        sides.append((left.mT, right))
        number += 1

    def told(gradients: Tensor) -> Tensor:
        found = []
        for place, side in zip(layout, sides, strict=True):
            values = gradients[:, place.begin : place.end]
            if side is not None:
                matrices = values.view(-1, *_shape(place))
                found += [(side[0] @ matrices).flatten(1), (matrices @ side[1]).flatten(1)]
            else:
                found.append(values)
        return torch.cat(found, 1)

    what = told(seen)
    return lambda gradients: (told(gradients), what)


def _grouped(values: Tensor) -> Tensor:
    """[k, groups, GROUP] from [k, n]; the last group is filled up with zeros."""
    return pad(values, (0, -values.shape[1] % GROUP)).view(len(values), -1, GROUP)


def _each(of_groups: Tensor, values: Tensor) -> Tensor:
    """[k, n]: each value's entry of [k, groups]."""
    return of_groups.repeat_interleave(GROUP, dim=1)[:, : values.shape[1]]

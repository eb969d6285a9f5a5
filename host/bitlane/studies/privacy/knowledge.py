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

from bitlane.compress.codecs.groups import GROUP
from bitlane.compress.codecs.wire import CodecId
from bitlane.compress.compressor import Compressor, Layout
from bitlane.compress.compressors.dense import QSGD, EFSign
from bitlane.compress.compressors.lowrank import LQSGD, PowerSGD, is_factored, matrix_shape, random_column
from bitlane.compress.compressors.orthonormal import orthonormalize
from bitlane.errors import DataError
from bitlane.support.hashing import derive_seed, hash_words

Compare = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From gradients of dummies, float32 [k, n]: what is compared of them, and with what; both float32 [k, any]."""


def codec_agnostic(seen: Tensor) -> Compare:
    """The gradient itself, with `seen` float32 [k, n]."""
    return lambda gradients: (gradients, seen)


def codec_aware(compressor: Compressor | None, layout: Layout, payloads: Tensor) -> Compare:
    """By what the codec tells of the last gradient of which a payload was sent.

    payloads: float32 [k, steps, n], decoded: all that each of k victims has sent, from the first step on. DataError for
    bits that a policy chooses.
    """
    seen, step = payloads[:, -1], payloads.shape[1] - 1
    if isinstance(compressor, QSGD):
        return _nearest(*_intervals(compressor, seen, step))
    if isinstance(compressor, EFSign):
        return _signs(seen)
    if isinstance(compressor, (PowerSGD, LQSGD)):
        return _products(compressor, layout, payloads)
    if compressor is not None and compressor.codec is CodecId.SPARSE:
        return _nearest(*_bounds(seen))
    return codec_agnostic(seen)


def _nearest(low: Tensor, high: Tensor) -> Compare:
    return lambda gradients: (gradients, torch.minimum(torch.maximum(gradients.detach(), low), high))


def _intervals(settings: QSGD, seen: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """What is rounded to the levels `seen` in a step of this number."""
    if not isinstance(settings.bits, int):
        raise DataError(f"bits={settings.bits!r}: the width of a payload's codes has to be known; give a number")
    most = _each(_grouped(seen).abs().amax(2), seen)
    step = most / (2 ** (settings.bits - 1) - 1)
    below = 0.5
    if not settings.error_feedback:
        drawn = hash_words(derive_seed(settings.seed, number, 0, 0), np.arange(seen.shape[1]))
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


def _products(settings: PowerSGD | LQSGD, layout: Layout, payloads: Tensor) -> Compare:
    """M Q and M^T P of every matrix M that was sent as factors, and all else as it is.

    P is what the columns of its payload span; Q, what the rows of the one before do, or drawn from the seed; and
    M Q = P P^T M Q, so that both products follow from the payload.
    """
    sides: list[tuple[Tensor, Tensor] | None] = []
    for place in layout:
        if is_factored(place, settings):
            matrices = payloads[:, :, place.begin : place.end].unflatten(2, matrix_shape(place))
            number = sum(side is not None for side in sides)
            sides.append((_columns(matrices[:, -1], settings.rank).mT, _right(settings, matrices, number)))
        else:
            sides.append(None)

    def told(gradients: Tensor) -> Tensor:
        found = []
        for place, side in zip(layout, sides, strict=True):
            values = gradients[:, place.begin : place.end]
            if side is not None:
                matrices = values.view(-1, *matrix_shape(place))
                found += [(side[0] @ matrices).flatten(1), (matrices @ side[1]).flatten(1)]
            else:
                found.append(values)
        return torch.cat(found, 1)

    what = told(payloads[:, -1])
    return lambda gradients: (told(gradients), what)


def _right(settings: PowerSGD | LQSGD, matrices: Tensor, number: int) -> Tensor:
    """Q [n, r] or [k, n, r] of the last of a matrix's payloads [k, steps, m, n]; `number` counts the matrices."""
    step, n = matrices.shape[1] - 1, matrices.shape[3]
    if step and settings.warm_start:
        return _columns(matrices[:, -2].mT, settings.rank)
    drawn = [random_column(settings.seed, step, number, column, n) for column in range(settings.rank)]
    return orthonormalize(torch.stack(drawn)).T


def _columns(matrices: Tensor, rank: int) -> Tensor:
    """[k, m, rank]: at right angles, they span the columns of matrices [k, m, n] of that rank."""
    return torch.linalg.svd(matrices, full_matrices=False)[0][:, :, :rank]


def _grouped(values: Tensor) -> Tensor:
    """[k, groups, GROUP] from [k, n]; the last group is filled up with zeros."""
    return pad(values, (0, -values.shape[1] % GROUP)).view(len(values), -1, GROUP)


def _each(of_groups: Tensor, values: Tensor) -> Tensor:
    """[k, n]: each value's entry of [k, groups]."""
    return of_groups.repeat_interleave(GROUP, dim=1)[:, : values.shape[1]]

"""The knowledge of an attacker about a gradient, given its payload.

The codec-agnostic attacker takes the decoded payload for the gradient. The codec-aware attacker knows that many
gradients have this payload, and compares the gradient of a candidate image with the nearest of them. For the true image
that is its own gradient. The set of gradients depends on the codec: a code stands for an interval, signs for values of
this sign with a given mean, and a value that a sparse codec does not send is smaller than the sent ones. For a matrix
sent as factors the attacker knows only its products with the factors, so these are compared. Stochastic rounding is a
function of a seed that all ranks know; an attacker who knows it gets intervals as narrow as with rounding to the
nearest.

Neither attacker knows the residuals of earlier steps, and both assume that they are zero.
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
"""Maps gradients of candidate images, float32 [k, n], to two tensors to compare, float32 [k, any]: a feature of the
candidate gradients, and the observed value of this feature."""


def codec_agnostic(seen: Tensor) -> Compare:
    """Compare gradients directly with the decoded payloads `seen`, float32 [k, n]."""
    return lambda gradients: (gradients, seen)


def codec_aware(compressor: Compressor | None, layout: Layout, payloads: Tensor) -> Compare:
    """Compare gradients with the nearest gradient that the codec would send as the last payload.

    Parameters
    ----------
    compressor : Compressor or None
        The compressor of the victim; None for no compression.
    layout : Layout
        The parameters of the model.
    payloads : Tensor, float32 [k, steps, n]
        The decoded payloads of k victims, from the first step.

    Raises
    ------
    DataError
        If a policy chooses the bits, because the attacker must know them; or if sparse values are rounded or selected
        by chunk, because the attack takes them for exact and for the largest of all.
    """
    seen, step = payloads[:, -1], payloads.shape[1] - 1
    if isinstance(compressor, QSGD):
        return _nearest(*_intervals(compressor, seen, step))
    if isinstance(compressor, EFSign):
        return _signs(seen)
    if isinstance(compressor, (PowerSGD, LQSGD)):
        return _products(compressor, layout, payloads)
    if compressor is not None and compressor.codec is CodecId.SPARSE:
        bits, chunked = getattr(compressor, "value_bits", 32), getattr(compressor, "chunked", False)
        if bits != 32 or chunked:
            raise DataError(f"the attack knows exact values, the largest of all; got {bits=}, {chunked=}")
        return _nearest(*_bounds(seen))
    return codec_agnostic(seen)


def _nearest(low: Tensor, high: Tensor) -> Compare:
    return lambda gradients: (gradients, torch.minimum(torch.maximum(gradients.detach(), low), high))


def _intervals(settings: QSGD, seen: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the limits of the values that are rounded to the levels `seen` in step `number`."""
    if not isinstance(settings.bits, int):
        raise DataError(f"the attack needs a fixed number of bits; got bits={settings.bits!r}")
    most = _each(_grouped(seen).abs().amax(2), seen)
    step = most / (2 ** (settings.bits - 1) - 1)
    below: float | Tensor = 0.5
    if not settings.error_feedback:
        drawn = hash_words(derive_seed(settings.seed, number, 0, 0), np.arange(seen.shape[1]))
        below = torch.from_numpy((drawn / 2.0**32).astype(np.float32))
    low = seen - below * step
    return torch.maximum(low, -most), torch.minimum(low + step, most)


def _signs(seen: Tensor) -> Compare:
    """Compare with the nearest values that have the signs and the mean magnitude of each group of `seen`."""
    sign, magnitude = torch.sign(seen), _grouped(seen).abs().sum(2)

    def compare(gradients: Tensor) -> tuple[Tensor, Tensor]:
        magnitudes = (gradients.detach() * sign).clamp_min(0)
        scale = magnitude / _grouped(magnitudes).sum(2).clamp_min(torch.finfo().tiny)
        return gradients, magnitudes * sign * _each(scale, seen)

    return compare


def _bounds(seen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the limits of the values: sent ones are exact; others are at most as large as the smallest sent one."""
    sent = seen != 0
    least = torch.where(sent, seen.abs(), torch.inf).amin(1, keepdim=True)
    return torch.where(sent, seen, -least), torch.where(sent, seen, least)


def _products(settings: PowerSGD | LQSGD, layout: Layout, payloads: Tensor) -> Compare:
    """Compare M Q and M^T P of every matrix M that was sent as factors, and the other parameters directly.

    P spans the columns of the payload. Q spans the rows of the previous payload, or is drawn from the seed. Because
    M Q = P P^T M Q, both products follow from the payload.
    """
    sides: list[tuple[Tensor, Tensor] | None] = []
    for span in layout:
        if is_factored(span, settings):
            matrices = payloads[:, :, span.begin : span.end].unflatten(2, matrix_shape(span))
            number = sum(side is not None for side in sides)
            sides.append((_columns(matrices[:, -1], settings.rank).mT, _right(settings, matrices, number)))
        else:
            sides.append(None)

    def known_products(gradients: Tensor) -> Tensor:
        features = []
        for span, side in zip(layout, sides, strict=True):
            values = gradients[:, span.begin : span.end]
            if side is not None:
                matrices = values.view(-1, *matrix_shape(span))
                features += [(side[0] @ matrices).flatten(1), (matrices @ side[1]).flatten(1)]
            else:
                features.append(values)
        return torch.cat(features, 1)

    observed = known_products(payloads[:, -1])
    return lambda gradients: (known_products(gradients), observed)


def _right(settings: PowerSGD | LQSGD, matrices: Tensor, number: int) -> Tensor:
    """Return Q, [n, r] or [k, n, r], of the last payload of matrix `number`; payloads are [k, steps, m, n]."""
    step, n = matrices.shape[1] - 1, matrices.shape[3]
    if step and settings.warm_start:
        return _columns(matrices[:, -2].mT, settings.rank)
    drawn = [random_column(settings.seed, step, number, column, n) for column in range(settings.rank)]
    return orthonormalize([torch.stack(drawn)])[0].T


def _columns(matrices: Tensor, rank: int) -> Tensor:
    """Return an orthonormal basis [k, m, rank] of the columns of matrices [k, m, n] of this rank."""
    basis: Tensor = torch.linalg.svd(matrices, full_matrices=False)[0][:, :, :rank]
    return basis


def _grouped(values: Tensor) -> Tensor:
    """Reshape [k, n] to [k, groups, GROUP]; the last group is padded with zeros."""
    padded: Tensor = pad(values, (0, -values.shape[1] % GROUP))
    return padded.view(len(values), -1, GROUP)


def _each(of_groups: Tensor, values: Tensor) -> Tensor:
    """Repeat entries of groups [k, groups] for their values, [k, n]."""
    return of_groups.repeat_interleave(GROUP, dim=1)[:, : values.shape[1]]

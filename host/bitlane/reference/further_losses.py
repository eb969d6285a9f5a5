"""The further losses in integers: slopes and losses of the scalar stage that only devices in software have.

`docs/design.md`, "Further losses", defines them, with the same names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.fixed_point import round_half_up, saturate
from bitlane.contract.formats import LABEL, LOSS, RESIDUAL
from bitlane.contract.further import FurtherLoss

Int64s = NDArray[np.int64]

ONE = 1 << RESIDUAL.fraction
MARGINS = (FurtherLoss.SQUARED_HINGE, FurtherLoss.MODIFIED_HUBER)
LARGEST_SLOPE = 2 * ONE  # of the modified Huber loss
# Twice the loss of each copy has 2 * RESIDUAL.fraction bits of fraction: four of them are the mean of both.
FURTHER_LOSS_SHIFT = 2 * RESIDUAL.fraction - LOSS.fraction + 2


def further_losses(
    further: FurtherLoss, epsilon: int, dots: list[Int64s], labels: Int64s
) -> tuple[list[Int64s], Int64s, int]:
    """Return slopes and losses of rounded dot products, as `bitlane.reference.machine.losses` does.

    Parameters
    ----------
    further : FurtherLoss
        Not NONE.
    epsilon : int
        In units of ``2**-20``.
    dots, labels
        As there.

    Returns
    -------
    slopes, losses, saturations
        As there; the loss of a row is the mean of both copies.
    """
    of_copy = _margin_loss if further in MARGINS else _residual_loss
    slopes, doubled, clipped = zip(*(of_copy(further, epsilon, dot, labels) for dot in dots), strict=True)
    return list(slopes), round_half_up(doubled[0] + doubled[1], FURTHER_LOSS_SHIFT), sum(clipped)


def _margin_loss(further: FurtherLoss, _: int, dot: Int64s, labels: Int64s) -> tuple[Int64s, Int64s, int]:
    """Return slope, twice the loss in units of ``2**-40``, and the number of clipped values of a copy."""
    y = np.where(labels >= 0, 1, -1)
    z = saturate(dot, RESIDUAL)[0]
    v = np.maximum(ONE - y * z, 0)
    if further == FurtherLoss.MODIFIED_HUBER:
        size = np.minimum(v, LARGEST_SLOPE)
        return -y * size, size * (2 * v - size), 0
    size, beyond = saturate(v, RESIDUAL)
    return -y * size, size * size, int(np.count_nonzero(beyond))


def _residual_loss(further: FurtherLoss, epsilon: int, dot: Int64s, labels: Int64s) -> tuple[Int64s, Int64s, int]:
    """Return the same for the losses of residuals, whose dot products and residuals are clipped as squares are."""
    z, clipped_z = saturate(dot, RESIDUAL)
    r, clipped_r = saturate(z - (labels << (RESIDUAL.fraction - LABEL.fraction)), RESIDUAL)
    clipped = int(np.count_nonzero(clipped_z)) + int(np.count_nonzero(clipped_r))
    size, sign = np.abs(r), np.sign(r)
    if further == FurtherLoss.HUBER:
        inside = np.minimum(size, epsilon)
        return sign * inside, inside * (2 * size - inside), clipped
    outside = np.maximum(size - epsilon, 0)
    if further == FurtherLoss.EPSILON_INSENSITIVE:
        return np.where(outside > 0, sign * ONE, 0), 2 * ONE * outside, clipped
    return sign * outside, outside * outside, clipped

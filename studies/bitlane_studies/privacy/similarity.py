"""The similarity of images: SSIM (Wang et al., 2004), computed by scikit-image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bitlane.support.optional import require_extra


def similarity(images: Tensor, reconstructions: Tensor, span: float) -> NDArray[np.float64]:
    """Return the SSIM of images and their reconstructions: `skimage.metrics.structural_similarity`, windows of 7 x 7.

    Parameters
    ----------
    images, reconstructions : Tensor, float32 [k, channels, h, w]
        The images and their reconstructions.
    span : float
        Range of the pixel values (`data_range`).

    Returns
    -------
    float64 [k]
        1 for identical images.

    Raises
    ------
    BitlaneError
        If scikit-image is missing.
    """
    metrics = require_extra("skimage.metrics", "SSIM", "'./studies[torch]'")
    return np.array(
        [
            metrics.structural_similarity(one.numpy(), other.numpy(), channel_axis=0, data_range=span)
            for one, other in zip(images, reconstructions, strict=True)
        ],
        np.float64,
    )

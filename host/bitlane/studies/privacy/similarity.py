"""How alike two images are: SSIM (Wang et al., 2004), as scikit-image computes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bitlane.support.optional import require_extra


def similarity(images: Tensor, found: Tensor, span: float) -> NDArray[np.float64]:
    """float64 [k]: `skimage.metrics.structural_similarity` of images [k, channels, h, w] and what was found of them.

    channel_axis=0, data_range=`span`, windows of 7 x 7. BitlaneError where scikit-image is missing.
    """
    metrics = require_extra("skimage.metrics", "SSIM", "'bitlane[privacy]'")
    return np.array(
        [
            metrics.structural_similarity(one.numpy(), other.numpy(), channel_axis=0, data_range=span)
            for one, other in zip(images, found, strict=True)
        ],
        np.float64,
    )

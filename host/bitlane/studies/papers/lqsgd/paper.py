"""LQ-SGD: what its claims are, and what measuring them takes."""

from __future__ import annotations

from bitlane.compress.training.images import load_images
from bitlane.support.optional import require_extra

from ..paper import Paper
from . import overhead, privacy, tables
from .inversion import SETS
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Fetch or find the images, DataError where they cannot be had; BitlaneError without scikit-image."""
    require_extra("skimage.metrics", "SSIM", "'bitlane[privacy]'")
    for name in SETS:
        load_images(name)


PAPER = Paper(
    name="lqsgd",
    title="LQ-SGD (Li, Bai, Wu, Chadli, Mammar, Bouvry; 2025)",
    check_needs=check_needs,
    measures=(tables.measure, overhead.measure, privacy.measure),
    full=FULL,
    quick=QUICK,
)

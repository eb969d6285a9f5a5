"""LQ-SGD: its claims, and the requirements of their measurement."""

from __future__ import annotations

from bitlane.compress.training.images import load_images
from bitlane.support.optional import require_extra

from ..paper import Paper
from . import overhead, privacy, tables
from .inversion import SETS
from .sizes import FULL, QUICK


def check_needs() -> None:
    """Load or download the images; raise DataError if they are unavailable, BitlaneError without scikit-image."""
    require_extra("skimage.metrics", "SSIM", "'./studies[torch]'")
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

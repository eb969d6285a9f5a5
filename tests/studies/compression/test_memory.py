"""The memory study: a compressor with error feedback keeps its residuals, and its peak is above that of DDP."""

import pytest

from bitlane_studies.compression import memory

pytestmark = pytest.mark.torch


def test_a_residual_is_kept_and_seen():
    plain, nothing = memory.measured(memory.PLAIN, 4, None)
    peak, kept = memory.measured("efsign", 4, None)
    assert nothing == 0 and 11.9 < kept < 12.1  # a residual and that of the half that a rank owns: now, and before
    assert peak > plain + 8

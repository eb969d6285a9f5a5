"""The study of overlap: what is compared, and the table."""

from __future__ import annotations

import pytest
import torch

from bitlane.errors import BitlaneError
from bitlane_studies.compression.overlap import LAYERS, NO_EXCHANGE, SIDE, StepTime, _Layer, main, table, ways

pytestmark = pytest.mark.torch


def test_the_network_has_25_million_parameters_and_exact_gradients(seed):
    assert LAYERS * SIDE**2 == 25_000_000
    generator = torch.Generator().manual_seed(seed)
    x, weight = (torch.randn(each, generator=generator, dtype=torch.float64) for each in ((2, 3), (3, 3)))
    x.requires_grad_(), weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, weight: _Layer.apply(x, weight, 0.0), (x, weight))


def test_ratios_are_to_the_larger_of_computing_and_coding_with_sending():
    """Computing is that in DDP without an exchange."""
    found = {
        "alone": StepTime(0.4),
        NO_EXCHANGE: StepTime(0.5),
        "quick": StepTime(0.6, 0.3),
        "slow": StepTime(1.2, 1.0),
    }
    rows = [line.split("  ") for line in table(found).splitlines()[2:]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells == [
        ["alone", "400"],
        [NO_EXCHANGE, "500"],
        ["quick", "600", "300", "1.20"],
        ["slow", "1200", "1000", "1.20"],
    ]
    assert NO_EXCHANGE in ways()


def test_a_wrong_link_is_one_line():
    with pytest.raises(BitlaneError, match="invalid link 'fast'"):
        main(["--link", "fast"])

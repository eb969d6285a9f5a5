"""The coverpoints of random rounding: registers fill the bins of their cuts, seeds and counts."""

from __future__ import annotations

import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.modes import Prox
from bitlane.contract.prng import INDEX_STEP, MAX_CUT, SEED_STEP, after_batches
from bitlane_verify.coverage.covergroup import Covergroup
from bitlane_verify.coverage.random_rounding import declare, sample_registers

CONFIG = AcceleratorConfig(random_rounding=True)
QUIET = {
    "model_cut": 0, "scaled_gradient_cut": 0, "seed": 0, "features": 32, "groups": 1, "batch_groups": 1, "epochs": 1,
    "prox": Prox.L1, "staleness": 0,
}  # fmt: skip


def filled(**registers: int) -> set[str]:
    group = Covergroup()
    declare(group, CONFIG)
    empty = set(group.missed())
    sample_registers(group, QUIET | registers, "full")
    return empty - set(group.missed())


def test_nothing_is_rounded() -> None:
    assert filled() == {
        "rounded: nothing", "cut of the model, of the scaled gradient: 0 x 0",
        "rounded, prox, staleness: nothing x L1 x fresh", "rounded, batches, epochs: nothing x one x one",
        "rounded, last batch: nothing x full",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("cuts", "rounded", "classes"),
    [
        ((1, 0), "model", "1 x 0"),
        ((0, MAX_CUT), "scaled gradient", "0 x largest"),
        ((2, MAX_CUT - 1), "both", "middle x middle"),
    ],
)
def test_cuts(cuts: tuple[int, int], rounded: str, classes: str) -> None:
    found = filled(model_cut=cuts[0], scaled_gradient_cut=cuts[1], groups=5, batch_groups=4, epochs=2)
    assert {
        f"rounded: {rounded}", f"cut of the model, of the scaled gradient: {classes}",
        f"rounded, batches, epochs: {rounded} x several x several",
    } <= found  # fmt: skip
    assert any(name.startswith("count of a batch: model") for name in found) == bool(cuts[0])


def test_the_seed_wraps() -> None:
    """It grows with every batch, and the indices of a batch count up from it."""
    assert after_batches(0, 1) == SEED_STEP and after_batches(0, 2) < SEED_STEP
    assert "seed wraps: none" in filled(model_cut=1)
    assert "seed wraps: one" in filled(model_cut=1, groups=2)
    assert "seed wraps: several" in filled(model_cut=1, groups=2, epochs=5)
    assert 2 * INDEX_STEP > 1 << 32 > INDEX_STEP
    assert "count of a batch: model x no wrap" in filled(model_cut=1, features=64)
    assert "count of a batch: model x wraps" in filled(model_cut=1, features=65)
    assert "count of a batch: scaled gradient x wraps" in filled(scaled_gradient_cut=1, groups=3, batch_groups=3)
    assert "count of a batch: scaled gradient x no wrap" in filled(scaled_gradient_cut=1, groups=3, batch_groups=2)

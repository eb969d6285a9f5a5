"""The settings of a training, and its learning rates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bitlane.errors import BitlaneError
from bitlane_studies.compression.local.recipe import TUNED, LocalRecipe
from bitlane_studies.compression.local.tasks import TASKS

pytestmark = pytest.mark.torch

RECIPE = LocalRecipe(batch=4, rate=1.0, local_rate=1.0, outer_rate=1.0, outer_momentum=0.0, steps=100, every=10)


def test_the_rate_rises_and_falls():
    factors = [RECIPE.factor(step) for step in range(100)]
    assert factors[0] == 0.1 and factors[9] == 1
    assert sorted(factors[:10]) == factors[:10] and sorted(factors[10:], reverse=True) == factors[10:]
    assert factors[10] == 1 and factors[55] == pytest.approx(0.5) and 0 < factors[99] < 0.001
    assert RECIPE.factor(100) == 0


def test_no_step_is_dropped():
    for steps, every in ((100, 30), (0, 10), (10, 0), (-10, 5)):
        with pytest.raises(BitlaneError, match=f"multiple of --every.*got {steps} and {every}"):
            replace(RECIPE, steps=steps, every=every)


def test_longer_rounds_are_as_many():
    assert RECIPE.longer() == replace(RECIPE, steps=130, every=13)
    assert replace(RECIPE, steps=27, every=9).longer() == replace(RECIPE, steps=36, every=12)


def test_each_task_has_a_recipe():
    assert TUNED.keys() == TASKS.keys()

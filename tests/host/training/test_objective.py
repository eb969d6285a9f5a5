"""The objective as register values, and errors for values that the registers cannot hold."""

import math

import pytest

from bitlane.contract.fixed_point import decode_float
from bitlane.contract.formats import BOUND, PENALTY_STEP_FRACTION, STEP_FRACTION
from bitlane.contract.further import FurtherLoss
from bitlane.contract.modes import Loss, Prox
from bitlane.errors import DataError
from bitlane.training.objective import Objective


def test_squared_error_without_options():
    found = Objective().settings(0.5, 16, 0.75)
    assert decode_float(found.step, STEP_FRACTION) == 0.5 / 16
    assert found.step_negative == found.step
    assert (found.loss, found.prox, found.penalty_step, found.unpenalized_intercept, found.staleness) == (
        Loss.SQUARES,
        Prox.NONE,
        0,
        False,
        0,
    )
    assert found.decay == 3 << 14 and found.phase == 0
    assert found.bounds == (BOUND.minimum, BOUND.maximum)


def test_losses_class_weights_staleness_and_intercept():
    found = Objective("hinge").settings(0.5, 16, 1.0, staleness=1, class_weight=(0.5, 3.0), free=True)
    assert found.loss == Loss.HINGE and found.unpenalized_intercept and found.staleness == 1
    assert decode_float(found.step, STEP_FRACTION) == 3 * 0.5 / 16
    assert decode_float(found.step_negative, STEP_FRACTION) == 0.5 * 0.5 / 16
    assert Objective("log_loss").settings(1, 1, 1).loss == Loss.LOGISTIC
    assert Objective().settings(1, 1, 1, class_weight=(0.0, 1.0)).step_negative == 0


def test_penalties():
    ridge = Objective(penalty="l2", alpha=0.01).settings(0.5, 16, 1.0)
    assert ridge.prox == Prox.L2
    assert decode_float(ridge.penalty_step, PENALTY_STEP_FRACTION) / 64 == pytest.approx(
        0.005, rel=1e-4
    )  # relative shrink of a weight per batch
    lasso = Objective(penalty="l1", alpha=0.01).settings(0.5, 16, 1.0)
    assert lasso.prox == Prox.L1
    assert decode_float(lasso.penalty_step, PENALTY_STEP_FRACTION) == pytest.approx(
        0.005, rel=1e-4
    )  # absolute shrink of a weight per batch
    for free in (Objective(penalty="l1"), Objective(alpha=3.0)):
        assert free.settings(0.5, 16, 1.0).prox == Prox.NONE


@pytest.mark.parametrize(
    ("bounds", "register"),
    [
        ((0, None), (0, 32767)),
        ((0, math.inf), (0, 32767)),
        ((None, 0.5), (-32768, 2048)),
        ((-math.inf, -8), (-32768, -32768)),
        ((-0.1, 0.1), (-409, 409)),  # 409.6 units of 2**-12, rounded towards the inside
        ((1, 1), (4096, 4096)),
        ([-8, 7.9999], (-32768, 32767)),
    ],
)
def test_bounds(bounds, register):
    found = Objective(bounds=bounds).settings(0.5, 16, 1.0)
    assert found.prox == Prox.BOX and found.bounds == register


def test_infinite_bounds_are_no_bounds():
    for bounds in ((None, None), (-math.inf, math.inf)):
        assert Objective(bounds=bounds).settings(0.5, 16, 1.0).prox == Prox.NONE


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "perceptron"}, "loss='perceptron': choose 'squared_error', 'hinge', 'log_loss', 'squared_hinge', "),
        ({"loss": ["hinge"]}, "loss="),
        ({"penalty": "elastic"}, "penalty='elastic': choose None, 'l2', 'l1', 'elasticnet'"),
        ({"penalty": "elasticnet", "l1_ratio": -0.1}, "l1_ratio=-0.1: choose a number from 0 to 1"),
        ({"penalty": "elasticnet", "l1_ratio": math.nan}, "l1_ratio=nan"),
        ({"penalty": "elasticnet", "bounds": (0, None)}, "cannot be combined with a penalty"),
        ({"loss": "huber", "epsilon": 0}, "epsilon=0: loss='huber' needs a number above 0"),
        ({"loss": "squared_epsilon_insensitive", "epsilon": -1e-9}, "needs 0 or more"),
        ({"loss": "epsilon_insensitive", "epsilon": "small"}, "epsilon='small'"),
        ({"penalty": "l2", "alpha": -1}, "alpha=-1"),
        ({"penalty": "l1", "alpha": math.nan}, "alpha=nan"),
        ({"bounds": (0, None), "penalty": "l2"}, "cannot be combined with a penalty"),
        ({"bounds": (0, None), "penalty": "l1", "alpha": 1}, "cannot be combined with a penalty"),
        ({"bounds": 3}, "two numbers"),
        ({"bounds": (1, 2, 3)}, "two numbers"),
        ({"bounds": ("a", 2)}, "two numbers"),
        ({"bounds": (0, 8)}, r"\[-8, 8\)"),
        ({"bounds": (-8.1, 0)}, r"\[-8, 8\)"),
        ({"bounds": (math.inf, None)}, r"\[-8, 8\)"),
        ({"bounds": (None, -math.inf)}, r"\[-8, 8\)"),
        ({"bounds": (math.nan, 1)}, r"\[-8, 8\)"),
        ({"bounds": (1, 0)}, "no multiple"),
        ({"bounds": (0.0001, 0.0002)}, "no multiple"),
    ],
)
def test_invalid_objectives_are_refused(parameters, message):
    with pytest.raises(DataError, match=message) as caught:
        Objective(**parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("objective", "options", "message"),
    [
        (Objective(), {"learning_rate": 0.0}, "above 0"),
        (Objective(), {"learning_rate": -1.0}, "above 0"),
        (Objective(), {"learning_rate": 130.0}, "learning_rate / batch_size is .* below 8"),
        (Objective(), {"learning_rate": 1.0, "class_weight": (1.0, 200.0)}, "class weight.* below 8"),
        (Objective(), {"decay": 0.4}, "decay=0.4"),
        (Objective(), {"decay": 1.1}, "decay=1.1"),
        (Objective(), {"staleness": 2}, "staleness=2"),
        (Objective(), {"staleness": True}, "staleness=True"),
        (Objective(penalty="l2", alpha=1 / 64), {"learning_rate": 1.0}, "alpha . learning_rate is 0.0156.* 0.0156"),
        (
            Objective(penalty="l1", alpha=1.0),
            {"learning_rate": 1.0},
            "alpha . learning_rate is 1: .*threshold.*below 1",
        ),
        (Objective(penalty="l1", alpha=1e-15), {"learning_rate": 1.0}, "alpha . learning_rate is 1e-15"),
        (Objective(penalty="elasticnet", alpha=1.0, l1_ratio=0.99), {"learning_rate": 1.6}, "takes a threshold"),
        (Objective(penalty="elasticnet", alpha=0.1, l1_ratio=0.1), {"learning_rate": 1.0}, "shrinks weights"),
        (Objective("squared_hinge"), {"learning_rate": 65.0}, "below 8"),
        (Objective("huber", epsilon=1e-9), {"label_unit": 1e3}, "epsilon=1e-09: .* at least 0.00095"),
    ],
)
def test_values_outside_the_register_range_are_refused(objective, options, message):
    with pytest.raises(DataError, match=message):
        objective.settings(**{"learning_rate": 0.1, "batch": 16, "decay": 1.0} | options)


def test_elastic_net_has_a_threshold_and_a_shrink():
    found = Objective(penalty="elasticnet", alpha=0.01, l1_ratio=0.25).settings(0.5, 16, 1.0, weight_exponent=2)
    assert found.prox == Prox.L1 and found.more_objectives
    assert decode_float(found.penalty_step, PENALTY_STEP_FRACTION) == pytest.approx(0.00125 / 4, rel=1e-4)
    assert decode_float(found.shrink_step, PENALTY_STEP_FRACTION) / 64 == pytest.approx(0.00375, rel=1e-4)
    for ratio, plain in ((0, "l2"), (1, "l1"), (1e-10, "l2"), (1 - 1e-10, "l1")):
        end = Objective(penalty="elasticnet", alpha=0.01, l1_ratio=ratio)
        assert end.settings(0.5, 16, 1.0) == Objective(penalty=plain, alpha=0.01).settings(0.5, 16, 1.0)


def test_elastic_net_takes_the_ridge_in_its_l2_part():
    net = Objective(penalty="elasticnet", alpha=0.02, l1_ratio=0.5)
    assert net.takes_ridge and net.with_ridge(0.0) is net
    assert net.with_ridge(0.03).strengths == pytest.approx((0.01, 0.04))
    assert Objective(penalty="elasticnet", l1_ratio=0.5).with_ridge(0.03) == Objective(
        penalty="l2", alpha=0.03, l1_ratio=0.5
    )
    assert net.largest_rate == pytest.approx(2**-6 / 0.01)
    assert Objective(penalty="elasticnet", alpha=2.0, l1_ratio=0.999).largest_rate == pytest.approx(1 / 1.998)


def test_further_losses_double_steps_and_scale_epsilon():
    for name, factor in (("squared_hinge", 2), ("modified_huber", 2), ("huber", 1), ("epsilon_insensitive", 1)):
        found = Objective(name, epsilon=3.0).settings(0.5, 16, 1.0, label_unit=4.0)
        assert found.further_loss == FurtherLoss[name.upper()] and found.more_objectives
        assert decode_float(found.step, STEP_FRACTION) == factor * 0.5 / 16
        assert found.epsilon == (0 if factor == 2 else 3 << 18)
    assert Objective("huber", epsilon=3.0).settings(0.5, 16, 1.0, label_unit=0.0).epsilon == (1 << 23) - 1
    assert Objective("huber", epsilon=1e300).settings(0.5, 16, 1.0, label_unit=1e-300).epsilon == (1 << 23) - 1


def test_the_largest_penalty_steps_fit():
    assert Objective(penalty="l2", alpha=0.0156).settings(1.0, 16, 1.0).penalty_step
    assert Objective(penalty="l1", alpha=0.9999).settings(1.0, 16, 1.0).penalty_step

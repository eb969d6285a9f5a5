"""BitAllocation: the least errors over scales, by brute force; what it chooses as times change; its state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.helpers.policy_steps import alone

from bitlane.compress import BitAllocation
from bitlane.errors import DataError
from bitlane.policies.allocation import allocation_curve
from bitlane.policies.protocol import GroupSample, Observation

RELATIVE = np.array([0.1, 0.02, 0.004, 0.0009])  # errors of a value with 2, 3, 4 and 5 bits, over the peak
CHOICES = (2, 3, 4, 5)


def sample(rng, groups=40, spread=1.5, product=0.6, average_rounded=1.0):
    peaks = np.exp(rng.normal(0, spread, groups))
    lengths = np.full(groups, 512)
    lengths[-1] = rng.integers(1, 513)
    energy = float(lengths @ peaks) * 0.05
    return GroupSample(
        lengths,
        peaks,
        energy,
        energy,
        product * energy,
        float(lengths @ peaks),
        RELATIVE * (lengths @ peaks),
        average_rounded,
    )


def after(settings, samples, seconds, exchange):
    """Return the widths after steps with these samples, where the chooser asks for one."""
    chooser = settings.start()
    for each in samples:
        wanted = each if chooser.sampled_bits else None
        chooser.after(Observation(1.0, seconds, lambda: 1.0, True, exchange, wanted), alone)
    return chooser.widths(len(samples[0].lengths))


def test_no_other_allocation_has_less_errors_over_scales_for_its_bits(seed):
    """Each point of the curve against all allocations of six groups; the errors are convex."""
    rng = np.random.default_rng(seed)
    lengths, peaks = rng.integers(1, 513, 6), np.exp(rng.normal(0, 2, 6))
    peaks[rng.integers(6)] = 0
    every = np.array(list(itertools.product(range(len(CHOICES)), repeat=6)))
    bits = (np.array(CHOICES)[every] * lengths).sum(axis=1) / lengths.sum()
    weighed = (RELATIVE[every] * lengths * np.sqrt(peaks)).sum(axis=1)
    curve = allocation_curve(lengths, peaks, RELATIVE, CHOICES)
    assert curve.bits.max() > curve.bits.min() + 1
    for number in range(len(curve.bits)):
        widths = curve.widths(number)
        own = np.searchsorted(CHOICES, widths)
        assert curve.bits[number] == pytest.approx(np.average(widths, weights=lengths))
        assert curve.errors[number] == pytest.approx((RELATIVE[own] * lengths * peaks).sum(), abs=1e-9)
        best = weighed[bits <= curve.bits[number] + 1e-9].min()
        assert (RELATIVE[own] * lengths * np.sqrt(peaks)).sum() <= best + 1e-9


def test_errors_that_are_not_convex_keep_bits_and_errors_consistent(seed):
    rng = np.random.default_rng(seed)
    relative = np.sort(rng.random(4))[::-1].copy()
    relative[2] = relative[1]  # a bit that gains nothing
    lengths, peaks = rng.integers(1, 513, 30), np.exp(rng.normal(0, 2, 30))
    curve = allocation_curve(lengths, peaks, relative, CHOICES)
    for number in range(len(curve.bits)):
        widths = curve.widths(number)
        assert curve.bits[number] == pytest.approx(np.average(widths, weights=lengths))
        own = relative[np.searchsorted(CHOICES, widths)]
        assert curve.errors[number] == pytest.approx((own * lengths * peaks).sum())


def test_larger_groups_have_at_least_as_many_bits(seed):
    each = sample(np.random.default_rng(seed))
    widths = after(BitAllocation(choices=CHOICES), [each] * 2, 2.0, 1.0)
    assert (np.diff(widths[np.argsort(each.peaks)].astype(int)) >= 0).all()
    assert len(set(widths.tolist())) > 1


def test_slower_links_get_fewer_bits(seed):
    each = sample(np.random.default_rng(seed))
    means = [
        float(np.mean(after(BitAllocation(choices=CHOICES), [each] * 2, 1.0 + exchange, exchange)))
        for exchange in (0.0, 0.01, 0.1, 1.0, 10.0, 1e6)
    ]
    assert means == sorted(means, reverse=True)
    assert means[0] == 5 > means[-1] > 2


def test_a_smaller_weight_of_noise_gives_fewer_bits(seed):
    each = sample(np.random.default_rng(seed))
    means = [
        float(np.mean(after(BitAllocation(choices=CHOICES, weight=weight), [each] * 2, 2.0, 1.0)))
        for weight in (1e-6, 0.05, 0.2, 1.0, 1e6)
    ]
    assert means == sorted(means) and means[0] == 2 and means[-1] > 4.8


@pytest.mark.parametrize("average_rounded", [0.0, 0.5, 1.0])
def test_the_choice_is_that_of_all_mean_bits(average_rounded, seed):
    """The widths have the least product of time and delay among all prices, computed from the definition.

    `average_rounded` is the share of the values whose average is rounded, too.
    """
    # Of a single rank. With few groups the cost jumps between the prices that are tried.
    each = sample(np.random.default_rng(seed), 2000, product=1.0, average_rounded=average_rounded)
    widths = after(BitAllocation(choices=CHOICES), [each] * 2, 3.0, 2.0)

    def cost(chosen):
        relative = RELATIVE[np.searchsorted(CHOICES, chosen)]
        first = (relative * each.lengths * each.peaks).sum()  # one rank
        noise = first + average_rounded * first / each.energy * (each.product + first)
        mean = np.average(chosen, weights=each.lengths)
        return (1.0 + 2.0 / (4 + 1 / 16) * (mean + 1 / 16)) * (1 + 0.2 * noise / each.product)

    for price in np.geomspace(1e-6, 1e3, 400):
        gain = RELATIVE[:, None] * np.sqrt(each.peaks) + price * np.array(CHOICES)[:, None]
        assert cost(widths) <= cost(np.array(CHOICES)[gain.argmin(axis=0)]) * 1.002


def test_steps_in_which_it_chooses(seed):
    """After the second, fourth and eighth, then once a period; uncompressed steps do not count."""
    chooser, each = BitAllocation(choices=CHOICES, period=10).start(), sample(np.random.default_rng(seed))
    asked = []
    for step in range(32):
        asked.append(bool(chooser.sampled_bits))
        uncompressed = step == 3
        given = each if asked[-1] and not uncompressed else None
        chooser.after(Observation(1.0, 2.0, lambda: 1.0, True, 1.0, given), alone)
    assert [step for step, wanted in enumerate(asked) if wanted] == [1, 3, 4, 8, 10, 20, 30]
    assert (BitAllocation(start_bits=5).start().bits, BitAllocation().start().widths(3)) == (5, None)


def test_a_gradient_of_zeros_changes_nothing(seed):
    each = sample(np.random.default_rng(seed))
    zeros = GroupSample(each.lengths, each.peaks * 0, 0.0, 0.0, 0.0, 0.0, RELATIVE * 0, 1.0)
    assert after(BitAllocation(choices=CHOICES), [zeros] * 2, 2.0, 1.0) is None
    unseen = GroupSample(
        each.lengths, each.peaks, each.energy, 0.0, 0.0, 0.0, RELATIVE * 0, 1.0
    )  # sampled groups are 0
    assert after(BitAllocation(choices=CHOICES), [unseen] * 2, 2.0, 1.0) is None
    settings = BitAllocation(choices=CHOICES, period=2)
    assert (after(settings, [each] * 3, 2.0, 1.0) == after(settings, [each] * 3 + [zeros], 2.0, 1.0)).all()


def test_a_restored_state_continues_identically(seed):
    rng = np.random.default_rng(seed)
    one, other = (BitAllocation(choices=CHOICES, period=3).start() for _ in range(2))
    steps = [(sample(rng), rng.uniform(1, 3)) for _ in range(20)]
    for each, seconds in steps[:11]:
        wanted = each if one.sampled_bits else None
        one.after(Observation(1.0, seconds, lambda: 1.0, True, seconds / 2, wanted), alone)
    other.load_state_dict(one.state_dict())
    for each, seconds in steps[11:]:
        assert one.sampled_bits == other.sampled_bits and (one.widths(40) == other.widths(40)).all()
        for chooser in (one, other):
            wanted = each if chooser.sampled_bits else None
            chooser.after(Observation(1.0, seconds, lambda: 1.0, True, seconds / 2, wanted), alone)
    assert one.widths(41) is None  # as in a layout with another number of groups
    with pytest.raises(DataError, match="has no widths"):
        other.load_state_dict({"steps": 1, "times": np.zeros(2)})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start_bits": 9}, "start_bits must be one of"),
        ({"choices": (4,)}, "two or more bits"),
        ({"period": 1}, "period must be 2 steps or more"),
        ({"weight": 0.0}, "weight must be finite and above 0; got 0.0"),
        ({"weight": float("nan")}, "weight must be finite"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(DataError, match=message):
        BitAllocation(**settings)

"""The choices of `Auto`: the best by brute force, alike on all ranks whatever their clocks show, and restored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.auto_samples import BITS, best_bits, noise_ratios, rank_sample, shared_facts, step_seconds

from bitlane.compress import Auto
from bitlane.compress.auto.chooser import FIRST, MOST_MEASURING, MOST_PERIODS, fastest
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.errors import DataError
from bitlane.policies.protocol import Observation

pytestmark = pytest.mark.torch

LINKS = (1e-10, 1e-8, 1e-7)  # seconds of a byte


def observed(sample=None, computing=0.01, overlapped=False):
    return Observation(None, 1.0, lambda: 1.0, sample=sample, computing=computing, overlapped=overlapped)


def choose(chooser, sample, gather, computing=0.01, overlapped=False):
    """Make steps up to the next choice, and that one."""
    while not chooser.sampled_bits:
        chooser.after(observed(computing=computing), gather)
    chooser.after(observed(sample, computing, overlapped), gather)


def test_choices_are_the_best_by_brute_force_on_all_ranks(seed):
    """Random layouts, links, computing times and noise, which change between five choices; one clock may be odd."""

    def trial(number):
        common = np.random.default_rng([seed, number])
        facts, overlapped, ranks = shared_facts(common), bool(common.random() < 0.5), int(common.integers(2, 5))
        tolerance = float(10.0 ** common.uniform(-4, 0))
        draws = [(10.0 ** common.uniform(-7, 0), common.choice(LINKS), 10.0 ** common.uniform(-4, 0)) for _ in range(5)]
        odd_clock = float(common.choice([1.0, 1.0, 1e3, 1e-3]))

        def work(transport):
            rng, link = np.random.default_rng([seed, number, transport.rank]), Link(transport, "")
            chooser, rows, found = Auto(tolerance, period=FIRST).start(), [], []

            def gather(own):
                rows.append(link.gather_numbers(own))
                return rows[-1]

            for noise, of_byte, computing in draws:
                current = chooser.bits
                sample = rank_sample(rng, facts, noise, of_byte, BITS.index(current))
                clock = odd_clock if transport.rank == 1 else 1.0
                choose(chooser, sample, gather, clock * computing * rng.uniform(1, 1.1), overlapped)
                times = step_seconds(rows[-1], facts, BITS.index(current), overlapped)
                ratios = noise_ratios(rows[-1], facts)
                assert chooser.choice.seconds == pytest.approx(times) and chooser.choice.ratios == pytest.approx(ratios)
                assert chooser.bits == best_bits(times, ratios, current, tolerance)
                found.append(chooser.bits)
            return found

        found = run_ranks_in_threads(ranks, work)
        assert found == [found[0]] * ranks
        return found[0]

    chosen = [trial(number) for number in range(30)]
    assert len({bits for each in chosen for bits in each}) > 3
    assert any(len(set(each)) > 1 for each in chosen)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -100.0])
def test_a_broken_clock_keeps_the_bits_on_all_ranks(odd, seed):
    """Of two ranks one has no usable time at the first choice; the second choice is made."""
    facts = shared_facts(np.random.default_rng(seed))

    def work(transport):
        rng, link = np.random.default_rng([seed, transport.rank]), Link(transport, "")
        chooser = Auto(period=FIRST).start()
        sample = rank_sample(rng, facts, 0.9, 1e-7, BITS.index(16))
        choose(chooser, replace(sample, exchange=odd) if transport.rank else sample, link.gather_numbers)
        assert chooser.choice is None and chooser.bits == 16
        choose(chooser, sample, link.gather_numbers)
        return chooser.bits, chooser.choice.step

    first, other = run_ranks_in_threads(2, work)
    assert first == other and first[0] < 16 and first[1] == 2 * FIRST


def test_bits_change_only_for_a_gain_or_a_forbidden_error():
    times, ratios = np.array([1.0, 1.03, 2.0]), np.array([0.009, 0.001, 0.0])
    assert fastest(times, ratios, 1, 0.01) == 1  # 0.009 is allowed, but not below 0.8 of the tolerance
    assert fastest(times, ratios, 0, 0.01) == 0
    assert fastest(times, ratios, 0, 0.008) == 1
    assert fastest(times, ratios, 1, 0.02) == 1  # 3 % faster
    assert fastest(times, ratios, 2, 0.02) == 0
    assert fastest(np.array([1.0, 1.0, 1.0]), np.zeros(3), 0, 0.02) == 0
    assert fastest(np.array([1.0, 1.0, 9.0]), np.zeros(3), 2, 0.02) == 1  # the most bits of those that take as long


def test_measuring_is_rare_where_it_costs_much(seed):
    """The steps until the next choice take a hundred times as long as measuring, up to ten periods."""
    rng, facts = np.random.default_rng(seed), shared_facts(np.random.default_rng(seed))
    sample = rank_sample(rng, facts, 0.9, 1e-8, BITS.index(16))

    def steps_until_the_next(measuring):
        chooser = Auto(period=50).start()
        choose(chooser, replace(sample, measuring=measuring), lambda own: [list(own)] * 2, 1.0)
        return chooser._next - FIRST, chooser.choice.seconds[BITS.index(chooser.bits)]

    assert steps_until_the_next(1e-3)[0] == 50
    assert steps_until_the_next(1e9)[0] == 50 * MOST_PERIODS
    steps, seconds = steps_until_the_next(2.0 * steps_until_the_next(0.0)[1])
    assert steps == pytest.approx(2.0 / MOST_MEASURING, abs=2) and 2.0 * seconds <= MOST_MEASURING * steps * seconds


def test_no_noise_means_no_rounding(seed):
    """All ranks have the same gradient, or there is one rank."""
    rng = np.random.default_rng(seed)
    for ranks in (1, 3):
        chooser, sample = Auto().start(), rank_sample(rng, shared_facts(rng), 0.0, 1e-7, BITS.index(16))
        gradient = replace(sample.gradient, product=sample.gradient.sampled_energy)
        choose(chooser, replace(sample, gradient=gradient), lambda own, ranks=ranks: [list(own)] * ranks)
        assert chooser.bits == 32


def test_a_state_restores_the_choice(seed):
    rng, facts = np.random.default_rng(seed), shared_facts(np.random.default_rng(seed))
    one, other = Auto().start(), Auto().start()
    other.load_state_dict(one.state_dict())
    assert other.choice is None and other.bits == 16
    choose(one, rank_sample(rng, facts, 0.9, 1e-7, BITS.index(16)), lambda own: [list(own)] * 2)
    other.load_state_dict(one.state_dict())
    assert str(other.choice) == str(one.choice) and other.bits == one.bits < 16
    assert str(one.choice).startswith(f"QSGD({one.bits}) from step {FIRST} on; time of a step, error over noise: QS")
    for _ in range(5):
        assert other.sampled_bits == one.sampled_bits
        one.after(observed(), None)
        other.after(observed(), None)
    with pytest.raises(DataError, match="the saved state of the bit policy has no next"):
        other.load_state_dict({"steps": 3})


def test_zero_gradients_keep_the_bits(seed):
    rng = np.random.default_rng(seed)
    chooser, sample = Auto().start(), rank_sample(rng, shared_facts(rng), 0.9, 1e-7, BITS.index(16))
    zeros = {name: 0 * value for name, value in vars(sample.gradient).items() if name != "lengths"}
    choose(chooser, replace(sample, gradient=replace(sample.gradient, **zeros)), lambda own: [list(own)] * 2)
    assert chooser.choice is None and chooser.bits == 16 and not chooser.sampled_bits

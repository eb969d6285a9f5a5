"""What a payload tells: the right gradient is among those it may stand for, and the nearest of them is sent alike."""

import pytest
import torch
from tests.helpers.privacy import CLASSES, blobs, victim

from bitlane.compress import LQSGD, QSGD, EFSign, FixedBits, PowerSGD
from bitlane.compress.codecs.groups import GROUP
from bitlane.errors import DataError
from bitlane.studies.privacy.knowledge import codec_agnostic, codec_aware
from bitlane.studies.privacy.victim import decoded_payloads

pytestmark = pytest.mark.torch

EXACT = [QSGD(2), QSGD(5), QSGD(2, error_feedback=True), EFSign(), PowerSGD(1), PowerSGD(2, seed=9), PowerSGD(40)]


def seen_by(compressor, attacked, gradients):
    return torch.cat([decoded_payloads(compressor, attacked.layout, [each]) for each in gradients])


@pytest.mark.parametrize("compressor", EXACT, ids=repr)
def test_the_right_gradient_agrees_with_its_payload(seed, compressor):
    attacked = victim(seed)
    right = attacked.gradients(blobs(seed), CLASSES)
    compare = codec_aware(compressor, attacked.layout, seen_by(compressor, attacked, right)[:, None])
    mine, told = compare(right)
    assert float((mine - told).norm() / told.norm()) < 1e-5
    mine, told = compare(right.roll(1, 0))
    assert float((mine - told).norm() / told.norm()) > 0.01


@pytest.mark.parametrize("compressor", [QSGD(2), PowerSGD(2), PowerSGD(1, warm_start=False)], ids=repr)
def test_a_later_step_is_known_as_well(seed, compressor):
    """The second. The first is a payload itself, so that nothing of it is kept back."""
    attacked = victim(seed)
    right = attacked.gradients(blobs(seed), CLASSES)
    first = seen_by(compressor, attacked, right.roll(1, 0))
    steps = zip(first, right, strict=True)
    payloads = torch.stack([decoded_payloads(compressor, attacked.layout, gradients) for gradients in steps])
    mine, told = codec_aware(compressor, attacked.layout, payloads)(right)
    assert float((mine - told).norm() / told.norm()) < 1e-4


def test_levels_of_logarithms_are_taken_for_exact(seed):
    attacked, compressor = victim(seed), LQSGD(2)
    right = attacked.gradients(blobs(seed), CLASSES)
    mine, told = codec_aware(compressor, attacked.layout, seen_by(compressor, attacked, right)[:, None])(right)
    assert 1e-5 < float((mine - told).norm() / told.norm()) < 0.02


@pytest.mark.parametrize("compressor", [QSGD(3, error_feedback=True), QSGD(3, seed=4)], ids=repr)
def test_the_nearest_gradient_has_the_same_codes(seed, compressor):
    """Half way to the right one, to be inside; the largest of each group is what it was, as it makes the scale."""
    attacked = victim(seed)
    right = attacked.gradients(blobs(seed), CLASSES)
    seen = seen_by(compressor, attacked, right)
    inside = (codec_aware(compressor, attacked.layout, seen[:, None])(right.roll(1, 0))[1] + right) / 2
    for vector, original in zip(inside, right, strict=True):
        for begin in range(0, len(vector), GROUP):
            largest = begin + int(original[begin : begin + GROUP].abs().argmax())
            vector[largest] = original[largest]
    assert torch.equal(seen_by(compressor, attacked, inside), seen)


def test_the_nearest_gradient_has_the_same_signs_and_means(seed):
    attacked = victim(seed)
    right = attacked.gradients(blobs(seed), CLASSES)
    seen = seen_by(EFSign(), attacked, right)
    inside = (codec_aware(EFSign(), attacked.layout, seen[:, None])(right.roll(1, 0))[1] + right) / 2
    again = seen_by(EFSign(), attacked, inside)
    assert torch.equal(torch.sign(again), torch.sign(seen))
    assert torch.allclose(again, seen, rtol=1e-4)


def test_gradients_that_agree_are_left_alone_and_others_move_least(seed):
    """Along each value the distance to the interval, as a plain loop has it."""
    attacked, compressor = victim(seed), QSGD(2, error_feedback=True)
    right = attacked.gradients(blobs(seed), CLASSES)[:1]
    seen = seen_by(compressor, attacked, right)
    other = attacked.gradients(blobs(seed).flip(2), CLASSES)[:1]
    _, nearest = codec_aware(compressor, attacked.layout, seen[:, None])(other)
    for begin in range(0, seen.shape[1], GROUP):
        scale = float(right[0, begin : begin + GROUP].abs().max())
        some = (each[0, begin : begin + 40].tolist() for each in (other, seen, nearest))
        for value, level, found in zip(*some, strict=True):
            low, high = max(level - scale / 2, -scale), min(level + scale / 2, scale)
            assert found == pytest.approx(min(max(value, low), high), rel=1e-5, abs=1e-12)


def test_bits_of_a_policy_are_refused():
    with pytest.raises(DataError, match=r"the attack needs a fixed number of bits; got bits=FixedBits\(bits=3\)"):
        codec_aware(QSGD(FixedBits(3)), [], torch.zeros(1, 1, 8))


def test_the_naive_attacker_takes_the_payload_for_the_gradient(seed):
    seen, mine = torch.randn(2, 30), torch.randn(2, 30)
    for compare in (codec_agnostic(seen), codec_aware(None, [], seen[:, None])):
        assert all(torch.equal(a, b) for a, b in zip(compare(mine), (mine, seen), strict=True))

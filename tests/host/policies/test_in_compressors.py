"""Bit policies on several ranks: all choose the same bits, and the exchanged bytes are counted."""

import numpy as np
import pytest

from bitlane.compress import QSGD, Adaptive, FixedBits, MQGrad
from bitlane.compress.collectives.link import Link
from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.errors import BitlaneError, DataError
from bitlane.policies.protocol import Observation

pytestmark = pytest.mark.torch

RANKS, STEPS = 3, 203


@pytest.mark.parametrize(("policy", "numbers"), [(FixedBits(3), 0), (Adaptive(), 1), (MQGrad(exploration=0.3), 6)])
def test_ranks_with_different_observations_choose_the_same_bits(seed, policy, numbers):
    def work(transport):
        rng = np.random.default_rng([seed, transport.rank])
        link, chooser = Link(transport, ""), policy.start()
        bits = []
        for number in range(STEPS):
            seen = Observation(rng.normal(), rng.random(), lambda number=number: 2.0 ** (number % 7) * rng.random())
            chooser.after(seen, link.gather_numbers)
            bits.append(chooser.bits)
        return bits, transport.sent

    ranks = run_ranks_in_threads(RANKS, work)
    assert [bits for bits, _ in ranks] == [ranks[0][0]] * RANKS
    assert len(set(ranks[0][0])) > 1 or policy == FixedBits(3)
    assert [sent for _, sent in ranks] == [(RANKS - 1) * 8 * numbers * (STEPS // 5)] * RANKS


def test_a_missing_loss_on_one_rank_is_an_error_on_all():
    def work(transport):
        link, chooser = Link(transport, ""), MQGrad().start()
        try:
            for number in range(5):
                loss = None if transport.rank == 1 and number == 2 else 1.0
                chooser.after(Observation(loss, 1.0, lambda: 1.0), link.gather_numbers)
        except BitlaneError as error:
            return str(error)

    errors = run_ranks_in_threads(RANKS, work)
    assert all("rank 1 did not report one" in error for error in errors)
    assert len(set(errors)) == 1


def test_compressors_reject_policies_with_unsupported_bits():
    assert QSGD(bits=MQGrad()).policy == MQGrad()
    with pytest.raises(DataError, match="2 to 8"):
        QSGD(bits=MQGrad(choices=(1, 2)))
    with pytest.raises(DataError, match="2 to 8"):
        QSGD(bits=FixedBits(9))

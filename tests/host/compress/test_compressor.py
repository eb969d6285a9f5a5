"""What all compressors have in common: the settings of parts of a gradient, and copies of states."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.compressor_steps import make
from tests.helpers.devices import DEVICE

from bitlane.compress.collectives.transport import run_ranks_in_threads
from bitlane.compress.registry import EXAMPLES, parse_compressor

pytestmark = pytest.mark.torch


def test_parts_differ_in_their_seeds_only():
    from bitlane.compress import QSGD, EFSign
    from bitlane.compress.compressor import with_own_seed

    whole = QSGD(bits=3, seed=7)
    parts = [with_own_seed(whole, index) for index in range(4)]
    assert parts[0] is whole and len({each.seed for each in parts}) == 4
    assert {repr(each).replace(str(each.seed), "") for each in parts} == {repr(whole).replace("7", "")}
    assert with_own_seed(EFSign(), 3) == EFSign()


@pytest.mark.parametrize("text", EXAMPLES[1:])
def test_a_copy_of_a_state_is_written_again(text, seed):
    """The memory of an earlier copy has the state of now, and the next step does not change it."""

    def work(transport):
        reducer, rng = make(parse_compressor(text), 3000, transport), np.random.default_rng([seed, transport.rank])

        def step(number):
            reducer.average(torch.from_numpy(rng.normal(size=3000).astype(np.float32)).to(DEVICE), number)

        step(0)
        earlier = reducer.state_dict()
        places = [each.data_ptr() for each in tensors(earlier)]
        step(1)
        again, fresh = reducer.state_dict(earlier), reducer.state_dict()
        assert [each.data_ptr() for each in tensors(again)] == places
        step(2)
        return all(torch.equal(one, other) for one, other in zip(tensors(again), tensors(fresh), strict=True))

    assert all(run_ranks_in_threads(2, work))


def tensors(state):
    """Return all tensors of a state."""
    found = [each for value in state.values() for each in (value if isinstance(value, list) else [value])]
    return [each for each in found if isinstance(each, torch.Tensor)]

"""Random encodings of the RTL against the reference and the host's encoder; trainings through it."""

from __future__ import annotations

import pytest

from bitlane_sim.equivalence.encoder_soak import EncoderRig

RUNS = 60


@pytest.fixture(scope="module")
def rig():
    """Return the RTL and the reference."""
    rig = EncoderRig()
    yield rig
    rig.close()


def test_random_encodings(rig, seed):
    assert [wrong for i in range(RUNS) if (wrong := rig.run(seed + i))] == []

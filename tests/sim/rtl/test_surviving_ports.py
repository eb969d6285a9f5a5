"""HP ports that go on while the logic is in reset, as on a Zynq-7000: the next run and the memory are correct."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from bitlane.contract.config import AcceleratorConfig
from bitlane_sim.rtl.disturbance import Disturbance
from bitlane_verify.equivalence.random_jobs import random_job
from bitlane_verify.equivalence.zynq_soak import ZynqRig

MOST = 400  # runs until a reset falls within a write burst


@pytest.fixture(scope="module", params=[64, 128])
def rig(request: pytest.FixtureRequest) -> Iterator[ZynqRig]:
    rig = ZynqRig(AcceleratorConfig(request.param, 1, 256, 256, address_bits=32))
    yield rig
    rig.close()


def reset_and_run(rig: ZynqRig, rng: np.random.Generator) -> int | None:
    """Reset a run, often in a write burst; check the next run. Return the address of the burst that was cut off."""
    first, job = (random_job(rng, rig.config, features=100, rows=20 * rig.config.rows_per_beat) for _ in range(2))
    stalls = Disturbance.arbitrary(int(rng.integers(1 << 31)))
    stalls = dataclasses.replace(stalls, stall_w=0.9 if rng.integers(2) else stalls.stall_w)
    assert rig.run_after_reset(rng, dataclasses.replace(first, snapshots=True), job, stalls) == []
    return rig.rtl.monitor.reset.sending


@pytest.mark.parametrize("runs", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_reset_at_any_cycle(rig: ZynqRig, seed: int, runs: int) -> None:
    rng = np.random.default_rng(seed)
    cut_off = [reset_and_run(rig, rng) is not None for _ in range(runs)]
    while not any(cut_off) and len(cut_off) < MOST:  # one reset in nine is within a write burst
        cut_off.append(reset_and_run(rig, rng) is not None)
    assert any(cut_off), "no reset was within a write burst"

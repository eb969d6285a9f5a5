"""Jobs and devices that several tests use."""

from __future__ import annotations

import numpy as np

from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.registers import REGISTERS
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.job import Job


def random_settings(rng, **settings):
    """Settings of any mode, with steps that train."""
    low, high = sorted(int(end) for end in rng.integers(-4096, 4096, 2))
    chosen = {
        "step": 0x9000 | 8 << 16,
        "step_negative": 0xA123 | 9 << 16,
        "penalty_step": 0xC000 | int(rng.integers(12)) << 16,
        "decay": NO_DECAY * 3 // 4,
        "phase": int(rng.integers(1 << 32)),
        "loss": Loss(int(rng.integers(3))),
        "prox": Prox(int(rng.integers(4))),
        "bounds": (low, high),
        "unpenalized_intercept": bool(rng.integers(2)),
        "staleness": int(rng.integers(2)),
    }
    return Settings(**chosen | settings)


def random_job(
    rng,
    rows=37,
    features=40,
    base_digits=1,
    sets=3,
    draws=True,
    batch=8,
    rows_per_beat=1,
    outputs=1,
    epochs=4,
    snapshots=False,
    table_bits=None,
    **settings,
):
    """A job with random data, and its samples as `run_epochs` takes them: one a set.

    With table_bits each feature has random levels of its own, and a base code of so many bits.
    """
    table = table_bits is not None
    digits, half = divmod(table_bits, 2) if table else (base_digits, 0)
    geometry = Geometry(features, rows, digits, draws, batch, rows_per_beat, outputs, bool(half), table)
    shape = (rows, features)
    labels = rng.integers(-32767, 32768, (rows, outputs)).astype(np.int16)
    shared = rng.integers(0, 1 << geometry.base_bits, shape).astype(np.uint32)
    samples = []
    for _ in range(sets):
        codes = shared if draws else rng.integers(0, 1 << geometry.base_bits, shape).astype(np.uint32)
        drawn = rng.integers(0, 4, shape).astype(np.uint8) if draws else None
        samples.append((codes, drawn, labels))
    job = Job(
        geometry=geometry,
        base_regions=[pack_base(codes, labels, geometry) for codes, _, _ in (samples[:1] if draws else samples)],
        draw_regions=[pack_draws(drawn, geometry) for _, drawn, _ in samples] if draws else [],
        state=ModelState(
            rng.integers(-(1 << 28), 1 << 28, (outputs, features)).astype(np.int32), random_settings(rng, **settings)
        ),
        epochs=epochs,
        snapshots=snapshots,
        levels=np.sort(rng.integers(-(1 << 16), 1 << 16, (geometry.levels, features)), axis=0).astype(np.int32)
        if table
        else None,
    )
    return job, samples


class Recorded(EmulatorDevice):
    """Remembers register writes, and can lie: `answers` replaces reads, `twists` changes writes."""

    def __init__(self, config=None, capacity_bytes=128 << 20, answers=None, twists=None):
        super().__init__(config, capacity_bytes)
        self.answers = answers or {}
        self.twists = twists or {}
        self.written = []

    def read(self, offset):
        name = next((r.name for r in REGISTERS.values() if r.offset == offset), None)
        value = super().read(offset)
        return self.answers[name](value) if name in self.answers else value

    def write(self, offset, value):
        name = next((r.name for r in REGISTERS.values() if r.offset == offset), None)
        if name in self.twists:
            value = self.twists[name](value)
        self.written.append((name, value))
        super().write(offset, value)

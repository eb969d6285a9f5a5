"""Jobs and devices that several tests use."""

from __future__ import annotations

import numpy as np

from bitlane.accelerator import Job
from bitlane.contract import REGISTERS
from bitlane.devices.emulator import EmulatorDevice
from bitlane.fixed import NO_DECAY
from bitlane.layout import Geometry, pack_base, pack_draws
from bitlane.reference import Settings


def random_job(rng, rows=37, features=40, base_digits=1, sets=3, draws=True, **settings):
    """A job with random data, and its samples as `run_epochs` takes them: one a set."""
    geometry = Geometry(features, rows, base_digits, draws)
    shape = (rows, features)
    labels = rng.integers(-32767, 32768, rows).astype(np.int16)
    shared = rng.integers(0, 1 << 2 * base_digits, shape).astype(np.uint32)
    samples = []
    for _ in range(sets):
        codes = shared if draws else rng.integers(0, 1 << 2 * base_digits, shape).astype(np.uint32)
        drawn = rng.integers(0, 4, shape).astype(np.uint8) if draws else None
        samples.append((codes, drawn, labels))
    job = Job(
        geometry=geometry,
        base=[pack_base(codes, labels, geometry) for codes, _, _ in (samples[:1] if draws else samples)],
        draws=[pack_draws(drawn, geometry) for _, drawn, _ in samples] if draws else [],
        master=rng.integers(-(1 << 28), 1 << 28, features).astype(np.int32),
        **{"epochs": 4, "batch": 8, "step": 0x9000 | 8 << 16, "rate": 0xC000, "decay": NO_DECAY * 3 // 4} | settings,
    )
    return job, samples


def settings_of(job):
    return Settings(job.batch, job.step, job.rate, job.decay, job.shrink, job.phase)


class Recorded(EmulatorDevice):
    """Remembers register writes, and can lie: `answers` replaces reads, `twists` changes writes."""

    def __init__(self, answers=None, twists=None, **sizes):
        super().__init__(**sizes)
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

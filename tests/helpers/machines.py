"""Jobs and devices that several tests use."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from bitlane.contract.fixed_point import NO_DECAY
from bitlane.contract.geometry import Geometry
from bitlane.contract.modes import Loss, Prox
from bitlane.contract.packing import pack_base, pack_draws
from bitlane.contract.settings import Settings
from bitlane.contract.software_registers import EVERY_REGISTER
from bitlane.contract.state import ModelState
from bitlane.devices.emulator import EmulatorDevice
from bitlane.driver.job import Job

# Registers with the names and the values of `Settings`.
SETTINGS_REGISTERS = (
    *("step", "step_negative", "penalty_step", "decay", "phase"),
    *("loss", "prox", "unpenalized_intercept", "staleness"),
)


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
        "weight_exponent": int(rng.integers(-2, 3)),
    }
    return Settings(**chosen | settings)


@dataclass(frozen=True)
class JobShape:
    """Sizes of a random job. `table_bits` are the bits of a base code of its codebook, None without one."""

    rows: int = 37
    features: int = 40
    base_digits: int = 1
    sets: int = 3
    draws: bool = True
    batch: int = 8
    rows_per_beat: int = 1
    outputs: int = 1
    epochs: int = 4
    snapshots: bool = False
    table_bits: int | None = None

    @property
    def geometry(self):
        """The shape of an epoch."""
        table = self.table_bits is not None
        digits, half = divmod(self.table_bits, 2) if table else (self.base_digits, 0)
        return Geometry(
            self.features,
            self.rows,
            digits,
            self.draws,
            self.batch,
            self.rows_per_beat,
            self.outputs,
            half_digit=bool(half),
            codebook=table,
        )


def random_job(rng, **options):
    """A job with random data, and its samples as `run_epochs` takes them: one for each set.

    The options are those of `JobShape` and of `Settings`.
    """
    names = {field.name for field in fields(JobShape)}
    shape = JobShape(**{name: value for name, value in options.items() if name in names})
    settings = random_settings(rng, **{name: value for name, value in options.items() if name not in names})
    geometry = shape.geometry
    table = (shape.rows, shape.features)
    labels = rng.integers(-32767, 32768, (shape.rows, shape.outputs)).astype(np.int16)
    shared = rng.integers(0, 1 << geometry.base_bits, table).astype(np.uint32)
    samples = []
    for _ in range(shape.sets):
        codes = shared if shape.draws else rng.integers(0, 1 << geometry.base_bits, table).astype(np.uint32)
        drawn = rng.integers(0, 4, table).astype(np.uint8) if shape.draws else None
        samples.append((codes, drawn, labels))
    levels = np.sort(rng.integers(-(1 << 16), 1 << 16, (geometry.levels, shape.features)), axis=0).astype(np.int32)
    job = Job(
        geometry=geometry,
        base_regions=[pack_base(codes, labels, geometry) for codes, _, _ in (samples[:1] if shape.draws else samples)],
        draw_regions=[pack_draws(drawn, geometry) for _, drawn, _ in samples] if shape.draws else [],
        state=ModelState(rng.integers(-(1 << 28), 1 << 28, (shape.outputs, shape.features)).astype(np.int32), settings),
        epochs=shape.epochs,
        snapshots=shape.snapshots,
        levels=levels if geometry.codebook else None,
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
        name = next((r.name for r in EVERY_REGISTER.values() if r.offset == offset), None)
        value = super().read(offset)
        return self.answers[name](value) if name in self.answers else value

    def write(self, offset, value):
        name = next((r.name for r in EVERY_REGISTER.values() if r.offset == offset), None)
        if name in self.twists:
            value = self.twists[name](value)
        self.written.append((name, value))
        super().write(offset, value)

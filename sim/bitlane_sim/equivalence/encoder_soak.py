"""Random encodings of the RTL against the numpy reference, both through the driver, and against the host's encoder.

    python -m bitlane_sim.equivalence.encoder_soak --runs 2000

Every word of the regions must be equal; without stalls the cycles must be those of the prediction. Each run has a seed
of its own; `--seed N --runs 1` repeats one.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.packing import Words
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.protocol import Device
from bitlane.driver.buffers import SampleBuffers
from bitlane.driver.driver import Driver
from bitlane.driver.encoding import Encoding, region_words
from bitlane.driver.job import Counters
from bitlane.quantization.scaling import fit_scaling
from bitlane.quantization.source import VALUE_TYPES
from bitlane.training.samples import SampleEncoder
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.harness import Disturbance

from .random_jobs import Random

CONFIG = AcceleratorConfig(max_features=512, row_buffer_beats=512, encoder=4)
CAPACITY = 16 << 20
TIMINGS = tuple(MemoryTiming(latency) for latency in (1, 30, 100))
VALUES = 20_000  # of a random table, at most
DISTURBED = 0.5  # share of the runs with stalls on the buses


def random_values(chosen: Random, dtype: np.dtype[Any], rows: int, features: int) -> NDArray[Any]:
    """Return values of all sizes that the type has, with columns of few values among them."""
    if dtype == np.float32:
        sizes = 10.0 ** chosen.integers(-30, 30, features)
        values = sizes * (chosen.normal(size=(rows, features)) + chosen.choice((0, 1, 1000), features))
        return np.asarray(np.where(chosen.random(values.shape) < 0.05, 0.0, values).astype(np.float32))
    info = np.iinfo(dtype)
    low = chosen.integers(info.min, info.max, features)
    high = np.minimum(low + (info.max - info.min >> chosen.integers(0, info.bits, features)) + 1, info.max)
    return np.asarray(chosen.integers(low, high + 1, (rows, features)).astype(dtype))


def random_encoding(chosen: Random, seed: int, outputs: int) -> tuple[Encoding, SampleEncoder, list[int]]:
    """Return a random encoding, the host's encoder of the same rows, and the numbers of its draw sets."""
    dtype = list(VALUE_TYPES)[chosen.integers(len(VALUE_TYPES))]
    features = int(513 ** chosen.random())
    rows = 2 + int(min(200, VALUES // features) ** chosen.random())
    double = bool(chosen.random() < 0.75)
    bits = 2 * int(chosen.integers(1, ENCODER_BASE_BITS // 2 + 1 + double))
    precision = Precision(bits, "double" if double else "nearest")
    X, y = random_values(chosen, dtype, rows, features), chosen.normal(size=(rows, outputs))
    X[0, -1], X[1, -1] = 0, 1  # at least one column is not constant
    scaling = fit_scaling(X, y, intercept_value=float(features < 512 and chosen.random() < 0.3))
    first = int(chosen.integers(1 << 20))
    encoder = SampleEncoder(X, y, scaling, precision, seed, first_row=first)
    if not encoder.device_can_encode(ENCODER_BASE_BITS):  # a narrow column far from 0
        return random_encoding(chosen, seed, outputs)
    geometry = Geometry.of(precision, scaling.stored_features, rows, rows, outputs=outputs)
    numbers = chosen.integers(0, 100, int(chosen.integers(1, 7))).tolist() if double else []
    base = not numbers or bool(chosen.integers(2))
    encoding = Encoding(geometry, VALUE_TYPES[dtype], base, [encoder.draw_seed(number) for number in numbers])
    return encoding, encoder, numbers


def encoded(device: Device, encoding: Encoding, source: Words) -> tuple[list[Words], list[Counters]]:
    """Return base region and draw regions that a device writes, and the counters of each start."""
    geometry, apart = encoding.geometry, region_words(encoding.geometry.draw_words)
    with SampleBuffers(device, geometry.base_words * encoding.base, apart * len(encoding.seeds)) as samples:
        buffer = device.allocate(encoding.source_words * WORD_BYTES)
        try:
            buffer.array[: len(source)] = source
            device.flush(buffer)
            counters = Driver(device).encode(encoding, samples, buffer)
        finally:
            buffer.free()
        regions = []
        if samples.base is not None:
            device.invalidate(samples.base)
            regions.append(samples.base.array.copy())
        if samples.draws is not None:
            device.invalidate(samples.draws)
            regions += list(samples.draws.array.reshape(-1, apart)[:, : geometry.draw_words].copy())
        return regions, counters


class EncoderRig:
    """The RTL with memories of several timings, and the reference."""

    def __init__(self, config: AcceleratorConfig = CONFIG):
        self.config = config
        self.rtl = {timing: RtlDevice(config, CAPACITY, timing) for timing in TIMINGS}
        self.emulator = EmulatorDevice(config, CAPACITY)

    def run(self, seed: int) -> str:
        """Run one random encoding. Return the differences in words with everything to repeat it, or ""."""
        chosen = np.random.default_rng(seed)
        timing = TIMINGS[chosen.integers(len(TIMINGS))]
        encoding, encoder, numbers = random_encoding(chosen, seed, self.config.outputs)
        source = encoder.source(encoding.geometry, ENCODER_BASE_BITS)
        disturbance = Disturbance.arbitrary(seed) if chosen.random() < DISTURBED else Disturbance()
        self.rtl[timing].disturb(disturbance)
        got, counters = encoded(self.rtl[timing], encoding, source)
        expected, _ = encoded(self.emulator, encoding, source)
        geometry = encoding.geometry
        host = [encoder.base(geometry, 0)] * encoding.base + (encoder.draws(geometry, 0, numbers) if numbers else [])
        wrong = [
            f"region {i} differs from {name}"
            for name, others in (("the reference", expected), ("the host's encoder", host))
            for i, (a, b) in enumerate(zip(got, others, strict=True))
            if not np.array_equal(a, b)
        ]
        if disturbance == Disturbance():
            wrong += self._cycles(encoding, counters, timing)
        return f"seed {seed}: {'; '.join(wrong)}; {timing}, {encoding}" if wrong else ""

    def _cycles(self, encoding: Encoding, counters: list[Counters], timing: MemoryTiming) -> list[str]:
        """Return what is wrong with the cycles of each start."""
        wrong = []
        for i, found in enumerate(counters):
            first = i * self.config.encoder
            step = encoding.part(range(first, min(first + self.config.encoder, len(encoding.seeds))))
            sets = len(step.seeds)
            expected = predict_encoding(step.geometry, step.value_type, step.base, sets, timing)
            if not expected.least <= found.cycles <= expected.most:
                wrong.append(f"start {i}: {found.cycles} cycles, predicted {expected.least} to {expected.most}")
            if found.beats != step.source_words:
                wrong.append(f"start {i}: {found.beats} beats instead of {step.source_words}")
        return wrong

    def close(self) -> None:
        """Free the simulators."""
        for device in self.rtl.values():
            device.close()


def main() -> int:
    """Run the random encodings. Return exit status 1 if anything differed."""
    parser = argparse.ArgumentParser(description="Random encodings of the RTL against the numpy reference.")
    parser.add_argument("--runs", type=int, default=2000, help="number of runs (default: 2000)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first run (default: a fresh one)")
    arguments = parser.parse_args()
    first: int = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    rig, failures = EncoderRig(), 0
    for seed in range(first, first + arguments.runs):
        if wrong := rig.run(seed):
            failures += 1
            print(wrong, flush=True)
    rig.close()
    print(f"{arguments.runs} runs from seed {first}, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Random encodings of the RTL against the numpy reference, both through the driver, and against the host's encoder.

    python -m bitlane_verify.equivalence.encoder_soak --runs 2000

Every word of the regions must be equal; without stalls the cycles must be those of the prediction. Each run has a seed
of its own; `--seed N --runs 1` repeats one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import MemoryTiming
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ENCODER_BASE_BITS
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import Words
from bitlane.contract.precision import Precision
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.protocol import Device
from bitlane.driver.buffers import SampleBuffers, SourceBuffers
from bitlane.driver.driver import Driver
from bitlane.driver.encoding import Encoding, region_words
from bitlane.driver.job import Counters
from bitlane.quantization.scaling import Scaling, fit_scaling
from bitlane.quantization.source import VALUE_TYPES
from bitlane.training.samples import SampleEncoder
from bitlane_sim.rtl.device import RtlDevice
from bitlane_sim.rtl.disturbance import Disturbance

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
    low = np.where(chosen.random(features) < 0.1, info.min, chosen.integers(info.min, info.max, features))
    high = np.minimum(low + (info.max - info.min >> chosen.integers(0, info.bits, features)) + 1, info.max)
    return np.asarray(chosen.integers(low, high + 1, (rows, features)).astype(dtype))


@dataclass(frozen=True)
class EncodingCase:
    """Rows to encode.

    Attributes
    ----------
    encoding : Encoding
        What the device makes of them.
    encoder : SampleEncoder
        The host's encoder of the same rows.
    numbers : list of int
        Of the draw sets.
    X : ndarray [rows, n]
        The raw rows.
    scaling : Scaling
    """

    encoding: Encoding
    encoder: SampleEncoder
    numbers: list[int]
    X: NDArray[Any]
    scaling: Scaling

    @classmethod
    def random(cls, chosen: Random, seed: int, config: AcceleratorConfig) -> EncodingCase:
        """Return a random case for a build."""
        dtype = list(VALUE_TYPES)[chosen.integers(len(VALUE_TYPES))]
        features = int((config.max_features + 1) ** chosen.random())
        rows = 2 + int(min(200, VALUES // features) ** chosen.random())
        batch = rows if chosen.random() < 0.3 else int(chosen.integers(1, rows + 1))  # its last group may be short
        double = bool(chosen.random() < 0.75)
        bits = 2 * int(chosen.integers(1, ENCODER_BASE_BITS // 2 + 1 + double))
        precision = Precision(bits, "double" if double else "nearest")
        X, y = random_values(chosen, dtype, rows, features), chosen.normal(size=(rows, config.outputs))
        X[0, -1], X[1, -1] = 0, 1  # at least one column is not constant
        has_intercept = features < config.max_features and chosen.random() < 0.3
        scaling = fit_scaling(X, y, intercept_value=float(has_intercept))
        first = int(chosen.integers(1 << 20))
        encoder = SampleEncoder(X, y, scaling, precision, seed, first_row=first)
        if not encoder.device_can_encode(ENCODER_BASE_BITS):  # a narrow column far from 0
            return cls.random(chosen, seed, config)
        geometry = Geometry.of(
            precision,
            scaling.stored_features,
            rows,
            batch,
            config.rows_per_beat,
            config.outputs,
            config.shards,
            config.ports,
        )
        numbers = _numbers(chosen) if double else []
        base = not numbers or bool(chosen.integers(2))
        sets = [encoder.device_set(number) for number in numbers]
        return cls(Encoding(geometry, VALUE_TYPES[dtype], base, sets), encoder, numbers, X, scaling)

    @property
    def source(self) -> Words:
        """Words of the source region."""
        return self.encoder.source(self.encoding.geometry, ENCODER_BASE_BITS)

    def regions(self) -> list[Words]:
        """Return base region and draw regions as the host's encoder makes them."""
        geometry = self.encoding.geometry
        draws = self.encoder.draws(geometry, 0, self.numbers) if self.numbers else []
        return [self.encoder.base(geometry, 0)] * self.encoding.writes_base + [*draws]


def _numbers(chosen: Random) -> list[int]:
    """Return the numbers of random draw sets: consecutive ones, as a launch has, or any."""
    count = int(chosen.integers(1, 7))
    if chosen.random() < 0.7:
        first = int(chosen.integers(0, 100))
        return list(range(first, first + count))
    return list(chosen.integers(0, 100, count).tolist())


def encoded(device: Device, encoding: Encoding, source: Words) -> tuple[list[Words], list[Counters]]:
    """Return base region and draw regions that a device writes, and the counters of each start."""
    geometry, apart = encoding.geometry, region_words(encoding.geometry)
    with (
        SampleBuffers(
            device, geometry, geometry.base_words * encoding.writes_base, apart * len(encoding.sets)
        ) as samples,
        SourceBuffers(device, geometry, encoding.source_words) as buffers,
    ):
        buffers.fill(source)
        counters = Driver(device).encode(encoding, samples, buffers)
        base, draws = samples.read()
        regions = [base.copy()] if samples.base else []
        if samples.draws:
            regions += list(draws.reshape(-1, apart)[:, : geometry.draw_words].copy())
        return regions, counters


@dataclass(frozen=True)
class EncodingRun:
    """A random encoding that ran.

    Attributes
    ----------
    seed : int
        Seed of all choices.
    case : EncodingCase
    timing : MemoryTiming
    disturbed : bool
        Whether the buses had stalls.
    wrong : str
        The differences in words, or "".
    """

    seed: int
    case: EncodingCase
    timing: MemoryTiming
    disturbed: bool
    wrong: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.wrong}; {self.timing}, {self.case.encoding}"


class EncoderRig:
    """The RTL with memories of several timings, and the reference.

    Parameters
    ----------
    config : AcceleratorConfig
        The build.
    open_device : callable
        `open_device(config, capacity_bytes, timing)` opens the RTL.
    """

    def __init__(
        self,
        config: AcceleratorConfig,
        open_device: Callable[[AcceleratorConfig, int, MemoryTiming], RtlDevice] = RtlDevice,
    ):
        self.config = config
        self.rtl = {timing: open_device(config, CAPACITY, timing) for timing in TIMINGS}
        self.emulator = EmulatorDevice(config, CAPACITY)

    def run(self, seed: int) -> EncodingRun:
        """Run one random encoding."""
        chosen = np.random.default_rng(seed)
        timing = self.timing(chosen)
        case = EncodingCase.random(chosen, seed, self.config)
        disturbance = Disturbance.arbitrary(seed) if chosen.random() < DISTURBED else Disturbance()
        wrong = self.compare(case, timing, disturbance)
        return EncodingRun(seed, case, timing, disturbance != Disturbance(), wrong)

    def timing(self, chosen: Random) -> MemoryTiming:
        """Return the timing of a random memory."""
        return TIMINGS[chosen.integers(len(TIMINGS))]

    def compare(self, case: EncodingCase, timing: MemoryTiming, disturbance: Disturbance) -> str:
        """Encode on the RTL and on the reference. Return the differences in words, or "".

        Without a disturbance, cycles and beats are compared with the prediction too.
        """
        self.rtl[timing].disturb(disturbance)
        got, counters = encoded(self.rtl[timing], case.encoding, case.source)
        expected, _ = encoded(self.emulator, case.encoding, case.source)
        wrong = [
            f"region {i} differs from {name}"
            for name, others in (("the reference", expected), ("the host's encoder", case.regions()))
            for i, (a, b) in enumerate(zip(got, others, strict=True))
            if not np.array_equal(a, b)
        ]
        if disturbance == Disturbance():
            wrong += self._cycles(case.encoding, counters, timing)
        return "; ".join(wrong)

    def _cycles(self, encoding: Encoding, counters: list[Counters], timing: MemoryTiming) -> list[str]:
        """Return what is wrong with the cycles of each start."""
        wrong = []
        for i, (counted, (_, step)) in enumerate(zip(counters, encoding.starts(self.config.encoder), strict=True)):
            expected = predict_encoding(step.geometry, step.value_type, step.writes_base, len(step.sets), timing)
            if not expected.least <= counted.cycles <= expected.most:
                wrong.append(f"start {i}: {counted.cycles} cycles, predicted {expected.least} to {expected.most}")
            beats = step.source_words // step.geometry.words_per_beat
            if counted.beats != beats:
                wrong.append(f"start {i}: {counted.beats} beats instead of {beats}")
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
    rig, failures = EncoderRig(CONFIG), 0
    for seed in range(first, first + arguments.runs):
        if (run := rig.run(seed)).wrong:
            failures += 1
            print(run, flush=True)
    rig.close()
    print(f"{arguments.runs} runs from seed {first}, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

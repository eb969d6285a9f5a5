"""Cycles of the encoder in simulation: `python -m bitlane_verify.benchmarks.encoder`.

The first table has the share of the read port's cycles that raw rows take, with a base region and 1 draw set, or as
many as the encoder writes at a time. The second one has the cycles of an encoding with 8 draw sets and of 20 epochs
after it.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.cycles import predict
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ENCODER_BASE_BITS, row_beats
from bitlane.contract.geometry import Geometry
from bitlane.contract.precision import Precision
from bitlane.driver.encoding import Encoding
from bitlane.quantization.scaling import fit_scaling
from bitlane.quantization.source import VALUE_TYPES
from bitlane.support.text import align_columns
from bitlane.training.samples import SampleEncoder
from bitlane_sim.rtl.device import RtlDevice
from bitlane_verify.equivalence.encoder_soak import CONFIG, encoded

ROWS, FEATURES, BITS, SETS, EPOCHS, BATCH = 1000, 512, (4, 8), 8, 20, 64
MNIST = (60_000, 717)  # rows, columns that are not constant
CAPACITY = 64 << 20


def measured(device: RtlDevice, dtype: np.dtype[np.generic], bits: int, sets: int) -> tuple[Encoding, int]:
    """Return an encoding of a random table, and its cycles in simulation."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, (ROWS, FEATURES)).astype(dtype)
    y = rng.normal(size=(ROWS, 1))
    scaling, precision = fit_scaling(X, y), Precision(bits)
    encoder = SampleEncoder(X, y, scaling, precision, 0)
    geometry = Geometry.of(precision, scaling.stored_features, ROWS, BATCH)
    encoding = Encoding(geometry, VALUE_TYPES[dtype], True, [encoder.device_set(i) for i in range(sets)])
    _, counters = encoded(device, encoding, encoder.source(geometry, ENCODER_BASE_BITS))
    return encoding, sum(each.cycles for each in counters)


def predicted(encoding: Encoding, sets_at_a_time: int) -> int:
    """Return the least cycles of the starts of an encoding."""
    starts = encoding.starts(sets_at_a_time)
    return sum(
        predict_encoding(each.geometry, each.value_type, each.writes_base, len(each.sets)).least for _, each in starts
    )


def bandwidth(device: RtlDevice, config: AcceleratorConfig) -> list[list[str]]:
    """Return the table of the shares of the read port."""
    table = [["values", "stored bits", "draw sets", "cycles", "predicted", "share of the read port"]]
    for dtype in VALUE_TYPES:
        for bits in BITS:
            for sets in (1, config.encoder):
                encoding, cycles = measured(device, dtype, bits, sets)
                raw = ROWS * row_beats(encoding.value_type, FEATURES)
                expected = f"{predicted(encoding, config.encoder):,}"
                table.append([str(dtype), str(bits), str(sets), f"{cycles:,}", expected, f"{raw / cycles:.3f}"])
    return table


def with_epochs(device: RtlDevice) -> list[list[str]]:
    """Return the table of encoding and epochs: measured for a random table, predicted for the shape of MNIST."""
    encoding, cycles = measured(device, np.dtype(np.uint8), 4, SETS)
    epochs = predict(encoding.geometry, EPOCHS, False).cycles
    table = [["data", "sets at a time", "encoding", "20 epochs", "together over epochs"]]
    name, sets = f"random, {ROWS} x {FEATURES}, simulated", str(CONFIG.encoder)
    table.append([name, sets, f"{cycles:,}", f"{epochs:,}", f"{(cycles + epochs) / epochs:.3f}"])
    geometry = replace(encoding.geometry, rows=MNIST[0], features=MNIST[1])
    epochs = predict(geometry, EPOCHS, False).cycles
    for at_a_time in (1, 2, 4, 8):
        cycles = predicted(replace(encoding, geometry=geometry), at_a_time)
        ratio = f"{(cycles + epochs) / epochs:.3f}"
        table.append(["MNIST, predicted", str(at_a_time), f"{cycles:,}", f"{epochs:,}", ratio])
    return table


def main() -> int:
    """Print both tables."""
    with RtlDevice(CONFIG, CAPACITY) as device:
        print(align_columns(bandwidth(device, CONFIG)), end="\n\n")
        print(align_columns(with_epochs(device)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare residuals in float32 and in bfloat16 by the losses of trainings.

    python -m bitlane.studies.compression.residual_dtype            a perceptron on MNIST, 4 ranks, 3 seeds
    python -m bitlane.studies.compression.residual_dtype --images fashion_mnist --epochs 2

The loss is the mean over the last tenth of the steps, in nats; the accuracy that of held-out images. Both trainings of
a seed have the same weights and batches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.compress.collectives.residuals import RESIDUAL_DTYPES
from bitlane.compress.registry import parse_compressor
from bitlane.compress.training.experiment import NetworkTraining, train
from bitlane.compress.training.images import Images, load_images
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns

RATE = 0.01  # at 0.05 EFSign does not learn with a momentum of 0.9, with either type
COMPRESSORS = (
    "qsgd:bits=2,error_feedback=True",
    "efsign",
    "topk:density=0.01",
    "topk:density=0.001",
    "micro:density=0.01",
)


@dataclass(frozen=True)
class DtypeTrial:
    """The end of one training: mean cross-entropy of the last tenth of the steps, and held-out accuracy."""

    loss: float
    accuracy: float


def trial(training: NetworkTraining, compress: str, residual_dtype: str, images: Images) -> DtypeTrial:
    """Train with a compressor, as text without a `residual_dtype`, and residuals of this type."""
    compressor = parse_compressor(f"{compress}{',' if ':' in compress else ':'}residual_dtype={residual_dtype}")
    history = train(training, compressor, images)
    return DtypeTrial(float(history.losses[-max(1, len(history.losses) // 10) :].mean()), history.accuracy)


def table(found: dict[str, dict[str, list[DtypeTrial]]]) -> str:
    """Format the trials of all seeds for each compressor and type, as means."""
    rows = [["compressor", *(f"{name} {dtype}" for dtype in RESIDUAL_DTYPES for name in ("loss", "accuracy"))]]
    for compress, trials in found.items():
        cells = []
        for dtype in RESIDUAL_DTYPES:
            cells.append(f"{np.mean([each.loss for each in trials[dtype]]):.4f}")
            cells.append(f"{np.mean([each.accuracy for each in trials[dtype]]):.4f}")
        rows.append([compress, *cells])
    return align_columns(rows, left=1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane.studies.compression.residual_dtype", description=_SUMMARY)
    parser.add_argument("--images", default="mnist", help="data set (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the images (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (default: %(default)s)")
    arguments = parser.parse_args(argv)
    images = load_images(arguments.images)
    found: dict[str, dict[str, list[DtypeTrial]]] = {}
    for compress in COMPRESSORS:
        found[compress] = {dtype: [] for dtype in RESIDUAL_DTYPES}
        for seed in range(arguments.seeds):
            training = NetworkTraining("perceptron", epochs=arguments.epochs, rate=RATE, seed=seed)
            for dtype, trials in found[compress].items():
                trials.append(trial(training, compress, dtype, images))
    print(table(found))
    return 0


_SUMMARY = "Compare residuals in float32 and in bfloat16 by the losses of trainings."

if __name__ == "__main__":
    try:
        sys.exit(main())
    except BitlaneError as error:
        sys.exit(f"error: {error}")

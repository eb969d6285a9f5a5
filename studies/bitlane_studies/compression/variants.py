"""Compare ways to run a compressor by the losses of trainings: residuals in bfloat16, and the gradient in segments.

    python -m bitlane_studies.compression.variants            a perceptron on MNIST, 4 ranks, 3 seeds
    python -m bitlane_studies.compression.variants topk micro --images fashion_mnist --network convolutional

Segments are adjacent parameters, averaged each for itself as with `attach(..., overlap=True)`: here two, of which the
first has 65,536 values or more. A sparse compressor divides the number of values that it sends between them by what
the last steps had above a common threshold, or, in the way "equal density", by their lengths. The loss is the mean
over the last tenth of the steps, in nats; the accuracy that of held-out images. All trainings of a seed have the same
weights and batches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from bitlane.compress.collectives.cost_model import AlphaBetaModel
from bitlane.compress.collectives.link import Link
from bitlane.compress.compressor import Compressor, Layout
from bitlane.compress.registry import parse_compressor
from bitlane.compress.segments import Segmented, SegmentedReducer
from bitlane.compress.training.experiment import NetworkTraining, train
from bitlane.compress.training.images import Images, load_images
from bitlane.support.text import align_columns

from ..command import run

RATE = 0.01  # at 0.05 EFSign does not learn with a momentum of 0.9, with either type
COMPRESSORS = (
    "qsgd:bits=2,error_feedback=True",
    "efsign",
    "topk:density=0.01",
    "topk:density=0.001",
    "micro:density=0.01",
)
SEGMENT_VALUES = 1 << 16


class EqualDensity(Segmented):
    """Segments that each send the same share of their values, in every step."""

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> SegmentedReducer:
        """Return a reducer whose shares stay at the lengths of its segments."""
        reducer = super().reducer(layout, link, model, device)
        reducer.end_step = lambda: None  # type: ignore[method-assign]
        return reducer


WAYS: dict[str, Callable[[Compressor], Compressor]] = {
    "float32": lambda compressor: compressor,
    "bfloat16": lambda compressor: replace(compressor, residual_dtype="bfloat16"),  # type: ignore[type-var]
    "segments": lambda compressor: Segmented(compressor, SEGMENT_VALUES),
    "equal density": lambda compressor: EqualDensity(compressor, SEGMENT_VALUES),
}


@dataclass(frozen=True)
class VariantTrial:
    """The end of one training: mean cross-entropy of the last tenth of the steps, and held-out accuracy."""

    loss: float
    accuracy: float


def trial(training: NetworkTraining, compress: str, way: str, images: Images) -> VariantTrial:
    """Train with a compressor, as text, in one of `WAYS`."""
    history = train(training, WAYS[way](parse_compressor(compress)), images)
    return VariantTrial(float(history.losses[-max(1, len(history.losses) // 10) :].mean()), history.accuracy)


def table(trials_of: dict[str, dict[str, list[VariantTrial]]]) -> str:
    """Format the trials of all seeds for each compressor and way, as means."""
    rows = [["compressor", *(f"{name} {way}" for way in WAYS for name in ("loss", "accuracy"))]]
    for compress, trials in trials_of.items():
        cells = []
        for way in WAYS:
            cells.append(f"{np.mean([each.loss for each in trials[way]]):.4f}")
            cells.append(f"{np.mean([each.accuracy for each in trials[way]]):.4f}")
        rows.append([compress, *cells])
    return align_columns(rows, left=1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.compression.variants", description=_SUMMARY)
    parser.add_argument("compressors", nargs="*", help="compressors, as text (default: five)", default=COMPRESSORS)
    parser.add_argument("--images", default="mnist", help="data set (default: %(default)s)")
    parser.add_argument("--network", default="perceptron", help="kind of network (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=RATE, help="learning rate at the start (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the images (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (default: %(default)s)")
    arguments = parser.parse_args(argv)
    images = load_images(arguments.images)
    trials_of: dict[str, dict[str, list[VariantTrial]]] = {}
    for compress in arguments.compressors:
        trials_of[compress] = {way: [] for way in WAYS}
        for seed in range(arguments.seeds):
            training = NetworkTraining(arguments.network, epochs=arguments.epochs, rate=arguments.rate, seed=seed)
            for way, trials in trials_of[compress].items():
                trials.append(trial(training, compress, way, images))
    print(table(trials_of))
    return 0


_SUMMARY = "Compare ways to run a compressor by the losses of trainings."

if __name__ == "__main__":
    run(main)

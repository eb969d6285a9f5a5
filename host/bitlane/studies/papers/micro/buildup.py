"""Gradient build-up: how many values are averaged where every rank chooses for itself (MiCRO, section IV)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.micro import MiCRO
from bitlane.compress.compressors.topk import TopK
from bitlane.compress.training.experiment import NetworkTraining

from ..claim import Claim, Log, Verdict, markdown_table, spread
from .sizes import MicroSize
from .watch import first_images, train_and_watch_density

DENSITY = 0.01
RANKS = (1, 2, 4, 8)
BATCH = 8
CHOICES: Mapping[str, Compressor] = {"top-k": TopK(DENSITY), "MiCRO": MiCRO(DENSITY)}
COLOURS = {"top-k": "#D55E00", "MiCRO": "#0072B2"}
ABOUT_ONE = 0.01  # what a density may be off, over the one asked for, by rounding and by sums that are 0

Found = Mapping[str, NDArray[np.float64]]  # density over the one asked for: float64 [seeds, numbers of ranks]


def measure(size: MicroSize, say: Log) -> Claim:
    """Top-k and MiCRO on the same training, with more and more ranks."""
    found = {name: np.zeros((size.seeds, len(RANKS))) for name in CHOICES}
    for name, compressor in CHOICES.items():
        for place, ranks in enumerate(RANKS):
            say(f"build-up: {name}, {ranks} ranks")
            images = first_images(size.watched * ranks * BATCH)
            for seed in range(size.seeds):
                _, densities = train_and_watch_density(
                    NetworkTraining(ranks=ranks, batch=BATCH, seed=seed), compressor, images
                )
                found[name][seed, place] = densities.mean() / DENSITY
    return judge(found)


def judge(found: Found) -> Claim:
    """Held where MiCRO's density is the one asked for, and top-k's is more than that, and rises with the ranks."""
    flat = np.abs(found["MiCRO"] - 1).max() <= ABOUT_ONE
    rises = (np.diff(found["top-k"].mean(axis=0)) > 0).all()
    verdict = Verdict.HELD if flat and rises else Verdict.PARTLY if flat or rises else Verdict.FAILED
    rows = [[name, *(spread(list(column), 3) for column in columns.T)] for name, columns in found.items()]
    most = found["top-k"].mean(axis=0)[-1]
    return Claim(
        name="buildup",
        title="Exclusive parts, no build-up",
        paper='Section IV: "exclusive gradient selection enables nonoverlapping selected gradients", so that "gradient '
        'build-up never occurs".',
        measured=f"Values averaged in a step over those asked for ({DENSITY:.0%} of all), mean over the steps of a "
        f"training, mean and deviation of {len(found['MiCRO'])} seeds:\n\n"
        + markdown_table(["", *(f"{ranks} ranks" if ranks > 1 else "1 rank" for ranks in RANKS)], rows),
        verdict=verdict,
        reason=f"With {RANKS[-1]} ranks top-k averages {most:.2f} times the values that it was asked for, MiCRO "
        f"{found['MiCRO'].mean(axis=0)[-1]:.2f} times.",
        differs=(
            f"A small convolutional network on MNIST, batches of {BATCH} a rank, ranks as threads; the paper's are "
            "larger networks on up to 32 GPUs.",
        ),
        draw=lambda figure: _draw(figure, found),
    )


def _draw(figure: Any, found: Found) -> None:
    figure.set_size_inches(5.5, 3.6)
    axes = figure.subplots()
    for name, densities in found.items():
        axes.errorbar(RANKS, densities.mean(axis=0), densities.std(axis=0), fmt="o-", color=COLOURS[name], label=name)
    axes.set(xlabel="ranks", ylabel="values averaged / asked for", xticks=RANKS, ylim=(0, None))
    axes.grid(True, color="#E6E6E6", linewidth=0.7)
    axes.legend(frameon=False)

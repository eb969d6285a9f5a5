"""Gradient build-up: the number of averaged values if ranks select independently (MiCRO, section IV)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.micro import MiCRO
from bitlane.compress.compressors.topk import TopK
from bitlane.compress.training.experiment import NetworkTraining

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .sizes import MicroSize
from .watch import first_images, train_and_watch_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DENSITY = 0.01
RANKS = (1, 2, 4, 8)
BATCH = 8
CHOICES: Mapping[str, Compressor] = {"top-k": TopK(DENSITY), "MiCRO": MiCRO(DENSITY)}
COLOURS = {"top-k": "#D55E00", "MiCRO": "#0072B2"}
TOLERANCE = 0.01  # allowed relative deviation of the density, for rounding and for sums that are 0

Densities = Mapping[str, NDArray[np.float64]]  # relative to the requested one: float64 [seeds, numbers of ranks]


def measure(size: MicroSize, log: Log) -> Claim:
    """Train with top-k and with MiCRO on increasing numbers of ranks."""
    relative = {name: np.zeros((size.seeds, len(RANKS))) for name in CHOICES}
    for name, compressor in CHOICES.items():
        for index, ranks in enumerate(RANKS):
            log(f"build-up: {name}, {ranks} ranks")
            images = first_images(size.watched * ranks * BATCH)
            for seed in range(size.seeds):
                _, densities = train_and_watch_density(
                    NetworkTraining(ranks=ranks, batch=BATCH, seed=seed), compressor, images
                )
                relative[name][seed, index] = densities.mean() / DENSITY
    return judge(relative)


def judge(relative: Densities) -> Claim:
    """Return the verdict: held if MiCRO's density is as requested and that of top-k grows with the ranks."""
    flat = np.abs(relative["MiCRO"] - 1).max() <= TOLERANCE
    rises = (np.diff(relative["top-k"].mean(axis=0)) > 0).all()
    verdict = ClaimVerdict.HELD if flat and rises else ClaimVerdict.PARTLY if flat or rises else ClaimVerdict.FAILED
    rows = [[name, *(spread(list(column), 3) for column in columns.T)] for name, columns in relative.items()]
    most = relative["top-k"].mean(axis=0)[-1]
    return Claim(
        name="buildup",
        title="Exclusive parts avoid build-up",
        paper='Section IV: "exclusive gradient selection enables nonoverlapping selected gradients", so that "gradient '
        'build-up never occurs".',
        measured=f"Values averaged in a step relative to the requested number ({DENSITY:.0%} of all), mean over the "
        f"steps of a training, mean and standard deviation of {len(relative['MiCRO'])} seeds:\n\n"
        + markdown_table(["", *(f"{ranks} ranks" if ranks > 1 else "1 rank" for ranks in RANKS)], rows),
        verdict=verdict,
        reason=f"With {RANKS[-1]} ranks top-k averages {most:.2f} times the requested number of values, and MiCRO "
        f"{relative['MiCRO'].mean(axis=0)[-1]:.2f} times.",
        differs=(
            f"We train a small convolutional network on MNIST, with a batch of {BATCH} per rank and ranks as threads. "
            "The paper trains larger networks on up to 32 GPUs.",
        ),
        plot=lambda figure: _plot(figure, relative),
    )


def _plot(figure: Figure, relative: Densities) -> None:
    figure.set_size_inches(5.5, 3.6)
    axes = figure.subplots()
    for name, densities in relative.items():
        axes.errorbar(RANKS, densities.mean(axis=0), densities.std(axis=0), fmt="o-", color=COLOURS[name], label=name)
    axes.set(xlabel="ranks", ylabel="averaged / requested values", xticks=RANKS, ylim=(0, None))
    axes.grid(True, color="#E6E6E6", linewidth=0.7)
    axes.legend(frameon=False)

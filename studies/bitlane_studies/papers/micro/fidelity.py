"""Training with MiCRO, top-k, DGC and no compression, at equal density (MiCRO, section IV)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dgc import DGC
from bitlane.compress.compressors.micro import MiCRO
from bitlane.compress.compressors.topk import TopK
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, train
from bitlane.compress.training.images import Images

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .sizes import MicroSize
from .watch import first_images, train_and_watch_density

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKS, BATCH, RATE, MOMENTUM = 4, 32, 0.05, 0.9
DENSITIES = (0.01, 0.001)
POINTS = 0.01  # largest deficit in accuracy compared with no compression
LAST = 20  # steps whose mean loss is the final loss
COLOURS = ("#000000", "#D55E00", "#E69F00", "#0072B2", "#999999")


@dataclass(frozen=True)
class CompressorRuns:
    """The trainings of one compressor, one for each seed; densities: mean over steps, float64 [seeds]."""

    name: str
    density: float
    histories: Sequence[TrainingHistory]
    densities: NDArray[np.float64]

    @property
    def accuracies(self) -> list[float]:
        return [history.accuracy for history in self.histories]


def compressors(density: float) -> Mapping[str, Compressor]:
    """Return the compressors that are compared at a density; DGC applies the momentum."""
    return {
        "top-k": TopK(density),
        "DGC": DGC(density, MOMENTUM),
        "MiCRO": MiCRO(density),
        "MiCRO, published scaling": MiCRO(density, "published"),
    }


def measure(size: MicroSize, log: Log) -> Claim:
    """Train with each compressor on the same images and batches, with the learning rate for float32."""
    images = first_images(size.images)
    trainings = [_runs("none", 1.0, None, images, size, log)]
    for density in DENSITIES:
        for name, compressor in compressors(density).items():
            trainings.append(_runs(name, density, compressor, images, size, log))
    return judge(trainings)


def _runs(
    name: str, density: float, compressor: Compressor | None, images: Images, size: MicroSize, log: Log
) -> CompressorRuns:
    histories, densities = [], []
    for seed in range(size.seeds):
        log(f"fidelity: {name}, density {density:g}, seed {seed}")
        momentum = 0.0 if isinstance(compressor, DGC) else MOMENTUM
        training = NetworkTraining("convolutional", RANKS, BATCH, size.epochs, RATE, momentum, seed)
        if compressor is None:
            histories.append(train(training, None, images))
            densities.append(1.0)
        else:
            history, each = train_and_watch_density(training, compressor, images)
            histories.append(history)
            densities.append(float(each.mean()))
    return CompressorRuns(name, density, histories, np.array(densities))


def judge(trainings: Sequence[CompressorRuns]) -> Claim:
    """Return the verdict: held if MiCRO is within `POINTS` of no compression at every density."""
    full = float(np.mean(trainings[0].accuracies))
    below = {runs.density: full - float(np.mean(runs.accuracies)) for runs in trainings if runs.name == "MiCRO"}
    held = [each <= POINTS for each in below.values()]
    verdict = ClaimVerdict.HELD if all(held) else ClaimVerdict.PARTLY if any(held) else ClaimVerdict.FAILED
    summary = "; ".join(f"density {density:g}: {100 * each:.2f} points" for density, each in below.items())
    return Claim(
        name="fidelity",
        title="Accuracy of training",
        paper='Section IV: MiCRO "prevents loss of model fidelity", because every worker selects values in every step '
        "by the magnitude of its accumulated gradient.",
        measured=f"{RANKS} ranks, batches of {BATCH}, {len(trainings[0].histories[0].losses)} steps of SGD, mean and "
        f"standard deviation of {len(trainings[0].histories)} seeds. Density: that of the averages, mean over steps. "
        "Volume: bytes relative to ring all-reduce in float32. Final loss: mean cross-entropy of the last "
        f"{LAST} steps, in nats.\n\n"
        + markdown_table(
            ["compressor", "requested", "density", "volume", "final loss", "held-out accuracy"],
            [_row(runs) for runs in trainings],
        ),
        verdict=verdict,
        reason=f"Deficit of MiCRO in accuracy compared with no compression: {summary}.",
        differs=(
            "We train a small convolutional network on MNIST with few steps and ranks as threads. The momentum is that "
            "of the optimizer, or of DGC.",
            "At the same requested density, n ranks average up to n times as many values with top-k and DGC. The "
            "density of the published scaling depends on its threshold. The table has the actual densities.",
        ),
        plot=lambda figure: _plot(figure, trainings),
    )


def _row(runs: CompressorRuns) -> list[str]:
    return [
        runs.name,
        f"{runs.density:g}",
        f"{runs.densities.mean():.4f}",
        f"{np.mean([history.volume for history in runs.histories]):.4f}",
        spread([float(history.losses[-LAST:].mean()) for history in runs.histories], 3),
        spread(runs.accuracies),
    ]


def _plot(figure: Figure, trainings: Sequence[CompressorRuns]) -> None:
    """Plot the loss over steps, with a panel for each density; points are means over seeds and several steps."""
    figure.set_size_inches(9.0, 3.6)
    for axes, density in zip(figure.subplots(1, len(DENSITIES), sharey=True), DENSITIES, strict=True):
        here = [trainings[0], *(runs for runs in trainings if runs.density == density)]
        for runs, colour in zip(here, COLOURS, strict=True):
            losses = np.mean([history.losses for history in runs.histories], axis=0)
            each = max(1, len(losses) // 40)
            means = losses[: len(losses) // each * each].reshape(-1, each).mean(axis=1)
            axes.plot(each * np.arange(1, len(means) + 1), means, color=colour, linewidth=1.2, label=runs.name)
        axes.set(yscale="log", xlabel="step", ylabel="loss", title=f"density {density:g}")
        axes.grid(True, color="#E6E6E6", linewidth=0.7)
    axes.legend(frameon=False, fontsize=8)

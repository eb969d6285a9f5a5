"""Training with MiCRO beside top-k, DGC and no compression, at equal density (MiCRO, section IV)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dgc import DGC
from bitlane.compress.compressors.micro import MiCRO
from bitlane.compress.compressors.topk import TopK
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, train
from bitlane.compress.training.images import Images

from ..claim import Claim, Log, Verdict, markdown_table, spread
from .sizes import MicroSize
from .watch import first_images, train_and_watch_density

RANKS, BATCH, RATE, MOMENTUM = 4, 32, 0.05, 0.9
DENSITIES = (0.01, 0.001)
POINTS = 0.01  # of accuracy, below no compression
LAST = 20  # steps whose mean loss counts as the last
COLOURS = ("#000000", "#D55E00", "#E69F00", "#0072B2", "#999999")


@dataclass(frozen=True)
class CompressorRuns:
    """Trainings of one compressor, one a seed; densities: mean over steps, float64 [seeds]."""

    name: str
    density: float
    histories: Sequence[TrainingHistory]
    densities: NDArray[np.float64]

    @property
    def accuracies(self) -> list[float]:
        return [history.accuracy for history in self.histories]


def compressors(density: float) -> Mapping[str, Compressor]:
    """What is compared at a density. DGC has the momentum itself."""
    return {
        "top-k": TopK(density),
        "DGC": DGC(density, MOMENTUM),
        "MiCRO": MiCRO(density),
        "MiCRO, published scaling": MiCRO(density, "published"),
    }


def measure(size: MicroSize, say: Log) -> Claim:
    """The same network, images and batches for each; the rate is that which suits float32."""
    images = first_images(size.images)
    found = [_runs("none", 1.0, None, images, size, say)]
    for density in DENSITIES:
        for name, compressor in compressors(density).items():
            found.append(_runs(name, density, compressor, images, size, say))
    return judge(found)


def _runs(
    name: str, density: float, compressor: Compressor | None, images: Images, size: MicroSize, say: Log
) -> CompressorRuns:
    histories, densities = [], []
    for seed in range(size.seeds):
        say(f"fidelity: {name}, density {density:g}, seed {seed}")
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


def judge(found: Sequence[CompressorRuns]) -> Claim:
    """Held where MiCRO is within `POINTS` of no compression at every density."""
    full = float(np.mean(found[0].accuracies))
    below = {runs.density: full - float(np.mean(runs.accuracies)) for runs in found if runs.name == "MiCRO"}
    held = [each <= POINTS for each in below.values()]
    verdict = Verdict.HELD if all(held) else Verdict.PARTLY if any(held) else Verdict.FAILED
    said = "; ".join(f"density {density:g}: {100 * each:.2f} points" for density, each in below.items())
    return Claim(
        name="fidelity",
        title="Accuracy of training",
        paper='Section IV: MiCRO "prevents loss of model fidelity", as every worker chooses in every step, by the '
        "magnitude of what it holds.",
        measured=f"{RANKS} ranks, batches of {BATCH}, {len(found[0].histories[0].losses)} steps of SGD, mean and "
        f"deviation of {len(found[0].histories)} seeds. Density: of the averages, mean over steps; volume: bytes over "
        f"those of ring all-reduce of float32; last loss: mean cross-entropy of the last {LAST} steps, in nats.\n\n"
        + markdown_table(
            ["compressor", "asked for", "density", "volume", "last loss", "held-out accuracy"],
            [_row(runs) for runs in found],
        ),
        verdict=verdict,
        reason=f"Below no compression MiCRO ends by {said}.",
        differs=(
            "A small convolutional network on MNIST, few steps, ranks as threads; the optimiser's momentum, or DGC's.",
            "At equal density top-k and DGC average up to as many times the values as there are ranks, and the "
            "published scaling whatever its threshold lets through: the densities are in the table.",
        ),
        draw=lambda figure: _draw(figure, found),
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


def _draw(figure: Any, found: Sequence[CompressorRuns]) -> None:
    """Loss over steps, a panel a density, mean of the seeds, each point a mean of several steps."""
    figure.set_size_inches(9.0, 3.6)
    for axes, density in zip(figure.subplots(1, len(DENSITIES), sharey=True), DENSITIES, strict=True):
        here = [found[0], *(runs for runs in found if runs.density == density)]
        for runs, colour in zip(here, COLOURS, strict=True):
            losses = np.mean([history.losses for history in runs.histories], axis=0)
            each = max(1, len(losses) // 40)
            means = losses[: len(losses) // each * each].reshape(-1, each).mean(axis=1)
            axes.plot(each * np.arange(1, len(means) + 1), means, color=colour, linewidth=1.2, label=runs.name)
        axes.set(yscale="log", xlabel="step", ylabel="loss", title=f"density {density:g}")
        axes.grid(True, color="#E6E6E6", linewidth=0.7)
    axes.legend(frameon=False, fontsize=8)

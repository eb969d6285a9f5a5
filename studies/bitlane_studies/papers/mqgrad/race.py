"""Time to a loss on slow links: MQGrad, fixed bits and Adaptive (MQGrad, section 4.2, figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.training.experiment import NetworkTraining, TrainingHistory, train
from bitlane.compress.training.images import Images, load_images
from bitlane.policies.adaptive import Adaptive
from bitlane.policies.mqgrad import MQGrad
from bitlane.policies.protocol import BitPolicy, FixedBits

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .pace import BATCH, RANKS, StepTimes, measure_step_times
from .sizes import MQGradSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIVALS: Sequence[tuple[str, BitPolicy]] = (
    *((f"{bits} bits", FixedBits(bits)) for bits in (2, 4, 8)),
    ("Adaptive", Adaptive()),
)
WINDOW = 20  # steps over which losses are averaged
WITHIN = 1.05  # ratio of the target to the lowest loss with 8 bits
RATE = 0.05


@dataclass(frozen=True)
class LinkRace:
    """The trainings on one link: a history for each policy and seed, MQGrad last."""

    pace: StepTimes
    names: Sequence[str]
    histories: Sequence[Sequence[TrainingHistory]]

    def targets(self) -> list[float]:
        """Return the target loss of each seed."""
        return [WITHIN * float(smooth(history).min()) for history in self.histories[self.names.index("8 bits")]]

    def times(self, index: int) -> list[float]:
        """Return the seconds to the target for each seed; infinite if it is not reached."""
        return [
            seconds_to(target, history, self.pace)
            for target, history in zip(self.targets(), self.histories[index], strict=True)
        ]

    def best(self) -> int:
        """Return the index of the other policy with the shortest mean time."""
        return min(range(len(self.names) - 1), key=lambda index: float(np.mean(self.times(index))))

    @property
    def ratio(self) -> float:
        """Mean time of MQGrad divided by that of the best other policy."""
        return float(np.mean(self.times(-1))) / float(np.mean(self.times(self.best())))


def smooth(history: TrainingHistory) -> NDArray[np.float64]:
    """Return moving means of the losses over `WINDOW` steps."""
    return np.convolve(history.losses, np.ones(WINDOW) / WINDOW, "valid")


def elapsed_seconds(history: TrainingHistory, pace: StepTimes) -> NDArray[np.float64]:
    """Return the seconds from the start of the training to the end of each step, float64 [steps]."""
    return np.cumsum([pace.seconds(bits) for bits in history.step_bits.tolist()])


def seconds_to(target: float, history: TrainingHistory, pace: StepTimes) -> float:
    """Return the seconds until the moving mean is at most `target`; infinite if it never is."""
    reached = np.flatnonzero(smooth(history) <= target)
    return float(elapsed_seconds(history, pace)[reached[0] + WINDOW - 1]) if len(reached) else np.inf


def measure(size: MQGradSize, log: Log) -> Claim:
    """Train with all policies from the same weights, with the same images, on every link."""
    paces = measure_step_times(size.network)
    images = _some(load_images("cifar10"), size.steps * RANKS * BATCH)
    seeds = range(size.seeds)

    def run(name: str, policy: BitPolicy, seed: int, pace: StepTimes) -> TrainingHistory:
        log(f"race: {name}, seed {seed}")
        training = NetworkTraining(size.network, RANKS, BATCH, 1, RATE, seed=seed)
        return train(training, QSGD(policy, seed=seed), images, clock=pace.clock)

    rivals = [[run(name, policy, seed, paces[0]) for seed in seeds] for name, policy in RIVALS]
    races = []
    for pace in paces:
        ours = [run(f"MQGrad on {pace.link}", MQGrad(seed=seed), seed, pace) for seed in seeds]
        races.append(LinkRace(pace, [*(name for name, _ in RIVALS), "MQGrad"], [*rivals, ours]))
    return judge(races, size)


def _some(images: Images, count: int) -> Images:
    return Images(images.pixels[:count], images.classes[:count], images.held_out_pixels, images.held_out_classes)


def judge(races: Sequence[LinkRace], size: MQGradSize) -> Claim:
    """Return the verdict on the times."""
    held = [race.ratio <= 1 for race in races]
    verdict = ClaimVerdict.HELD if all(held) else ClaimVerdict.PARTLY if any(held) else ClaimVerdict.FAILED
    summary = "; ".join(
        f"at {race.pace.link} MQGrad takes {race.ratio:.3g} times as long as the best other policy, "
        f"{race.names[race.best()]}"
        for race in races
    )
    return Claim(
        name="race",
        title="Time to a loss on slow links",
        paper='Section 4.2: MQGrad "used less training time to reach smaller loss" than 2, 4 and 8 bits and Adaptive, '
        "with 12 and 18 machines and 10 MB/s.",
        measured=_table(races, size),
        verdict=verdict,
        reason=f"Time to the target: {summary}.",
        differs=(
            f"We use {RANKS} ranks with {BATCH} images each, and a network a third as wide. The learning rate "
            f"decreases from {RATE:g} to 0, with momentum 0.9 and without weight decay.",
            "The times are not those of a cluster: computing and coding are measured on one thread, and sending "
            "follows from the bandwidth and latency of the link.",
            "Ranks average without a server. All values are quantized without bias, in groups of 512.",
            "`bitlane.policies.mqgrad` lists our decisions on points that the paper leaves open.",
        ),
        plot=lambda figure: _plot(figure, races),
    )


def _table(races: Sequence[LinkRace], size: MQGradSize) -> str:
    headings, rows = ["", *(f"{race.pace.link}: s" for race in races), "mean bits", "final loss", "accuracy"], []
    for index, name in enumerate(races[0].names):
        times = [_seconds(race.times(index)) for race in races]
        own = [history for race in races for history in race.histories[index]]
        rows.append(
            [
                name,
                *times,
                f"{np.mean([history.step_bits.mean() for history in own]):.2f}",
                spread([float(smooth(history)[-1]) for history in own]),
                spread([history.accuracy for history in own], 3),
            ]
        )
    return (
        f"CIFAR-10, {size.network} network, {size.steps} steps, {size.seeds} seeds. The target is a mean loss of "
        f"{WINDOW} steps within {WITHIN - 1:.0%} of the lowest one with 8 bits. Seconds to the target on each link, "
        "mean bits, final loss and accuracy:\n\n"
        + markdown_table(headings, rows)
        + "\n\nMilliseconds of a step:\n\n"
        + _step_table(races)
    )


def _step_table(races: Sequence[LinkRace]) -> str:
    """Format the times of a step: computing, and coding plus sending by bits."""
    widths = (2, 4, 8)
    headings = ["link", "computing", *(f"coding + sending, {bits} bits" for bits in widths)]
    rows = [
        [
            race.pace.link,
            f"{race.pace.compute * 1e3:.1f}",
            *(f"{race.pace.codec[bits] * 1e3:.1f} + {race.pace.sending[bits] * 1e3:.1f}" for bits in widths),
        ]
        for race in races
    ]
    return markdown_table(headings, rows)


def _seconds(times: Sequence[float]) -> str:
    missed = sum(not np.isfinite(each) for each in times)
    return f"not reached by {missed} of {len(times)}" if missed else spread(times, 3)


def _plot(figure: Figure, races: Sequence[LinkRace]) -> None:
    """Plot the loss over time of the first seed, with a panel for each link."""
    figure.set_size_inches(9.0, 3.4)
    for axes, race in zip(figure.subplots(1, len(races), sharey=True, squeeze=False)[0], races, strict=True):
        for name, histories in zip(race.names, race.histories, strict=True):
            history = histories[0]
            seconds = elapsed_seconds(history, race.pace)[WINDOW - 1 :]
            axes.plot(seconds, smooth(history), label=name, linewidth=2 if name == "MQGrad" else 1)
        axes.axhline(race.targets()[0], color="black", linewidth=0.6, linestyle=":")
        axes.set_title(race.pace.link)
        axes.set_xlabel("seconds")
    axes.legend()
    figure.axes[0].set_ylabel("cross-entropy")

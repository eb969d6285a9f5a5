"""A small network on CIFAR-10 with five model levels (ZipML, section 4.3, figure 7b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bitlane.data.cifar10 import load_cifar10
from bitlane.support.optional import require_extra

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .model_levels import CHOICES, LEVELS, on_levels
from .sizes import ZipMLSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

NAMES = {"full": "full precision", "uniform": "five uniform (XNOR5)", "optimal": "five optimal (Optimal5)"}
COLOURS = {"full": "#000000", "uniform": "#D55E00", "optimal": "#0072B2"}
CHANNELS = 16  # of the first layers; 32 in Caffe
SHAPES = (
    (CHANNELS, 3, 5, 5),
    (CHANNELS, CHANNELS, 5, 5),
    (2 * CHANNELS, CHANNELS, 5, 5),
    (2 * CHANNELS, 2 * CHANNELS * 4 * 4),
    (10, 2 * CHANNELS),
)
BATCH = 100
RATE, MOMENTUM = 0.03, 0.9  # the rate decreases linearly to 0; the best of 0.01, 0.03 and 0.1 at full precision
HELD_OUT = 5_000
POINTS = 5.0  # required gain in accuracy, in percentage points, as in the paper


@dataclass(frozen=True)
class NetworkResult:
    """The result of one training.

    Attributes
    ----------
    losses : float64 [epochs]
        Mean cross-entropy during each epoch, in nats.
    accuracy : float
        Share of correctly classified held-out images.
    """

    losses: NDArray[np.float64]
    accuracy: float


def torch_or_error() -> ModuleType:
    """Return torch, set to one thread; raise BitlaneError if it is missing."""
    torch: ModuleType = require_extra("torch", "training a network", "'bitlane[torch]'")
    torch.set_num_threads(1)
    return torch


def measure(size: ZipMLSize, log: Log) -> Claim:
    """Train with full precision, uniform and optimal levels from the same initial weights and batches."""
    images, labels = load_cifar10()
    trainings: dict[str, list[NetworkResult]] = {choice: [] for choice in CHOICES}
    for seed in range(size.seeds):
        order = np.random.default_rng(seed).permutation(len(images))
        splits = order[HELD_OUT : HELD_OUT + size.images], order[:HELD_OUT]
        seen, held_out = ((images[split], labels[split]) for split in splits)
        for choice in CHOICES:
            log(f"CIFAR-10: {NAMES[choice]}, seed {seed + 1} of {size.seeds}")
            trainings[choice].append(train_network(seen, held_out, choice, size.image_epochs, seed))
    return judge(trainings, size.images)


LabelledImages = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # [n, 3, 32, 32], and their classes [n]


def train_network(seen: LabelledImages, held_out: LabelledImages, choice: str, epochs: int, seed: int) -> NetworkResult:
    """Train with weights rounded to the levels of `choice` in forward and backward pass; master weights are float32.

    The levels of each layer are computed again for every batch, and the gradient passes the rounding unchanged
    (straight-through), as in XNOR-Net. Biases have full precision. Held-out images are classified with rounded weights.
    """
    torch = torch_or_error()
    rng = np.random.default_rng(seed)
    weights = [
        torch.tensor(rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape), dtype=torch.float32, requires_grad=True)
        for shape in SHAPES
    ]
    biases = [torch.zeros(shape[0], requires_grad=True) for shape in SHAPES]
    steps = epochs * -(-len(seen[0]) // BATCH)
    optimizer = torch.optim.SGD([*weights, *biases], lr=RATE, momentum=MOMENTUM)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    mean, deviation = (np.float32(value) for value in (seen[0].mean(), seen[0].std()))

    def scores(images: NDArray[np.uint8]) -> Tensor:
        pixels = torch.from_numpy((images - mean) / deviation).contiguous(memory_format=torch.channels_last)
        return _network(torch, pixels, [_rounded(torch, each, choice) for each in weights], biases)

    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in np.array_split(rng.permutation(len(seen[0])), steps // epochs):
            labels = torch.from_numpy(seen[1][batch].astype(np.int64))
            loss = torch.nn.functional.cross_entropy(scores(seen[0][batch]), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * len(batch)
        losses.append(total / len(seen[0]))
    right = 0
    with torch.no_grad():
        for start in range(0, len(held_out[0]), BATCH):
            rows = slice(start, start + BATCH)
            right += int((scores(held_out[0][rows]).argmax(1).numpy() == held_out[1][rows]).sum())
    return NetworkResult(np.array(losses), right / len(held_out[0]))


def _rounded(torch: ModuleType, weights: Tensor, choice: str) -> Tensor:
    """Return the weights rounded to their levels, with a straight-through gradient."""
    rounded: Tensor = torch.from_numpy(on_levels(weights.detach().numpy(), choice))
    return weights + (rounded - weights).detach()


def _network(torch: ModuleType, pixels: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Compute the network of Caffe's CIFAR-10 quick: three 5 x 5 convolutions with pooling, and two dense layers."""
    f = torch.nn.functional
    pool = {"kernel_size": 3, "stride": 2, "ceil_mode": True}
    x = f.relu(f.max_pool2d(f.conv2d(pixels, weights[0], biases[0], padding=2), **pool))
    x = f.avg_pool2d(f.relu(f.conv2d(x, weights[1], biases[1], padding=2)), **pool)
    x = f.avg_pool2d(f.relu(f.conv2d(x, weights[2], biases[2], padding=2)), **pool)
    outputs: Tensor = f.linear(f.linear(x.flatten(1), weights[3], biases[3]), weights[4], biases[4])
    return outputs


def judge(trainings: Mapping[str, Sequence[NetworkResult]], images: int) -> Claim:
    """Return the verdict on the trainings."""
    loss = {choice: float(np.mean([each.losses[-1] for each in trainings[choice]])) for choice in CHOICES}
    accuracy = {choice: 100 * float(np.mean([each.accuracy for each in trainings[choice]])) for choice in CHOICES}
    points = accuracy["optimal"] - accuracy["uniform"]
    pairs = zip(trainings["optimal"], trainings["uniform"], strict=True)
    each_seed = ", ".join(f"{100 * (one.accuracy - other.accuracy):+.1f}" for one, other in pairs)
    lower = loss["optimal"] < loss["uniform"]
    verdict = (
        ClaimVerdict.HELD
        if lower and points > POINTS
        else ClaimVerdict.PARTLY
        if lower and points > 0
        else ClaimVerdict.FAILED
    )
    rows = [
        [
            NAMES[choice],
            spread([each.losses[-1] for each in trainings[choice]]),
            spread([100 * each.accuracy for each in trainings[choice]]),
            ", ".join(f"{100 * each.accuracy:.1f}" for each in trainings[choice]),
        ]
        for choice in CHOICES
    ]
    epochs = len(trainings["full"][0].losses)
    return Claim(
        name="network",
        title="A network with five model levels",
        paper="Section 4.3, on Caffe's CIFAR-10 tutorial: \"Optimal5 converges to a significantly lower training loss "
        'compared with XNOR5. Also, Optimal5 achieves >5 points higher testing accuracy over XNOR5."',
        measured=f"CIFAR-10, {images:,} training images, {epochs} epoch(s) with batch size {BATCH}, momentum "
        f"{MOMENTUM}, learning rate {RATE} decreasing linearly to 0; {HELD_OUT:,} of the training images are held out; "
        f"mean and standard deviation of {len(trainings['full'])} seeds. Each weight is rounded to the nearest of the "
        "five levels of its layer, which are computed again for each batch; biases and master weights are float32.\n\n"
        + markdown_table(["weights", "training loss, last epoch", "held-out accuracy, %", "of each seed"], rows),
        verdict=verdict,
        reason=f"The final training loss is {loss['optimal']:.3f} with optimal levels and {loss['uniform']:.3f} with "
        f"uniform levels. Optimal levels change the held-out accuracy by {points:+.1f} points (by seed: {each_seed}).",
        differs=(
            f"We train Caffe's quick network with half its channels ({CHANNELS}, {CHANNELS}, {2 * CHANNELS}, dense "
            f"{2 * CHANNELS}) for a few epochs, without augmentation, from normally distributed weights.",
            f"Accuracy is measured on {HELD_OUT:,} images held out from the training set, not on the test set.",
            f"XNOR-Net does not quantize its first and last layer. We use {LEVELS} levels in every layer, from its "
            "smallest to its largest weight. Weights are rounded to the nearest level, as in XNOR-Net, although "
            "optimal levels are optimal for stochastic rounding.",
        ),
        plot=lambda figure: _plot(figure, trainings),
    )


def _plot(figure: Figure, trainings: Mapping[str, Sequence[NetworkResult]]) -> None:
    """Plot the training loss of each seed over epochs, and the held-out accuracy."""
    figure.set_size_inches(8.0, 3.4)
    left, right = figure.subplots(1, 2)
    for index, choice in enumerate(CHOICES):
        for number, each in enumerate(trainings[choice]):
            label = NAMES[choice] if number == 0 else None
            left.plot(
                np.arange(1, len(each.losses) + 1), each.losses, "o-", markersize=3, color=COLOURS[choice], label=label
            )
            right.plot(index, 100 * each.accuracy, "o", color=COLOURS[choice])
    epochs = range(1, len(trainings["full"][0].losses) + 1)
    left.set(xlabel="epoch", ylabel="training loss (nats)", xticks=epochs)
    left.legend(frameon=False, fontsize=8)
    right.set(ylabel="held-out accuracy (%)", xticks=range(len(CHOICES)), xlim=(-0.5, len(CHOICES) - 0.5))
    right.set_xticklabels([NAMES[choice].replace(" (", "\n(") for choice in CHOICES], fontsize=8)
    for axes in (left, right):
        axes.grid(True, color="#E6E6E6", linewidth=0.7)

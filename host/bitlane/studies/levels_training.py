"""What optimal levels save in training: `python -m bitlane.studies.levels_training [DATA_SET ...]`.

Trains linear regression (of classes LS-SVM, one against the rest) with uniform levels at 3, 4, 5 and 6 stored bits,
with optimal ones at 3, 4 and 5, and at 32 bits. All share rows, their order, the batch, and the learning rate, which
stays the same in all epochs: what the draws add to the variance of the gradient stays in the final loss, where a
decay would average it out. The rate of a set is, of the suggested one (`suggest_learning_rate`) and its halves, that
which leaves uniform levels with 4 bits the least loss, with another seed than those of the tables.

The final losses are means over the last epochs, as the models do not come to rest: the true loss of each epoch's model
on the unquantized rows, over that of 32 bits with the same seed, which orders the rows; and the estimates that double
sampling makes while it trains. The emulator trains.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.precision import FULL_BITS
from bitlane.data.catalog import find_dataset
from bitlane.data.datasets import load_dataset
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError
from bitlane.evaluation.compare import ComparisonData, one_vs_rest, train_as
from bitlane.evaluation.metrics import constant_loss, least_loss, losses_of
from bitlane.evaluation.schedules import Schedule, suggest_learning_rate
from bitlane.levels.codebooks import choose_precision
from bitlane.quantization.scaling import Floats
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns

DATA_SETS = (
    *("cadata", "cpu_act", "cpusmall", "housing_boston", "millionsong_6719"),
    *("cod-rna", "a9a", "mushrooms", "mnist"),
)
ROWS = 10_000
BATCH = 16
EPOCHS = 20
LAST = 5  # epochs, whose losses are averaged
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEED = 100
HALVINGS = 6
UNIFORM = (3, 4, 5, 6)
OPTIMAL = (3, 4, 5)
NOISE = 2.0  # standard errors of a difference, within which losses are alike

Method = tuple[str, int]
OnTraining = Callable[[], object]
FULL: Method = ("uniform", FULL_BITS)
TUNED: Method = ("uniform", 4)
METHODS: tuple[Method, ...] = (*(("uniform", bits) for bits in UNIFORM), *(("optimal", bits) for bits in OPTIMAL))


@dataclass(frozen=True)
class Final:
    """Final losses [seeds] of a method over those of 32 bits: true ones, and their estimates."""

    true: Floats
    estimate: Floats


@dataclass(frozen=True)
class Measured:
    """A set's trainings. best, constant: losses at 32 bits over the best linear model's, and over a constant's."""

    name: str
    rows: int
    features: int
    rate: float
    best: float
    constant: float
    finals: Mapping[Method, Final]


def data_set(name: str) -> ComparisonData:
    """Some rows in random order; of several classes the first against the rest. DataError where it cannot be had."""
    table = load_dataset(name)
    order = np.random.default_rng(0).permutation(table.rows)[:ROWS]
    y = table.y if find_dataset(name).task == "regression" else one_vs_rest(table.y, None)[0]
    return ComparisonData(table.X[order], y[order])


def final_losses(data: ComparisonData, method: Method, rate: float, seed: int) -> tuple[float, float]:
    """The true loss and its estimate, means over the last epochs."""
    levels, bits = method
    precision = choose_precision(bits, "full" if bits == FULL_BITS else "double", levels)
    schedule = Schedule(epochs=EPOCHS, batch_size=BATCH, learning_rate=rate, seed=seed)
    order = np.random.default_rng(seed).permutation(len(data.y))
    device = EmulatorDevice(AcceleratorConfig(level_slots=precision.level_slots))
    run = train_as(ComparisonData(data.X[order], data.y[order]), precision, schedule, device, levels=levels)
    coef, intercept = run.models()
    true = losses_of(data.X, data.y, coef[-LAST:], intercept[-LAST:], schedule.loss)
    return float(true.mean()), float(run.loss[-LAST:].mean())


def tuned_rate(data: ComparisonData, on_training: OnTraining) -> float:
    """The learning rate at which TUNED ends with the least loss."""
    rates = suggest_learning_rate(data.X, BATCH) * 0.5 ** np.arange(HALVINGS + 1)
    ended = []
    for rate in rates:
        ended.append(final_losses(data, TUNED, float(rate), TUNING_SEED)[0])
        on_training()
    return float(rates[np.argmin(ended)])


def measured(name: str, data: ComparisonData, on_training: OnTraining) -> Measured:
    """All trainings of a set; DataError for one that cannot be trained on."""
    rate = tuned_rate(data, on_training)

    def losses(method: Method) -> Floats:
        found = np.empty((2, len(SEEDS)))
        for at, seed in enumerate(SEEDS):
            found[:, at] = final_losses(data, method, rate, seed)
            on_training()
        return found

    full = losses(FULL)[0]
    return Measured(
        name=name,
        rows=len(data.y),
        features=data.X.shape[1],
        rate=rate,
        best=float(full.mean()) / least_loss(data.X, data.y),
        constant=float(full.mean()) / constant_loss(data.y),
        finals={method: Final(*(losses(method) / full)) for method in METHODS},
    )


def verdict(fewer: Final, more: Final) -> str:
    """How the first true losses are beside the second, seed by seed: lower, alike (within NOISE), or higher."""
    difference = fewer.true - more.true
    mean, noise = float(difference.mean()), NOISE * _error(difference)
    return "alike" if abs(mean) <= noise else "lower" if mean < 0 else "higher"


def verdicts(found: Measured) -> list[str]:
    """On optimal levels beside uniform ones with a bit more, for each number of bits; and with as many bits."""
    finals = found.finals
    pairs = [(bits, bits + more) for more in (1, 0) for bits in OPTIMAL]
    return [verdict(finals["optimal", fewer], finals["uniform", bits]) for fewer, bits in pairs]


def text(sets: Sequence[Measured]) -> Iterator[str]:
    """The tables: true losses, estimates, verdicts."""
    heads = [f"{levels} {bits}" for levels, bits in METHODS]
    cells = [["true loss over 32 bits'", "rate", "32 bits over best", "over constant", *heads]]
    for found in sets:
        shown = [f"{each.true.mean():.4f} ± {_error(each.true):.4f}" for each in found.finals.values()]
        cells.append([found.name, f"{found.rate:.3g}", f"{found.best:.4f}", f"{found.constant:.4f}", *shown])
    yield align_columns(cells)
    cells = [["estimate over 32 bits' loss", *heads]]
    for found in sets:
        shown = [f"{each.estimate.mean():.4f} ± {_error(each.estimate):.4f}" for each in found.finals.values()]
        cells.append([found.name, *shown])
    yield align_columns(cells)
    pairs = [f"{bits}, uniform {bits + more}" for more in (1, 0) for bits in OPTIMAL]
    cells = [["optimal beside uniform", "rows", "features", *pairs]]
    for found in sets:
        cells.append([found.name, f"{found.rows:,}", str(found.features), *verdicts(found)])
    yield align_columns(cells)


def _error(values: Floats) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What optimal levels save in training.")
    parser.add_argument("names", nargs="*", default=list(DATA_SETS), metavar="DATA_SET", help="(all that can be had)")
    names, sets = parser.parse_args().names, []
    trainings = HALVINGS + 1 + (1 + len(METHODS)) * len(SEEDS)
    with (
        warnings.catch_warnings(),
        require_extra("tqdm", "a progress bar").tqdm(
            total=trainings * len(names), unit="training", disable=None
        ) as bar,
    ):
        warnings.simplefilter("ignore", UserWarning)  # constant columns; rates that are too large
        for name in names:
            try:
                sets.append(measured(name, data_set(name), bar.update))
            except DataError as error:
                bar.write(f"{name} left out: {error}")
    print(
        f"up to {ROWS:,} rows, batch {BATCH}, {EPOCHS} epochs, fresh draws, no decay, {len(SEEDS)} seeds: mean ± "
        f"standard error; alike: within {NOISE:g} standard errors of the difference"
    )
    print("\n\n".join(text(sets)))


if __name__ == "__main__":
    main()

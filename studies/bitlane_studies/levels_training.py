"""Measure how many bits optimal levels save in training: `python -m bitlane_studies.levels_training [DATA_SET ...]`.

The study trains linear regression with uniform levels at 3, 4, 5 and 6 stored bits, with optimal levels at 3, 4 and 5
bits, and at 32 bits. For data sets with classes it trains an LS-SVM, the first class against the rest. All trainings of
a data set share the rows, their order, the batch size and a constant learning rate. A decay would average out the
variance that the draws add to the gradient; without it this variance stays visible in the final loss. The learning rate
is `suggest_learning_rate` divided by 1, 2, 4, ... 64: the one with the lowest final loss for uniform levels at 4 bits,
with a seed that the tables do not use.

The models do not converge to a point, so the final losses are means over the last epochs. The tables show two of them:
the true loss of each epoch's model on the unquantized rows, and the loss that double sampling estimates during the
training. Both are divided by the true loss at 32 bits with the same seed, that is with the same order of the rows. The
trainings run on the emulator.
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
from bitlane.evaluation.schedules import TrainingSchedule
from bitlane.levels.codebooks import choose_precision
from bitlane.quantization.scaling import Floats
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane.training.learning_rate import suggest_learning_rate

DATA_SETS = (
    *("cadata", "cpu_act", "cpusmall", "housing_boston", "millionsong_6719"),
    *("cod-rna", "a9a", "mushrooms", "mnist"),
)
ROWS = 10_000
BATCH = 16
EPOCHS = 20
LAST = 5  # the final loss is the mean over this many epochs
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEED = 100
HALVINGS = 6
UNIFORM = (3, 4, 5, 6)
OPTIMAL = (3, 4, 5)
NOISE = 2.0  # losses that differ by at most this many standard errors are alike

Method = tuple[str, int]
OnTraining = Callable[[], object]
FULL: Method = ("uniform", FULL_BITS)
TUNED: Method = ("uniform", 4)
METHODS: tuple[Method, ...] = (*(("uniform", bits) for bits in UNIFORM), *(("optimal", bits) for bits in OPTIMAL))


@dataclass(frozen=True)
class Final:
    """Final losses of a method over the true loss at 32 bits.

    Attributes
    ----------
    true : float64 array of shape (seeds,)
        Loss on the unquantized rows.
    estimate : float64 array of shape (seeds,)
        Loss that double sampling estimates during the training.
    """

    true: Floats
    estimate: Floats


@dataclass(frozen=True)
class LevelsResult:
    """All trainings of a data set.

    Attributes
    ----------
    name : str
    rows, features : int
    rate : float
        Learning rate of all trainings.
    best : float
        Loss at 32 bits over the loss of the best linear model.
    constant : float
        Loss at 32 bits over the loss of the best constant.
    finals : mapping from (levels, bits) to Final
    """

    name: str
    rows: int
    features: int
    rate: float
    best: float
    constant: float
    finals: Mapping[Method, Final]


def data_set(name: str) -> ComparisonData:
    """Load up to ROWS rows in random order; label several classes as the first against the rest.

    Raises
    ------
    DataError
        If the data set is not available.
    """
    table = load_dataset(name)
    order = np.random.default_rng(0).permutation(table.rows)[:ROWS]
    y = table.y if find_dataset(name).task == "regression" else one_vs_rest(table.y, None)[0]
    return ComparisonData(table.X[order], y[order])


def final_losses(data: ComparisonData, method: Method, rate: float, seed: int) -> tuple[float, float]:
    """Train once and return the final loss and its estimate, means over the last epochs.

    Parameters
    ----------
    data : ComparisonData
    method : (str, int)
        Levels and bits.
    rate : float
        Learning rate.
    seed : int
        Seed of the order of the rows and of the draws.

    Returns
    -------
    true, estimate : float
    """
    levels, bits = method
    precision = choose_precision(bits, "full" if bits == FULL_BITS else "double", levels)
    schedule = TrainingSchedule(epochs=EPOCHS, batch_size=BATCH, learning_rate=rate, seed=seed)
    order = np.random.default_rng(seed).permutation(len(data.y))
    device = EmulatorDevice(AcceleratorConfig(level_slots=precision.level_slots))
    run = train_as(ComparisonData(data.X[order], data.y[order]), precision, schedule, device, levels=levels)
    coef, intercept = run.models()
    true = losses_of(data.X, data.y, coef[-LAST:], intercept[-LAST:], schedule.loss)
    return float(true.mean()), float(run.loss[-LAST:].mean())


def tuned_rate(data: ComparisonData, on_training: OnTraining) -> float:
    """Return the learning rate at which TUNED ends with the lowest loss.

    Parameters
    ----------
    data : ComparisonData
    on_training : callable
        Called after each training.

    Returns
    -------
    float
    """
    rates = suggest_learning_rate(data.X, BATCH) * 0.5 ** np.arange(HALVINGS + 1)
    ended = []
    for rate in rates:
        ended.append(final_losses(data, TUNED, float(rate), TUNING_SEED)[0])
        on_training()
    return float(rates[np.argmin(ended)])


def measured(name: str, data: ComparisonData, on_training: OnTraining) -> LevelsResult:
    """Run all trainings of a data set.

    Parameters
    ----------
    name : str
    data : ComparisonData
    on_training : callable
        Called after each training.

    Returns
    -------
    LevelsResult

    Raises
    ------
    DataError
        If no model can be trained on the data, for example because all labels are equal.
    """
    rate = tuned_rate(data, on_training)

    def losses(method: Method) -> Floats:
        both = np.empty((2, len(SEEDS)))
        for at, seed in enumerate(SEEDS):
            both[:, at] = final_losses(data, method, rate, seed)
            on_training()
        return both

    full = losses(FULL)[0]
    return LevelsResult(
        name=name,
        rows=len(data.y),
        features=data.X.shape[1],
        rate=rate,
        best=float(full.mean()) / least_loss(data.X, data.y),
        constant=float(full.mean()) / constant_loss(data.y),
        finals={method: Final(*(losses(method) / full)) for method in METHODS},
    )


def verdict(fewer: Final, more: Final) -> str:
    """Compare the true losses of two methods seed by seed.

    Parameters
    ----------
    fewer, more : Final

    Returns
    -------
    {"lower", "alike", "higher"}
        The mean loss of `fewer` against that of `more`; alike within NOISE standard errors.
    """
    difference = fewer.true - more.true
    mean, noise = float(difference.mean()), NOISE * _error(difference)
    return "alike" if abs(mean) <= noise else "lower" if mean < 0 else "higher"


def verdicts(result: LevelsResult) -> list[str]:
    """Compare optimal levels with uniform levels of one bit more, then of the same bits, for each number of bits."""
    finals = result.finals
    pairs = [(bits, bits + more) for more in (1, 0) for bits in OPTIMAL]
    return [verdict(finals["optimal", fewer], finals["uniform", bits]) for fewer, bits in pairs]


def text(sets: Sequence[LevelsResult]) -> Iterator[str]:
    """Yield the three tables: true losses, estimates, verdicts."""
    heads = [f"{levels} {bits}" for levels, bits in METHODS]
    cells = [["true loss over the loss at 32 bits", "rate", "32 bits over best", "32 bits over constant", *heads]]
    for each_set in sets:
        shown = [f"{each.true.mean():.4f} ± {_error(each.true):.4f}" for each in each_set.finals.values()]
        cells.append(
            [each_set.name, f"{each_set.rate:.3g}", f"{each_set.best:.4f}", f"{each_set.constant:.4f}", *shown]
        )
    yield align_columns(cells)
    cells = [["estimated loss over the loss at 32 bits", *heads]]
    for each_set in sets:
        shown = [f"{each.estimate.mean():.4f} ± {_error(each.estimate):.4f}" for each in each_set.finals.values()]
        cells.append([each_set.name, *shown])
    yield align_columns(cells)
    pairs = [f"{bits} against {bits + more} bits" for more in (1, 0) for bits in OPTIMAL]
    cells = [["optimal against uniform levels", "rows", "features", *pairs]]
    for each_set in sets:
        cells.append([each_set.name, f"{each_set.rows:,}", str(each_set.features), *verdicts(each_set)])
    yield align_columns(cells)


def _error(values: Floats) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def main() -> None:
    """Run the study and print the tables."""
    parser = argparse.ArgumentParser(description="Measure how many bits optimal levels save in training.")
    parser.add_argument(
        "names",
        nargs="*",
        default=list(DATA_SETS),
        metavar="DATA_SET",
        help=f"data sets; unavailable ones are skipped (default: {', '.join(DATA_SETS)})",
    )
    names, sets = parser.parse_args().names, []
    trainings = HALVINGS + 1 + (1 + len(METHODS)) * len(SEEDS)
    with (
        warnings.catch_warnings(),
        require_extra("tqdm", "a progress bar").tqdm(
            total=trainings * len(names), unit="training", disable=None
        ) as bar,
    ):
        warnings.simplefilter("ignore", UserWarning)  # constant columns; learning rates that are too large
        for name in names:
            try:
                sets.append(measured(name, data_set(name), bar.update))
            except DataError as error:
                bar.write(f"{name} skipped: {error}")
    print(
        f"up to {ROWS:,} rows, batch {BATCH}, {EPOCHS} epochs, fresh draws, no decay, {len(SEEDS)} seeds: mean ± "
        f"standard error; alike: the difference is within {NOISE:g} of its standard errors"
    )
    print("\n\n".join(text(sets)))


if __name__ == "__main__":
    main()

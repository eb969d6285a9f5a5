"""What each rounding adds to the variance of a gradient: `python -m bitlane.studies.gradient_variance DATA`.

End-to-end low precision (ZipML, eq. 2) rounds samples, model and gradient, all at random and without bias. Here the
accelerator's arithmetic makes the gradients of the same batches of rows at the same model many times, with each
rounding alone and with all of them. Variance is E|g - E g|^2, of scaled weights; beside it stands that of the choice of
the batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bitlane.contract.fixed_point import decode_float
from bitlane.contract.formats import MASTER, STEP_FRACTION
from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import master_weights
from bitlane.contract.precision import FULL_BITS, Precision
from bitlane.contract.prng import SEED_BITS
from bitlane.contract.settings import Settings
from bitlane.contract.state import ModelState
from bitlane.data.datasets import load_dataset
from bitlane.evaluation.schedules import suggest_learning_rate
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import Floats, Matrix, fit_scaling
from bitlane.quantization.stochastic import model_cut, scaled_gradient_cut
from bitlane.reference.machine import Reference
from bitlane.support.text import align_columns
from bitlane.training.objective import Objective

FULL = Precision(FULL_BITS, "full")


@dataclass(frozen=True)
class Trial:
    """Conditions under which the variances are measured.

    Attributes
    ----------
    bits : int
        Stored bits of double sampling.
    model_bits, gradient_bits : int or None
        Bits of the rounded model and of the rounded scaled gradients; None leaves them unrounded.
    batch : int
        Rows of a batch.
    learning_rate : float
        Sets the unit of the scaled gradients.
    batches, repeats : int, at least 2
        Batches, whose variances are averaged, and gradients of each batch.
    """

    bits: int = 4
    model_bits: int | None = 8
    gradient_bits: int | None = 8
    batch: int = 16
    learning_rate: float = 0.1
    batches: int = 20
    repeats: int = 100


@dataclass(frozen=True)
class Terms:
    """Variances of a batch's mean gradient, in scaled units.

    Attributes
    ----------
    samples, model, scaled_gradient : float
        Variance with this rounding only.
    all : float
        Variance with all three roundings.
    batch : float
        Variance of the choice of the rows, without rounding.
    gradient : float
        Squared norm of E g, to compare with.
    bias : float
        Squared distance between the means with and without rounding, minus its expectation by chance.
    bias_error : float
        Standard error of the bias.
    """

    samples: float
    model: float
    scaled_gradient: float
    all: float
    batch: float
    gradient: float
    bias: float
    bias_error: float


def gradient_variance(
    X: Matrix,
    y: Matrix,
    weights: Floats,
    trial: Trial,
    seed: int = 0,
) -> Terms:
    """Measure the terms at a model, for squared errors.

    Parameters
    ----------
    X : array of shape (rows, n), in user units
    y : array of shape (rows,), in user units
    weights : float64 array of shape (n,)
        Scaled weights of the columns that vary.
    trial : Trial
    seed : int
        Seed of the batches and of the roundings.
    """
    rng = np.random.default_rng(seed)
    scaling = fit_scaling(X, y.reshape(-1, 1))
    settings = Objective("squared_error").settings(trial.learning_rate, trial.batch, 1.0)
    rounded = replace(
        settings,
        model_cut=model_cut(trial.model_bits),
        scaled_gradient_cut=scaled_gradient_cut(trial.gradient_bits, settings.step),
    )
    master = master_weights(weights.reshape(1, -1))
    double = Precision(trial.bits, "double")
    kinds: dict[str, tuple[Precision, Settings]] = {
        "samples": (double, settings),
        "model": (FULL, replace(rounded, scaled_gradient_cut=0)),
        "scaled_gradient": (FULL, replace(rounded, model_cut=0)),
        "all": (double, rounded),
    }
    variance = dict.fromkeys(kinds, 0.0)
    exact, biases = [], []
    for _ in range(trial.batches):
        rows = rng.choice(len(X), trial.batch, replace=False)
        values, labels = scaling.values(X[rows]), scaling.labels(y[rows].reshape(-1, 1))
        exact.append(_gradient(values, labels, FULL, settings, master, rng))
        for name, (precision, each) in kinds.items():
            found = np.array([_gradient(values, labels, precision, each, master, rng) for _ in range(trial.repeats)])
            spread = float(found.var(axis=0, ddof=1).sum())
            variance[name] += spread / trial.batches
            if name == "all":
                away = float(((found.mean(axis=0) - exact[-1]) ** 2).sum())
                biases.append(away - spread / trial.repeats)
    chosen = np.array(exact)
    return Terms(
        **variance,
        batch=float(chosen.var(axis=0, ddof=1).sum()),
        gradient=float((chosen.mean(axis=0) ** 2).sum()),
        bias=float(np.mean(biases)),
        bias_error=float(np.std(biases, ddof=1) / np.sqrt(trial.batches)),
    )


def _gradient(
    values: Floats,
    labels: np.ndarray,
    precision: Precision,
    settings: Settings,
    master: np.ndarray,
    rng: np.random.Generator,
) -> Floats:
    """A batch's mean gradient, as one step of the accelerator has it, with fresh draws and a fresh seed: [n]."""
    rows, features = values.shape
    geometry = Geometry.of(precision, features, rows, batch=rows)
    settings = replace(settings, seed=int(rng.integers(1 << SEED_BITS)))
    reference = Reference(geometry, ModelState(master, settings))
    draws = draw_codes(values, precision, rng) if precision.draws else None
    reference.feed(base_codes(values, precision), draws, labels)
    change = master.astype(np.int64) - reference.end_epoch().state.master
    rate = decode_float(settings.step, STEP_FRACTION) * rows
    gradient: Floats = np.ldexp(change[0].astype(np.float64), -MASTER.fraction) / rate
    return gradient


def table(terms: Terms, trial: Trial) -> str:
    """Return the terms as text."""
    rows = [
        (f"samples, {trial.bits} bits, two draws", terms.samples),
        (f"model, {trial.model_bits or 24} bits", terms.model),
        (f"gradient, {trial.gradient_bits or 32} bits", terms.scaled_gradient),
        ("all three", terms.all),
        ("the choice of the batch", terms.batch),
    ]
    cells = [["variance of", "", "over |E g|^2"]]
    cells += [[name, f"{value:.3g}", f"{value / terms.gradient:.3g}"] for name, value in rows]
    bias, error = terms.bias / terms.gradient, terms.bias_error / terms.gradient
    return "\n".join([align_columns(cells), "", f"bias squared over |E g|^2: {bias:.2g}, standard error {error:.2g}"])


def main(argv: Sequence[str] | None = None) -> None:
    """Print the terms of a data set half way to its least squares."""
    parser = argparse.ArgumentParser(prog="python -m bitlane.studies.gradient_variance", description=__doc__)
    parser.add_argument("data", help="a data set; see bitlane datasets")
    parser.add_argument("--bits", type=int, default=4, help="stored bits a feature (%(default)s)")
    parser.add_argument("--model-bits", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--gradient-bits", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=16, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    asked = parser.parse_args(argv)
    data = load_dataset(asked.data)
    X, y = np.asarray(data.X), np.asarray(data.y, np.float64)
    scaling = fit_scaling(X, y.reshape(-1, 1))
    labels = scaling.labels(y.reshape(-1, 1))[:, 0] * 2.0**-15
    best = np.linalg.lstsq(scaling.values(X), labels, rcond=None)[0]
    rate = suggest_learning_rate(X, asked.batch_size, Precision(asked.bits))
    trial = Trial(asked.bits, asked.model_bits, asked.gradient_bits, asked.batch_size, rate)
    terms = gradient_variance(X, y, best / 2, trial, asked.seed)
    print(f"{asked.data}: gradients of {asked.batch_size} rows at half of the least-squares weights, scaled units\n")
    print(table(terms, trial))


if __name__ == "__main__":
    main()

"""Measure how much variance each rounding adds to a gradient: `python -m bitlane_studies.gradient_variance DATA`.

End-to-end low precision (ZipML, eq. 2) rounds samples, model and gradient, each stochastically and without bias. This
study computes the gradients of the same batches at the same model many times in the accelerator's arithmetic, with each
rounding alone and with all three. The variance is E|g - E g|^2 in units of the scaled weights. The table compares it
with the variance that comes from the random choice of the batch.
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
from bitlane.quantization.positions import value_positions
from bitlane.quantization.quantize import base_codes, draw_codes
from bitlane.quantization.scaling import Floats, Matrix, fit_scaling
from bitlane.quantization.stochastic import model_cut, scaled_gradient_cut
from bitlane.reference.machine import Reference
from bitlane.support.text import align_columns
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.objective import Objective

FULL = Precision(FULL_BITS, "full")


@dataclass(frozen=True)
class Trial:
    """Conditions under which the variances are measured.

    Attributes
    ----------
    bits : int
        Stored bits per feature of double sampling.
    model_bits, gradient_bits : int or None
        Bits of the rounded model and of the rounded scaled gradients; None leaves them unrounded.
    batch : int
        Rows per batch.
    learning_rate : float
        Learning rate; it determines the unit of the scaled gradients.
    batches : int, at least 2
        Number of batches; the study averages their variances.
    repeats : int, at least 2
        Number of gradients of each batch.
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
        Variance from the random choice of the rows, without rounding.
    gradient : float
        Squared norm of E g, the reference for the variances.
    bias : float
        Squared distance between the means with and without rounding, minus the distance expected from noise alone.
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
    """Measure the variances at one model, for squared errors.

    Parameters
    ----------
    X : array of shape (rows, features)
        Features in user units.
    y : array of shape (rows,)
        Labels in user units.
    weights : float64 array of shape (n,)
        Scaled weights of the n columns that are not constant.
    trial : Trial
        Conditions of the measurement.
    seed : int, default=0
        Seed of the batches and of the roundings.

    Returns
    -------
    Terms
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
            drawn = np.array([_gradient(values, labels, precision, each, master, rng) for _ in range(trial.repeats)])
            spread = float(drawn.var(axis=0, ddof=1).sum())
            variance[name] += spread / trial.batches
            if name == "all":
                away = float(((drawn.mean(axis=0) - exact[-1]) ** 2).sum())
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
    """Return the mean gradient [n] of a batch, from one step of the accelerator with new draws and a new seed."""
    rows, features = values.shape
    geometry = Geometry.of(precision, features, rows, batch=rows)
    settings = replace(settings, seed=int(rng.integers(1 << SEED_BITS)))
    reference = Reference(geometry, ModelState(master, settings))
    positions = value_positions(values, precision)
    words = rng.integers(1 << 32, size=values.shape, dtype=np.uint32)
    draws = draw_codes(positions, precision, words) if precision.draws else None
    reference.feed(base_codes(positions, precision), draws, labels)
    change = master.astype(np.int64) - reference.end_epoch().state.master
    rate = decode_float(settings.step, STEP_FRACTION) * rows
    gradient: Floats = np.ldexp(change[0].astype(np.float64), -MASTER.fraction) / rate
    return gradient


def table(terms: Terms, trial: Trial) -> str:
    """Return the variances as a text table.

    Parameters
    ----------
    terms : Terms
    trial : Trial
        Conditions of the measurement.

    Returns
    -------
    str
    """
    rows = [
        (f"samples, {trial.bits} bits, double sampling", terms.samples),
        (f"model, {trial.model_bits or 24} bits", terms.model),
        (f"gradient, {trial.gradient_bits or 32} bits", terms.scaled_gradient),
        ("all three roundings", terms.all),
        ("choice of the batch", terms.batch),
    ]
    cells = [["source of variance", "variance", "over |E g|^2"]]
    cells += [[name, f"{value:.3g}", f"{value / terms.gradient:.3g}"] for name, value in rows]
    bias, error = terms.bias / terms.gradient, terms.bias_error / terms.gradient
    return "\n".join([align_columns(cells), "", f"bias squared over |E g|^2: {bias:.2g}, standard error {error:.2g}"])


def main(argv: Sequence[str] | None = None) -> None:
    """Print the variances for a data set, at half of its least-squares weights.

    Parameters
    ----------
    argv : sequence of str or None
        Command-line arguments; None reads those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.gradient_variance", description=__doc__)
    parser.add_argument("data", help="name of a data set; `bitlane datasets` lists them")
    parser.add_argument("--bits", type=int, default=4, help="stored bits per feature (default: %(default)s)")
    parser.add_argument("--model-bits", type=int, default=8, help="bits of the rounded model (default: %(default)s)")
    parser.add_argument(
        "--gradient-bits", type=int, default=8, help="bits of the rounded scaled gradients (default: %(default)s)"
    )
    parser.add_argument("--batch-size", type=int, default=16, help="rows per batch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of batches and roundings (default: %(default)s)")
    asked = parser.parse_args(argv)
    data = load_dataset(asked.data)
    X, y = np.asarray(data.X), np.asarray(data.y, np.float64)
    scaling = fit_scaling(X, y.reshape(-1, 1))
    labels = scaling.labels(y.reshape(-1, 1))[:, 0] * 2.0**-15
    best = np.linalg.lstsq(scaling.values(X), labels, rcond=None)[0]
    rate = suggest_learning_rate(X, asked.batch_size, Precision(asked.bits))
    trial = Trial(asked.bits, asked.model_bits, asked.gradient_bits, asked.batch_size, rate)
    terms = gradient_variance(X, y, best / 2, trial, asked.seed)
    print(f"{asked.data}: gradients of {asked.batch_size} rows at half of the least-squares weights, in scaled units\n")
    print(table(terms, trial))


if __name__ == "__main__":
    main()

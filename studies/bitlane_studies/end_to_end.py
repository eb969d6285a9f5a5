"""Measure complete fits, from a table in memory to coefficients: `taskset -c 0 python -m bitlane_studies.end_to_end`.

Every program trains least squares until its loss on the table is at most 1 % above that of a training with 32 bits. The
epochs that takes are found first, each epoch's loss known. Then a fit with so many epochs is timed as a user would call
it: scaling, encoding, copies and text included. Times are the least of several runs on the wall clock; pin the study to
one core, or BLAS and encoders take all. Learning rates are those that a user gets without tuning, or the best of a grid
where a program has no automatic one, told in the table.

All bytes are counted: those of the table in memory that the fit reads, those that it writes, and those that its
epochs read. Caches are not looked at.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane import SGDRegressor
from bitlane.data.datasets import load_dataset
from bitlane.errors import DataError
from bitlane.overlays import overlays
from bitlane.support.text import align_columns
from bitlane.training.options import DECAY
from bitlane_studies.float_sgd import ScaledTable, loss, rate_for, run_epoch, steps_of

Floats = NDArray[np.float32]
EPOCHS = 20
BATCH = 64
REPEATS = 5
EXCESS = 1.01  # of the loss of 32 bits
SCIKIT_RATES = (0.0003, 0.001, 0.003, 0.01, 0.03)
VW_RATES = (0.1, 0.5, 2.0)
VW_PASSES = (1, 2, 3, 5, 8, 12, 20)
READS = 8  # of the table by a fit of ours: check, least, most, mean, fingerprint, row order, base codes, draws
SYNTHETIC = (200_000, 256)


@dataclass(frozen=True)
class Fit:
    """A program's way to the target.

    Attributes
    ----------
    program, settings : str
    epochs : int or None
        Epochs to the target; None if it was not reached in 20.
    seconds : float
    read, written : int
        Bytes of the table and of what was made of it.
    phases : dict of str to float
        Seconds, if the program tells them.
    cycles : int
        Of the accelerator; 0 for other programs.
    """

    program: str
    settings: str
    epochs: int | None
    seconds: float = 0.0
    read: int = 0
    written: int = 0
    phases: dict[str, float] | None = None
    cycles: int = 0


def tables() -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the data sets of the study: a name, X [rows, n] and y [rows]."""
    try:
        mnist = load_dataset("mnist")
        yield "MNIST", np.asarray(mnist.X, np.float32)[:60_000], np.asarray(mnist.y, np.float32)[:60_000]
    except DataError as error:
        print(f"MNIST skipped: {error}")
    rng = np.random.default_rng(0)
    X = rng.normal(size=SYNTHETIC).astype(np.float32)
    signal = X @ rng.normal(size=SYNTHETIC[1]).astype(np.float32)
    yield "synthetic", X, signal + signal.std() * rng.normal(size=len(X)).astype(np.float32)


def fastest(run: Callable[[], object]) -> float:
    """Return the least time of several runs, in seconds."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def first_below(losses: Sequence[float], target: float) -> int | None:
    """Return the number, from 1, of the first loss that is at most the target; None if none is."""
    return next((epoch for epoch, each in enumerate(losses, 1) if each <= target), None)


def ours(X: Floats, y: Floats, target: float, bits: int = 4) -> Fit:
    """Return the fit of `SGDRegressor(bits)`, all else as it comes but for the batch size."""
    settings: dict[str, Any] = {"bits": bits, "batch_size": BATCH, "random_state": 0, "device": "cpu"}
    coef, intercept = SGDRegressor(epochs=EPOCHS, **settings).fit(X, y, snapshots=True).run_.models()
    epochs = first_below([loss(X, y, *model) for model in zip(coef, intercept, strict=True)], target)
    shown = f"batch {BATCH}, automatic rate"
    if epochs is None:
        return Fit(f"bitlane, {bits} bits", shown, None)
    runs = []
    seconds = fastest(lambda: runs.append(SGDRegressor(epochs=epochs, **settings).fit(X, y).run_))
    run = min(runs, key=lambda each: each.seconds)
    geometry, sets = run.geometry, run.settings["draw_sets"]
    words = 8 * (geometry.base_words + sets * geometry.draw_words)
    read = READS * X.nbytes + run.bytes_read
    return Fit(f"bitlane, {bits} bits", shown, epochs, seconds, read, X.nbytes + words, run.phases, run.cycles)


def blas(X: Floats, y: Floats, target: float) -> Fit:
    """Return mini-batch SGD in float32, with our scaling, order, learning rate and decay."""
    rate = rate_for(X, BATCH)

    def run(epochs: int, after: Callable[[Floats, float], None] | None = None) -> None:
        table = ScaledTable.of(X, y)
        weights = np.zeros(table.rows.shape[1], np.float32)
        for step in steps_of(rate, BATCH, epochs):
            run_epoch(table.rows, table.labels, weights, BATCH, step)
            if after:
                after(*table.model(weights))

    losses: list[float] = []
    run(EPOCHS, lambda coef, intercept: losses.append(loss(X, y, coef, intercept)))
    epochs = first_below(losses, target)
    shown = f"batch {BATCH}, rate {rate:g}, decay {DECAY:g}"
    if epochs is None:
        return Fit("float32 BLAS", shown, None)
    return Fit("float32 BLAS", shown, epochs, fastest(lambda: run(epochs)), (5 + epochs) * X.nbytes, 2 * X.nbytes)


class ScikitLearnFits:
    """scikit-learn's SGDRegressor on columns scaled to [0, 1], with each rate of a grid.

    Attributes
    ----------
    losses : dict of float to list of float
        Of each eta0, after each epoch.
    """

    def __init__(self, X: Floats, y: Floats):
        self._X, self._y, rows = X, y, _unit_columns(X)
        self.losses: dict[float, list[float]] = {}
        for rate in SCIKIT_RATES:
            model = self._model(rate)
            self.losses[rate] = []
            for _ in range(EPOCHS):
                self.losses[rate].append(loss(rows, y, *_coefficients(model.partial_fit(rows, y))))

    def to(self, target: float) -> Fit:
        """Return the fit that reaches the target in the fewest epochs."""
        epochs = {rate: first_below(losses, target) or EPOCHS + 1 for rate, losses in self.losses.items()}
        rate = min(epochs, key=lambda each: epochs[each])
        shown = f"eta0 {rate:g}, best of {len(epochs)}"
        if epochs[rate] > EPOCHS:
            return Fit("scikit-learn", shown, None)
        size = self._X.nbytes
        return Fit(
            "scikit-learn", shown, epochs[rate], self.seconds(rate, epochs[rate]), (4 + epochs[rate]) * size, size
        )

    def seconds(self, rate: float, epochs: int) -> float:
        """Return the time of a fit, scaling included."""
        model = self._model(rate, max_iter=epochs, tol=None)
        return fastest(lambda: model.fit(_unit_columns(self._X), self._y))

    @staticmethod
    def _model(rate: float, **settings: Any) -> Any:
        from sklearn.linear_model import SGDRegressor as Theirs

        return Theirs(penalty=None, eta0=rate, random_state=0, **settings)


def _unit_columns(X: Floats) -> Floats:
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    rows: Floats = (X - low) / np.where(span > 0, span, np.float32(1))
    return rows


def _coefficients(model: Any) -> tuple[NDArray[Any], float]:
    return model.coef_, float(model.intercept_[0])


def equal_epochs(X: Floats, y: Floats, theirs: ScikitLearnFits) -> str:
    """Return times and losses of 20 epochs of `SGDRegressor(bits=4)`, and of scikit-learn's, as text."""
    model = SGDRegressor(bits=4, epochs=EPOCHS, device="cpu", random_state=0)
    seconds = fastest(lambda: model.fit(X, y))
    rate = min(theirs.losses, key=lambda each: theirs.losses[each][-1])
    other = theirs.seconds(rate, EPOCHS)
    best = theirs.losses[rate][-1]
    return align_columns(
        [
            (f"{EPOCHS} epochs", "settings", "seconds", "over the other", "loss"),
            (
                "bitlane, 4 bits",
                "defaults",
                f"{seconds:.3f}",
                f"{seconds / other:.2f}",
                f"{loss(X, y, *_coefficients(model)):.5g}",
            ),
            ("scikit-learn", f"eta0 {rate:g}, least loss of {len(theirs.losses)}", f"{other:.3f}", "1", f"{best:.5g}"),
        ]
    )


def vowpal_wabbit(X: Floats, y: Floats, target: float) -> Fit:
    """Return Vowpal Wabbit on its text, written before, with its cache; the best learning rate of a grid."""
    from bitlane_studies.sparse.processes import run_child

    shown = "text written before"
    if not find_spec("vowpalwabbit"):
        return Fit("Vowpal Wabbit", "not here: pip install './studies[rivals]'", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, cache = folder / "rows.vw", folder / "rows.cache"
        with text.open("w", encoding="ascii") as file:
            for row, label in zip(X / np.abs(X).max(), y, strict=True):
                used = np.flatnonzero(row)
                pairs = zip(used.tolist(), row[used].tolist(), strict=True)
                file.write(f"{label:g} | " + " ".join(f"{i}:{value:.5g}" for i, value in pairs) + "\n")

        def train(passes: int, rate: float) -> float:
            cache.unlink(missing_ok=True)
            arguments = ["-d", "rows.vw", "--cache_file", "rows.cache", "--passes", str(passes), "--holdout_off"]
            arguments += ["-l", str(rate), "-b", "14", "-f", "model", "--quiet"]
            return run_child("vw", {"arguments": arguments}, [0], folder).seconds

        def loss_now() -> float:
            run_child("vw", {"arguments": ["-d", "rows.vw", "-t", "-i", "model", "-p", "out", "--quiet"]}, [0], folder)
            return float(np.mean((np.loadtxt(folder / "out", usecols=0) - y) ** 2))

        fewest = None
        for passes in VW_PASSES:
            for rate in VW_RATES:
                train(passes, rate)
                if loss_now() <= target:
                    fewest = (passes, rate)
                    break
            if fewest:
                break
        if fewest is None:
            return Fit("Vowpal Wabbit", shown, None)
        seconds = min(train(*fewest) for _ in range(REPEATS))
        size, cached = text.stat().st_size, cache.stat().st_size if fewest[0] > 1 else 0
        return Fit(
            "Vowpal Wabbit",
            f"{shown}, -l {fewest[1]:g}, best of {len(VW_RATES)}",
            fewest[0],
            seconds,
            size + (fewest[0] - 1) * cached,
            cached,
        )


def table_of(fits: Sequence[Fit]) -> str:
    """Return the fits as text."""
    rows = [("program", "settings", "epochs", "seconds", "over the first", "GB read", "GB written")]
    for fit in fits:
        if fit.epochs is None:
            rows.append((fit.program, fit.settings, f"none of {EPOCHS}", *("-",) * 4))
            continue
        times = f"{fit.seconds / fits[0].seconds:.2f}" if fits[0].epochs else "-"
        sizes = f"{fit.read / 1e9:.2f}", f"{fit.written / 1e9:.2f}"
        rows.append((fit.program, fit.settings, str(fit.epochs), f"{fit.seconds:.3f}", times, *sizes))
    return align_columns(rows)


def board_text(fit: Fit) -> str:
    """Return where the time of a fit of ours goes, here and with the cycles of a board's overlay, as text."""
    assert fit.phases is not None
    lines = ["  ".join(f"{name} {seconds:.3f}" for name, seconds in fit.phases.items()) + "  (seconds here)"]
    boards: dict[tuple[float, int], list[str]] = {}
    for board, overlay in overlays().items():
        boards.setdefault((overlay.clock_mhz, overlay.width), []).append(board)
    for (clock, width), names in boards.items():
        seconds = fit.cycles * 64 / width / clock / 1e6
        lines.append(
            f"{', '.join(names)}: about {seconds:.3f} s of training at {clock:.1f} MHz and {width} bits, predicted; "
            "their Arm core prepares and encodes more slowly than this machine, which is not measured"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of each data set."""
    parser = argparse.ArgumentParser(description="Measure complete fits, from a table in memory to coefficients.")
    parser.add_argument(
        "--equal-epochs", action="store_true", help="of the first data set, the fits of 20 epochs alone"
    )
    short = parser.parse_args(arguments).equal_epochs
    warnings.simplefilter("ignore", UserWarning)  # constant columns
    for name, X, y in tables():
        if short:
            print(f"{name}: {X.shape[0]:,} rows, {X.shape[1]:,} features, {X.nbytes / 1e6:.0f} MB in memory")
            print(equal_epochs(X, y, ScikitLearnFits(X, y)))
            return
        full = SGDRegressor(32, "full", batch_size=BATCH, epochs=EPOCHS, device="cpu", random_state=0).fit(X, y)
        target = EXCESS * loss(X, y, *_coefficients(full))
        print(f"{name}: {X.shape[0]:,} rows, {X.shape[1]:,} features, {X.nbytes / 1e6:.0f} MB; loss {target:.5g}")
        theirs = ScikitLearnFits(X, y)
        fits = [ours(X, y, target), blas(X, y, target), theirs.to(target), vowpal_wabbit(X, y, target)]
        print(table_of(fits))
        print(equal_epochs(X, y, theirs))
        if fits[0].epochs:
            print(board_text(fits[0]))
        print(flush=True)


if __name__ == "__main__":
    main()

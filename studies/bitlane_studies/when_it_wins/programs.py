"""The programs of processors: numpy, torch and `device="cpu"`, from a float32 table in memory to coefficients."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from bitlane import SGDRegressor
from bitlane_studies.float_sgd import Floats, ScaledTable, loss, rate_for, run_epoch, steps_of

from .table import EPOCHS

SYNC = 1e-6  # seconds a batch in the model of several cores: two waits of all cores for one another, assumed
FLOAT = "numpy, float32 BLAS"
PACKED = "bitlane, 4 bits"


@dataclass(frozen=True)
class MeasuredFit:
    """A fit of a table.

    Attributes
    ----------
    seconds : float
        From the table to coefficients.
    train_seconds : float
        Seconds of the epochs alone.
    loss : float
        Mean squared residual on the table.
    phases : dict of str to float
        Seconds of bitlane's phases; empty for other programs.
    """

    seconds: float
    train_seconds: float
    loss: float
    phases: Mapping[str, float] = field(default_factory=dict)


Fitted = tuple[Floats, float, float, Mapping[str, float]]  # coefficients, intercept, seconds of the epochs, phases
FitCall = Callable[[Floats, Floats, int, float], Fitted]  # of X [rows, n], y [rows], batch, learning rate of float32


def numpy_fit(X: Floats, y: Floats, batch: int, rate: float) -> Fitted:
    """Train in float32 BLAS."""
    table = ScaledTable.of(X, y)
    weights = np.zeros(table.rows.shape[1], np.float32)
    begin = time.perf_counter()
    for step in steps_of(rate, batch, EPOCHS):
        run_epoch(table.rows, table.labels, weights, batch, step)
    train = time.perf_counter() - begin
    return *table.model(weights), train, {}


def torch_fit(X: Floats, y: Floats, batch: int, rate: float) -> Fitted:
    """Train in float32 on torch's processor backend."""
    from .gpu import TorchTable, plain

    table = ScaledTable.of(X, y)
    there = TorchTable.of(table, "cpu")
    begin = time.perf_counter()
    weights = plain(there, batch, steps_of(rate, batch, EPOCHS)).numpy()
    train = time.perf_counter() - begin
    return *table.model(weights), train, {}


def bitlane_fit(bits: int, X: Floats, y: Floats, batch: int, rate: float) -> Fitted:
    """Train `SGDRegressor(bits)` on `device="cpu"`, with its own automatic learning rate."""
    model = SGDRegressor(bits, batch_size=batch, epochs=EPOCHS, device="cpu", random_state=0).fit(X, y)
    phases = model.run_.phases
    return np.asarray(model.coef_, np.float32), float(np.squeeze(model.intercept_)), phases["train"], phases


def programs() -> dict[str, FitCall]:
    """Return the programs of this machine, by name."""
    found: dict[str, FitCall] = {FLOAT: numpy_fit}
    if find_spec("torch") is not None:
        found["torch, float32"] = torch_fit
    return found | {f"bitlane, {bits} bits": partial(bitlane_fit, bits) for bits in (4, 8)}


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Restrict this thread, BLAS and torch to `count` cores of those that the process may use."""
    allowed = os.sched_getaffinity(0)
    limits: Any = import_module("threadpoolctl").threadpool_limits
    torch: Any = import_module("torch") if find_spec("torch") is not None else None
    os.sched_setaffinity(0, sorted(allowed)[:count])
    before = torch.get_num_threads() if torch else 0
    try:
        with limits(count):
            if torch:
                torch.set_num_threads(count)
            yield
    finally:
        os.sched_setaffinity(0, allowed)
        if torch:
            torch.set_num_threads(before)


def core_counts() -> tuple[int, ...]:
    """Return the numbers of cores to measure with: 1, and 2 where this process may use them."""
    return (1, 2) if len(os.sched_getaffinity(0)) > 1 else (1,)


def measure(X: Floats, y: Floats, batch: int, repeats: int) -> dict[tuple[str, int], MeasuredFit]:
    """Run all programs in turns, and return the quickest fit of each.

    Parameters
    ----------
    X : float32 array [rows, n]
    y : float32 array [rows]
    batch, repeats : int
        One more fit of each program comes before, and does not count.

    Returns
    -------
    dict of MeasuredFit
        By program and number of cores.
    """
    rate = rate_for(X, batch)
    found: dict[tuple[str, int], MeasuredFit] = {}
    for turn in range(1 + repeats):
        for name, program in programs().items():
            for count in core_counts():
                with cores(count):
                    begin = time.perf_counter()
                    coef, intercept, train, phases = program(X, y, batch, rate)
                    seconds = time.perf_counter() - begin
                key = name, count
                if turn and (key not in found or seconds < found[key].seconds):
                    found[key] = MeasuredFit(seconds, train, loss(X, y, coef, intercept), phases)
    return found


def on_several_cores(seconds: float, updates: int, count: int = 8, sync: float = SYNC) -> float:
    """Return the seconds of the epochs on several cores, by a model that favours them.

    Each core takes an equal share of every batch, memory is no limit, and all cores wait for one another twice a batch.

    Parameters
    ----------
    seconds : float
        Of the epochs on one core.
    updates : int
        Batches of all epochs.
    count : int, default=8
        Cores.
    sync : float
        Seconds of the waits of a batch.
    """
    return seconds / count + updates * sync

"""Tuning, alternating measurements, and the table of the speed study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane_studies.sparse.processes import Timing
from bitlane_studies.sparse.rivals import Contender, Probabilities, Setting, Workspace
from bitlane_studies.sparse.rows import Splits

HEAD = ("model", "program", "from", "passes", "setting", "s", "CPU s", "M rows/s", "loop M rows/s", "AUC", "log loss")
Say = Callable[[str], object]


@dataclass(frozen=True)
class Duel:
    """Two programs that train the same kind of model on the same rows.

    Attributes
    ----------
    model : str
        For the table.
    passes : int
    ours, rival : Contender
    """

    model: str
    passes: int
    ours: Contender
    rival: Contender


@dataclass(frozen=True)
class Result:
    """What one program did in a duel.

    Attributes
    ----------
    setting : Setting
        The tuning's choice.
    timings : tuple of Timing
    auc, log_loss : float
        On the rows held out.
    """

    setting: Setting
    timings: tuple[Timing, ...]
    auc: float
    log_loss: float

    @property
    def seconds(self) -> float:
        """The median."""
        return median(each.seconds for each in self.timings)


class Study:
    """Measures duels.

    Parameters
    ----------
    splits : Splits
    workspace : Workspace
    repeat : int
        Measured trainings of each program; the median counts.
    say : callable
        Called with a line of progress.
    """

    def __init__(self, splits: Splits, workspace: Workspace, repeat: int, say: Say):
        self._splits, self._workspace, self._repeat, self._say = splits, workspace, repeat, say
        self._tuned: dict[tuple[str, int], Setting] = {}

    def tune(self, contender: Contender, passes: int) -> Setting:
        """Return the choice of the grid with the highest AUC on a fifth of the training rows, held out."""
        key = (contender.tuned_as, passes)
        if key not in self._tuned:
            scores = []
            for setting in contender.grid:
                contender.prepare(self._splits.fit)
                contender.train(setting, passes, self._splits.fit, self._workspace)
                probabilities = contender.predict(self._splits.fit, self._splits.check, self._workspace)
                scores.append(quality_of(self._splits.check.rows.labels, probabilities)[0])
                self._say(f"tuning {contender.program}, {passes} passes: {named(setting)}, AUC {scores[-1]:.4f}")
            self._tuned[key] = contender.grid[int(np.argmax(scores))]
        return self._tuned[key]

    def measure(self, duel: Duel) -> tuple[Result, Result]:
        """Return the results of ours and theirs, trained by turns."""
        both = (duel.ours, duel.rival)
        settings = [self.tune(each, duel.passes) for each in both]
        timings: tuple[list[Timing], list[Timing]] = ([], [])
        train = self._splits.train
        for each in both:
            each.prepare(train)
        for _ in range(self._repeat):
            for contender, setting, measured in zip(both, settings, timings, strict=True):
                measured.append(contender.train(setting, duel.passes, train, self._workspace))
                self._say(f"{duel.model}, {contender.program} from {contender.reads}: {measured[-1].seconds:.2f} s")
        results = []
        for contender, setting, measured in zip(both, settings, timings, strict=True):
            probabilities = contender.predict(train, self._splits.test, self._workspace)
            results.append(Result(setting, tuple(measured), *quality_of(self._splits.test.rows.labels, probabilities)))
        return results[0], results[1]


def table(duels: Sequence[Duel], results: Sequence[tuple[Result, Result]], rows: int) -> str:
    """Return the results as a table: two lines for each duel, and how many times faster ours is.

    Parameters
    ----------
    duels : sequence of Duel
    results : sequence of pairs of Result
    rows : int
        Rows of a pass.
    """
    cells = [(*HEAD, "faster")]
    for duel, pair in zip(duels, results, strict=True):
        for contender, result in zip((duel.ours, duel.rival), pair, strict=True):
            total = rows * duel.passes / 1e6
            loops = [each.loop_seconds for each in result.timings if each.loop_seconds is not None]
            line = (
                duel.model,
                contender.program,
                contender.reads,
                str(duel.passes),
                named(result.setting),
                f"{result.seconds:.2f}",
                f"{median(each.cpu_seconds for each in result.timings):.2f}",
                f"{total / result.seconds:.2f}",
                f"{total / median(loops):.2f}" if loops else "-",
                f"{result.auc:.4f}",
                f"{result.log_loss:.4f}",
                f"{faster(pair):.2f}" if contender is duel.ours else "",
            )
            cells.append(line)
    return align_columns(cells, left=5)


def faster(pair: tuple[Result, Result]) -> float:
    """Return the median, over the measurements side by side, of their time over ours."""
    ours, theirs = pair
    return median(b.seconds / a.seconds for a, b in zip(ours.timings, theirs.timings, strict=True))


def named(setting: Setting) -> str:
    """Return a setting as text: ``alpha=0.3``."""
    return ", ".join(f"{name}={value:g}" for name, value in setting.items())


def quality_of(labels: NDArray[np.float32], probabilities: Probabilities) -> tuple[float, float]:
    """Return AUC and log loss."""
    metrics = require_extra("sklearn.metrics", "the comparison")
    clipped = np.clip(probabilities, 1e-7, 1 - 1e-7)
    return float(metrics.roc_auc_score(labels, probabilities)), float(metrics.log_loss(labels, clipped))

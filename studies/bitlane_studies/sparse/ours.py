"""bitlane's models as contenders of the speed study."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import FTRL, AdaGrad
from bitlane_studies.sparse.processes import Timing, run_child
from bitlane_studies.sparse.rivals import SCALE, Contender, Probabilities, Setting, Workspace
from bitlane_studies.sparse.rows import SplitRows

_RATES = {
    "lr": ("alpha", (0.1, 0.3, 1.0, 3.0)),
    "fm": ("learning_rate", (0.02, 0.05, 0.1, 0.2)),
    "ffm": ("learning_rate", (0.05, 0.1, 0.2, 0.4)),
}
_ALPHA = 0.3  # of an FM's linear weights


class Ours(Contender):
    """LR, FM or FFM of `bitlane.sparse`, trained by `Trainer` in one thread and saved; another thread reads ahead.

    Parameters
    ----------
    kind : {"lr", "fm", "ffm"}
    reads : {"text", "Arrow", "memory"}
    factors : int, default=8
    seed : int, default=0
        Of the first factors.
    """

    program = "bitlane"

    def __init__(self, kind: str, reads: str, factors: int = 8, seed: int = 0):
        self._kind, self._factors, self._seed = kind, factors, seed
        self.reads = reads
        self.tuned_as = f"bitlane {kind}"
        name, rates = _RATES[kind]
        self.grid = tuple({name: rate} for rate in rates)
        self.fixed = {
            "lr": "FTRL, beta 1",
            "fm": f"dim {factors}, FTRL alpha {_ALPHA} and AdaGrad, first factors {SCALE}",
            "ffm": f"dim {factors}, AdaGrad, l2 0.00002",
        }[kind]
        self._last: dict[str, Any] = {}

    def spec(self, setting: Setting, fields: int) -> ModelSpec:
        """Return the model's description."""
        if self._kind == "lr":
            return ModelSpec("lr", linear=FTRL(setting["alpha"]))
        if self._kind == "fm":
            factors = AdaGrad(setting["learning_rate"])
            more: dict[str, Any] = {"linear": FTRL(_ALPHA), "initial_scale": SCALE}
        else:
            factors = AdaGrad(setting["learning_rate"], l2=0.00002)
            more = {"fields": fields}
        return ModelSpec(self._kind, dim=self._factors, factors=factors, seed=self._seed, **more)

    def train(self, setting: Setting, passes: int, learn: SplitRows, workspace: Workspace) -> Timing:
        text = "ffm" if self._kind == "ffm" else "libsvm"
        suffix = text if self.reads == "text" else "arrow"
        warm = replace(learn, name="warm", rows=learn.rows.slice(0, 200))
        self._last = {
            "spec": self.spec(setting, learn.fields).to_json(),
            "learn": str(learn.path(suffix)),
            "warm": str(warm.path(suffix)),
            "memory": self.reads == "memory",
            "passes": passes,
        }
        return self._run(None, workspace)

    def predict(self, learn: SplitRows, held: SplitRows, workspace: Workspace) -> Probabilities:
        self._run(held, workspace)
        probabilities: Probabilities = np.load(workspace.folder / "ours.npy").astype(np.float64)
        return probabilities

    def _run(self, held: SplitRows | None, workspace: Workspace) -> Timing:
        more = {"held": held and str(held.path("arrow")), "predictions": str(workspace.folder / "ours.npy")}
        return run_child("ours", self._last | more, workspace.cores, workspace.folder)

"""What runs in a measured process: `python -m bitlane_studies.sparse.child NAME JSON` prints its timing as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.support.optional import require_extra

Settings = dict[str, Any]


def train_ours(settings: Settings) -> dict[str, float]:
    """Train a `SparseModel`, after a small training that loads the compiled code.

    Settings: ``spec``, the description of the model; ``learn`` and ``warm``, files; ``memory``, whether the rows are
    read before the time begins; ``passes``; ``held`` and ``predictions``, files to predict and to write, or None.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in ("warm", "learn"):
            Path(folder, name).mkdir()
            timing, model = _train_ours(settings, settings[name], Path(folder, name))
    if settings["held"] is not None:
        from bitlane.sparse.batches.source import open_source

        predictions = [model.predict(batch) for batch in open_source(settings["held"]).batches(0)]
        np.save(settings["predictions"], np.concatenate(predictions))
    return timing


def _train_ours(settings: Settings, path: str, folder: Path) -> tuple[dict[str, float], Any]:
    from bitlane.sparse.batches.batch import Batch
    from bitlane.sparse.batches.source import MemorySource, open_source
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.models.spec import ModelSpec
    from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer

    rows = Batch.concatenate(list(open_source(path).batches(0))) if settings["memory"] else None
    stopwatch = Stopwatch()
    source: Any = open_source(path, threads=1) if rows is None else MemorySource(rows)
    model = SparseModel(ModelSpec.from_json(settings["spec"]))
    result = Trainer(model, source, SparseTrainingOptions(epochs=settings["passes"])).run()
    model.save(folder)
    timing = stopwatch.stop()
    timing |= {"loop_seconds": result.seconds * (1 - result.waiting), "waiting": result.waiting}
    return timing, model


def train_vw(settings: Settings) -> dict[str, float]:
    """Run Vowpal Wabbit's driver. Settings: ``arguments``, as on its command line."""
    vowpal = require_extra("vowpalwabbit", "Vowpal Wabbit", "vowpalwabbit")
    stopwatch = Stopwatch()
    vowpal.Workspace(arg_list=settings["arguments"]).finish()
    return stopwatch.stop()


def train_sklearn(settings: Settings) -> dict[str, float]:
    """Fit a linear model of scikit-learn on a CSR matrix in memory.

    Settings: ``estimator``, its name in ``sklearn.linear_model``; ``parameters``; ``learn``, ``held``: npz files of
    `rows.write_csr`; ``predictions``.
    """
    linear = require_extra("sklearn.linear_model", "the comparison")
    features, labels = _load_csr(settings["learn"], settings["columns"])
    model = getattr(linear, settings["estimator"])(**settings["parameters"])
    stopwatch = Stopwatch()
    model.fit(features, labels)
    timing = stopwatch.stop()
    if settings["held"] is not None:
        held, _ = _load_csr(settings["held"], settings["columns"])
        np.save(settings["predictions"], model.predict_proba(held)[:, 1])
    return timing


class Stopwatch:
    """Takes the time and the processor's time from its making on."""

    def __init__(self) -> None:
        self._wall, self._cpu = perf_counter(), process_time()

    def stop(self) -> dict[str, float]:
        """Return the seconds of both, by the names of `processes.Timing`."""
        return {"seconds": perf_counter() - self._wall, "cpu_seconds": process_time() - self._cpu}


def _load_csr(path: str, columns: int) -> tuple[Any, NDArray[np.int8]]:
    sparse = require_extra("scipy.sparse", "the comparison", "'bitlane[sparse]'")
    with np.load(path) as arrays:
        shape = (len(arrays["labels"]), columns)
        return sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape), arrays["labels"]


CHILDREN: dict[str, Callable[[Settings], dict[str, float]]] = {
    "ours": train_ours,
    "vw": train_vw,
    "sklearn": train_sklearn,
}


def main(arguments: list[str]) -> None:
    """Run one of `CHILDREN`."""
    name, settings = arguments
    print(json.dumps(CHILDREN[name](json.loads(settings))))


if __name__ == "__main__":
    main(sys.argv[1:])

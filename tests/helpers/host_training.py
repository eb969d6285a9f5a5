"""A training on a Ray cluster, as a program of one of its hosts: `python -m tests.helpers.host_training ...`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.helpers.ray_trainings import Shares

from bitlane.sparse.engines.access import TLS_FILES
from bitlane.sparse.engines.engine import RayOptions, RayTrainer
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.training.run_folder import RunFolder
from bitlane.sparse.workers.worker import WorkerOptions

WORKERS, SERVERS = 2, 2
WINDOW_ROWS = 500
PORTS = (20000, 20019)


def spec_of(seed: int) -> ModelSpec:
    """The model of the training."""
    return ModelSpec("fm", batch_rows=8, seed=seed % 1000)


def main() -> None:
    """Train on the rows of a file."""
    rows, run, address, epochs, seed, *tls = sys.argv[1:]
    options = RayOptions(
        WorkerOptions(WORKERS, epochs=int(epochs)),
        SERVERS,
        window_rows=WINDOW_ROWS,
        address=address,
        tls=dict(zip(TLS_FILES, map(Path, tls), strict=True)),
        ports=PORTS,
    )
    with RunFolder.create(run, {}) as folder:
        result = RayTrainer(spec_of(int(seed)), Shares(rows, WORKERS), options, run=folder).run()
    print(f"{result.training.rows_done} rows, {result.training.reason}")


if __name__ == "__main__":
    main()

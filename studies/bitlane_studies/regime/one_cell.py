"""One cell in a process of its own: `python -m bitlane_studies.regime.one_cell NAME --out FOLDER`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.support.atomic import atomic_write

from .cells import MapCell, chosen_cells
from .contest import compete
from .optimum import optimum_of
from .problems import FitProblem
from .programs import programs_for


def measure_cell(cell: MapCell, folder: Path, patience: float) -> dict[str, Any]:
    """Run the contest of a cell.

    Returns
    -------
    dict
        ``name``, ``rows``, ``columns``, ``models``, ``optimum``, ``least`` and ``programs``; see
        `contest.ProgramResult`.
    """
    problem = cell.problem(folder / "tables")
    optimum = _stored_optimum(cell, problem, folder / "optima" / f"{cell.name}.json")
    least, results = compete(problem, programs_for(problem), optimum, patience)
    rows, columns = problem.X.shape
    return {
        "name": cell.name,
        "source": cell.source,
        "loss": cell.loss,
        "penalty": cell.penalty,
        "rows": rows,
        "columns": columns,
        "models": int(np.prod(problem.shape_of_models)),
        "bytes": problem.X.nbytes,
        "optimum": optimum,
        "least": least,
        "programs": [each.as_dict() for each in results],
    }


def _stored_optimum(cell: MapCell, problem: FitProblem, path: Path) -> float:
    """Return the optimum, found now unless it was found before."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(optimum_of(problem)[0]))
    return float(json.loads(path.read_text()))


def main() -> None:
    """Measure a cell and write its file."""
    parser = argparse.ArgumentParser(description="Measure one cell of the map of programs.")
    parser.add_argument("name", help="of the cell")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--patience", type=float, required=True, help="seconds of a call without a best one before it")
    parser.add_argument("--prepare", action="store_true", help="only make the table and find the optimum")
    given = parser.parse_args()
    cell = chosen_cells([given.name], quick=False)[0]
    if given.prepare:
        _stored_optimum(cell, cell.problem(given.out / "tables"), given.out / "optima" / f"{cell.name}.json")
        return
    found = measure_cell(cell, given.out, given.patience)
    path = given.out / "cells" / f"{cell.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

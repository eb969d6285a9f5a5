"""The map of who wins where: `python -m bitlane_studies.regime.map`.

Every cell is a process of its own, on the cores that `--cores` names and with as many threads. Each program is a
process in it. Cells that have a file in the folder are not measured again: delete the file, or name another folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from bitlane.errors import BitlaneError
from bitlane_studies.command import run

from .cells import MapCell, chosen_cells
from .report import write_report

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def child(arguments: Sequence[str], cores: Sequence[int]) -> None:
    """Run `one_cell` on `cores`.

    Raises
    ------
    BitlaneError
        It failed.
    """
    environment = os.environ | {name: str(len(cores)) for name in THREADS}
    command = [sys.executable, "-m", "bitlane_studies.regime.one_cell", *arguments]
    done = subprocess.run(command, env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    if done.returncode:
        raise BitlaneError(f"cell {arguments[0]} failed with status {done.returncode}: see above")


def measure(chosen: Sequence[MapCell], folder: Path, cores: Sequence[int], patience: float) -> list[str]:
    """Measure the cells that have no file yet, and return the names of those that failed."""
    failed = []
    for number, cell in enumerate(chosen, 1):
        if (folder / "cells" / f"{cell.name}.json").exists():
            continue
        begin = perf_counter()
        try:
            child([cell.name, "--out", str(folder), "--patience", str(patience)], cores)
        except BitlaneError as error:
            print(f"error: {error}", file=sys.stderr)
            failed.append(cell.name)
        print(f"{number} of {len(chosen)}: {cell.name}, {perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    return failed


def results_of(folder: Path) -> list[dict[str, Any]]:
    """Return what the folder's files say, in the order of the cells."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted((folder / "cells").glob("*.json"))}
    order = {cell.name: place for place, cell in enumerate(chosen_cells(["*"], quick=False))}
    return [found[name] for name in sorted(found, key=lambda name: order.get(name, len(order)))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write MAP.md, programs.md and map.svg into the folder, and print the map."""
    parser = argparse.ArgumentParser(description="Time bitlane and its rivals on tables of many shapes.")
    parser.add_argument("--quick", action="store_true", help="only the small tables")
    parser.add_argument("--cells", nargs="+", default=[], metavar="PATTERN", help="names of cells, such as 'log-*'")
    parser.add_argument("--list", action="store_true", help="print the names of the cells and stop")
    parser.add_argument("--out", type=Path, default=Path("build/map"), help="folder (default: %(default)s)")
    parser.add_argument("--cores", type=int, nargs="+", default=[0], help="cores to run on (default: 0)")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds of a call before any has won (default: %(default)s)"
    )
    parser.add_argument(
        "--prepare", action="store_true", help="only make slow tables and find optima, which are kept in the folder"
    )
    given = parser.parse_args(arguments)
    cells = chosen_cells(given.cells, given.quick)
    if given.list:
        print(*(cell.name for cell in cells), sep="\n")
        return 0
    if given.prepare:
        for cell in cells:
            child([cell.name, "--out", str(given.out), "--patience", "0", "--prepare"], given.cores)
        return 0
    failed = measure(cells, given.out, given.cores, given.patience)
    print(write_report(results_of(given.out), given.out))
    return int(bool(failed))


if __name__ == "__main__":
    run(main)

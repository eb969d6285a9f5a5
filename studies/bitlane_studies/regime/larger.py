"""A table that does not fit in memory as float32: `python -m bitlane_studies.regime.larger --gigabytes 30`.

Logistic regression of a generated file. bitlane encodes the file once, is killed half way and goes on, and trains on
the encoded table. Beside it stand scikit-learn's `SGDClassifier.partial_fit` on pieces of the file; one product with
each piece, which any program that reads the floats takes at least; and Vowpal Wabbit's cache, if it is installed, of a
part of the rows, because its cache is larger than the file. Each is a process of its own on the chosen cores. The files
are deleted at the end, but with `--keep`, which spares the next call of the same size the generation.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from bitlane.encoded.writer import part_of
from bitlane_studies.command import run

from .map import THREADS
from .problems import Floats
from .report import markdown
from .tables import FACTORS, OWN

PIECE = 1 << 25  # values of the file that are read at a time
JUDGED = 200_000  # rows, the last of the file, on which losses are compared
SEED = 1


def generate(path: Path, rows: int, columns: int) -> dict[str, Any]:
    """Write float32 rows with correlated columns, and labels -1 and 1 in the last column."""
    rng = np.random.default_rng(SEED)
    factors = max(1, columns // FACTORS)
    mixing = rng.standard_normal((factors, columns), np.float32) / np.sqrt(np.float32(factors))
    weights = rng.standard_normal(columns, np.float32)
    weights /= np.sqrt(np.float32(((mixing @ weights) ** 2).sum() + OWN**2 * (weights**2).sum()))
    file = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns + 1))
    for piece in pieces(file):
        piece[:, :-1] = rng.standard_normal((len(piece), factors), np.float32) @ mixing
        piece[:, :-1] += np.float32(OWN) * rng.standard_normal((len(piece), columns), np.float32)
        scores = 2 * piece[:, :-1] @ weights
        piece[:, -1] = np.where(scores + rng.logistic(size=len(piece)) > 0, 1, -1)
    file.flush()
    return {"rows": rows}


def pieces(file: Any) -> Iterator[Any]:
    """Yield consecutive rows of a mapped file."""
    step = max(1, PIECE // file.shape[1])
    for first in range(0, len(file), step):
        yield file[first : first + step]


def partial_fit(path: Path) -> dict[str, Any]:
    """Train one pass of scikit-learn's SGD from the file."""
    from sklearn.linear_model import SGDClassifier

    file = np.load(path, mmap_mode="r")
    model = SGDClassifier(loss="log_loss", alpha=1 / len(file), learning_rate="invscaling", eta0=0.01, power_t=0.25)
    for piece in pieces(file):
        rows = np.array(piece)
        model.partial_fit(rows[:, :-1], rows[:, -1], classes=[-1, 1])
    return {"loss": loss(path, model.coef_, model.intercept_), "epochs": 1}


def product(path: Path) -> dict[str, Any]:
    """Read the file once, and multiply each piece with a vector."""
    file = np.load(path, mmap_mode="r")
    weights = np.ones(file.shape[1], np.float32)
    total = sum(float((np.array(piece) @ weights).sum()) for piece in pieces(file))
    return {"epochs": 1, "sum": total}


def ours(path: Path) -> dict[str, Any]:
    """Fit `LinearClassifier` to the encoded table."""
    from bitlane import LinearClassifier
    from bitlane.encoded.table import EncodedTable

    begin = perf_counter()
    table = EncodedTable.open(path.with_suffix(".bits"))
    assert table.y is not None
    model = LinearClassifier(alpha=1 / len(table), tol=1e-3).fit(table, np.ravel(table.y))
    seconds = perf_counter() - begin
    epochs = model.solution_.bytes_read / table.stored_bytes
    return {"loss": loss(path, model.coef_, model.intercept_), "epochs": epochs, "fit": seconds}


def encode(path: Path) -> dict[str, Any]:
    """Encode the file by `bitlane encode`, which is killed when it has written half of the codes, and called again."""
    encoded, threads = path.with_suffix(".bits"), str(len(os.sched_getaffinity(0)))
    command = [sys.executable, "-m", "bitlane.cli", "encode", str(path), "--out", str(encoded), "--target", "-1"]
    command += ["--threads", threads, "--json"]
    encoded.unlink(missing_ok=True)
    part = part_of(encoded)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
        while first.poll() is None and not (part.exists() and part.stat().st_size > path.stat().st_size / 8):
            sleep(0.01)
        first.kill()
    last = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {"epochs": 1, "child": peak, "resumed_rows": json.loads(last.stdout)["resumed_rows"]}


def text_for_vw(path: Path, rows: int) -> None:
    """Write the first rows as Vowpal Wabbit's text."""
    file = np.load(path, mmap_mode="r")[:rows]
    line = "%d | " + " ".join(f"{place}:%.5g" for place in range(file.shape[1] - 1)) + "\n"
    with path.with_suffix(".vw").open("w", encoding="ascii") as out:
        for row in file:
            out.write(line % (row[-1], *row[:-1].tolist()))


def vowpal_wabbit(path: Path, passes: int) -> dict[str, Any]:
    """Read the text into a cache, and train passes."""
    workspace = import_module("vowpalwabbit").Workspace
    cache = path.with_suffix(".cache")
    cache.unlink(missing_ok=True)
    settings = ["-d", str(path.with_suffix(".vw")), "--cache_file", str(cache), "--loss_function", "logistic"]
    workspace(arg_list=[*settings, "--holdout_off", "--passes", str(passes), "--quiet"]).finish()
    return {"epochs": passes, "cache": cache.stat().st_size}


def loss(path: Path, coef: Any, intercept: Any) -> float:
    """Return the mean log loss of a model on the last rows of the file."""
    rows: Floats = np.array(np.load(path, mmap_mode="r")[-JUDGED:])
    scores = rows[:, :-1].astype(np.float64) @ np.ravel(coef) + np.ravel(intercept)
    return float(np.logaddexp(0, -rows[:, -1] * scores).mean())


def measured(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run a function in a process of its own; add its seconds and its peak memory."""
    context = multiprocessing.get_context("fork")
    pipe, end = context.Pipe()

    def child() -> None:
        warnings.simplefilter("ignore")
        begin = perf_counter()
        found = work(*arguments)
        found = {"seconds": perf_counter() - begin, **found}
        end.send({"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, **found})

    process = context.Process(target=child)
    process.start()
    end.close()
    answer: dict[str, Any] = pipe.recv()
    process.join()
    return answer


def compared(path: Path, rows: int, columns: int, vw_rows: int) -> dict[str, Any]:
    """Generate the file, run all programs, and return what they took."""
    if not (path.exists() and np.load(path, mmap_mode="r").shape == (rows, columns + 1)):
        measured(generate, path, rows, columns)
    found = {"encode": measured(encode, path)}
    if find_spec("vowpalwabbit"):
        text_for_vw(path, vw_rows)
    found["ours"] = measured(ours, path)
    found["product"] = measured(product, path)
    found["partial_fit"] = measured(partial_fit, path)
    if find_spec("vowpalwabbit"):
        one, six = (measured(vowpal_wabbit, path, passes) for passes in (1, 6))
        found["vw"] = six | {"rows": vw_rows, "epoch": (six["seconds"] - one["seconds"]) / 5}
    sizes = {"file": path.stat().st_size, "encoded": path.with_suffix(".bits").stat().st_size}
    return {"rows": rows, "columns": columns, **sizes, **found}


def text_of(found: dict[str, Any]) -> str:
    """Return the comparison as a table in Markdown."""
    ours, rows = found["ours"], found["rows"]
    epoch = ours["fit"] / ours["epochs"]
    others = {
        "scikit-learn, SGD, partial_fit from the file": found["partial_fit"],
        "one product with each piece of the file": found["product"],
    }
    lines = [
        (
            "bitlane, encode once",
            f"{found['encode']['seconds']:.0f}",
            "-",
            "-",
            f"{found['encode']['child'] / 1e9:.1f}",
            f"{found['encoded'] / 1e9:.1f} GB written; killed half way, {found['encode']['resumed_rows']:,} rows kept",
        ),
        (
            "bitlane, LinearClassifier, to 0.1 %",
            f"{ours['fit']:.1f}",
            f"{epoch:.2f}",
            "1",
            f"{ours['memory'] / 1e9:.1f}",
            f"{ours['epochs']:.1f} epochs, loss {ours['loss']:.4f}",
        ),
    ]
    for name, each in others.items():
        note = f"loss {each['loss']:.4f} after one epoch" if "loss" in each else "a bound for all that read floats"
        taken = f"{each['seconds']:.1f}"
        lines.append((name, taken, taken, f"{each['seconds'] / epoch:.1f}", f"{each['memory'] / 1e9:.1f}", note))
    if "vw" in found:
        each = found["vw"]
        times = rows / each["rows"]
        whole = each["epoch"] * times
        note = f"of {each['rows']:,} rows, times {times:.0f}; its cache would be {each['cache'] * times / 1e9:.0f} GB"
        lines.append(("Vowpal Wabbit, from its cache", "-", f"{whole:.1f}", f"{whole / epoch:.1f}", "-", note))
    head = ("program", "seconds", "an epoch, s", "epoch over ours", "GB of memory", "notes")
    size = f"{rows:,} x {found['columns']}, {found['file'] / 1e9:.1f} GB as float32"
    return f"{size}\n\n{markdown(head, lines)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write larger.json and larger.md, and print the table."""
    parser = argparse.ArgumentParser(description="Compare programs on a table that is larger than memory.")
    parser.add_argument("--gigabytes", type=float, default=3.0, help="size of the file (default: %(default)s)")
    parser.add_argument("--columns", type=int, default=256, help="features (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/map"), help="folder (default: %(default)s)")
    parser.add_argument("--vw-rows", type=int, default=100_000, help="rows for Vowpal Wabbit (default: %(default)s)")
    parser.add_argument("--cores", type=int, nargs="+", default=[0], help="cores to run on (default: 0)")
    parser.add_argument("--keep", action="store_true", help="keep the files for another call")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "larger.npy"
    rows = int(given.gigabytes * 1e9 / 4 / (given.columns + 1))
    os.sched_setaffinity(0, given.cores)
    os.environ.update({name: str(len(given.cores)) for name in THREADS})
    try:
        found = compared(path, rows, given.columns, min(given.vw_rows, rows))
    finally:
        for each in given.out.glob("larger.*"):
            if each.suffix not in (".json", ".md") and not given.keep:
                each.unlink()
    (given.out / "larger.json").write_text(json.dumps(found, indent=1))
    (given.out / "larger.md").write_text(text_of(found) + "\n", encoding="utf-8")
    print(text_of(found))


if __name__ == "__main__":
    run(main)

"""The public samples of other projects, as they are: `python -m bitlane_studies.sparse.samples FOLDER`.

FOLDER has `criteo_sample.txt`, `avazu_sample.txt` and `movielens_sample.txt`, from `examples` of
https://github.com/shenweichen/DeepCTR, or `small_train.txt` and `small_test.txt`, from `demo/classification/criteo_ctr`
of https://github.com/aksnzhy/xlearn; those that are missing are named. One command of bitlane trains on each without a
conversion. Each file has some hundred rows, so each program learns three quarters of the lines and is measured on the
rest, for several random splits: the table has the mean AUC and its standard error. Beside it are scikit-learn's
LogisticRegression (one column for each category, standardised numbers), and Vowpal Wabbit and xLearn if they are here.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bitlane.cli.argument_types import positive, seed
from bitlane.cli.main import main as bitlane
from bitlane.errors import BitlaneError
from bitlane.sparse.training.windows import auc
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane_studies.sparse.processes import run_child

TRAIN_SHARE = 0.75
SPLITS = 20


@dataclass(frozen=True)
class PublicSample:
    """A sample, and what its columns are.

    Attributes
    ----------
    names : tuple of str
        Its files; their rows are put together.
    options : tuple of str
        Of `bitlane sparse train`, besides files and model.
    kinds : tuple of str
        Of bitlane.
    label : str
        Its column; "" for libffm's format.
    positive : str
        The label that is 1.
    left_out : tuple of str
        Columns that are no features.
    numeric : tuple of str
        Columns that are numbers for the other programs.
    several : str
        A column with several values in a cell, separated by a vertical bar.
    """

    names: tuple[str, ...]
    options: tuple[str, ...]
    kinds: tuple[str, ...] = ("lr", "fm")
    label: str = ""
    positive: str = "1"
    left_out: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    several: str = ""


SAMPLES = {
    "Criteo": PublicSample(
        ("criteo_sample.txt",),
        ("--format", "csv", "--target", "label"),
        label="label",
        numeric=tuple(f"I{number}" for number in range(1, 14)),
    ),
    "Avazu": PublicSample(
        ("avazu_sample.txt",),
        ("--format", "csv", "--target", "click", "--ignore", "id"),
        label="click",
        left_out=("id",),
    ),
    "MovieLens, rating 5": PublicSample(
        ("movielens_sample.txt",),
        ("--format", "csv", "--target", "rating", "--positive", "5", "--time", "timestamp", "--several", "genres"),
        label="rating",
        positive="5",
        left_out=("timestamp",),
        several="genres",
    ),
    "Criteo, libffm": PublicSample(
        ("small_train.txt", "small_test.txt"), ("--format", "libffm", "--epochs", "10"), ("lr", "ffm")
    ),
}


@dataclass(frozen=True)
class Lines:
    """A part of a sample's lines.

    Attributes
    ----------
    path : Path
        A file of them, with the sample's header line if it has one.
    labels : bool [n]
    """

    path: Path
    labels: NDArray[np.bool_]


def divide(sample: PublicSample, folder: Path, into: Path, start: int) -> tuple[Lines, Lines]:
    """Write the lines that are learned, and the others, in random order, as files."""
    lines = [line for name in sample.names for line in (folder / name).read_text().splitlines()]
    head = [lines.pop(0)] if sample.label else []
    order = np.random.default_rng(start).permutation(len(lines))
    cut = round(TRAIN_SHARE * len(lines))
    parts = []
    for name, numbers in (("learned", order[:cut]), ("held-out", order[cut:])):
        path = into / f"{name}.txt"
        path.write_text("\n".join([*head, *(lines[number] for number in numbers)]) + "\n")
        parts.append(Lines(path, _labels(sample, path)))
    return parts[0], parts[1]


def ours(sample: PublicSample, model: str, learned: Lines, unseen: Lines) -> float:
    """Return the AUC of one command of bitlane, by the last line of its log."""
    run = learned.path.parent / model
    files = [str(learned.path), "--test", str(unseen.path)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        status = bitlane(
            ["sparse", "train", *files, "--model", model, "--out", str(run), "--overwrite", *sample.options]
        )
    if status:
        raise BitlaneError(errors.getvalue().strip())
    return float(json.loads((run / "run.jsonl").read_text().splitlines()[-1])["auc"])


def scikit_learn(sample: PublicSample, learned: Lines, unseen: Lines) -> float:
    """Return the AUC of LogisticRegression."""
    linear_model = require_extra("sklearn.linear_model", "the baseline")
    extraction = require_extra("sklearn.feature_extraction", "the baseline")
    vectorizer, model = extraction.DictVectorizer(), linear_model.LogisticRegression(max_iter=1000)
    rows, test_rows = features(sample, learned, unseen)
    model.fit(vectorizer.fit_transform(rows), learned.labels)
    return _auc(model.decision_function(vectorizer.transform(test_rows)), unseen)


def vowpal_wabbit(sample: PublicSample, learned: Lines, unseen: Lines) -> float:
    """Return the AUC of Vowpal Wabbit with its default settings, in one pass over its own text."""
    folder = learned.path.parent
    for part, rows in zip((learned, unseen), features(sample, learned, unseen), strict=True):
        labels = ["1" if label else "-1" for label in part.labels]
        tokens = [" ".join(f"{_name(name)}:{number:.9g}" for name, number in row.items()) for row in rows]
        lines = [f"{label} | {row}\n" for label, row in zip(labels, tokens, strict=True)]
        part.path.with_suffix(".vw").write_text("".join(lines))
    model, out = folder / "vw.model", folder / "vw.scores"
    read = ["-d", str(learned.path.with_suffix(".vw")), "--loss_function", "logistic", "--quiet", "-f", str(model)]
    run_child("vw", {"arguments": read}, (0,), folder)
    score = ["-d", str(unseen.path.with_suffix(".vw")), "-t", "-i", str(model), "--quiet", "-p", str(out)]
    run_child("vw", {"arguments": score}, (0,), folder)
    return _auc(np.loadtxt(out, usecols=0), unseen)


def xlearn(programs: Path, learned: Lines, unseen: Lines) -> float:
    """Return the AUC of xLearn's FFM with its default settings, by its programs."""
    folder = learned.path.parent
    for command in (
        [programs / "xlearn_train", learned.path, "-s", "2", "-m", "ffm.model", "--quiet"],
        [programs / "xlearn_predict", unseen.path, "ffm.model", "-o", "ffm.scores"],
    ):
        subprocess.run([str(each) for each in command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return _auc(np.loadtxt(folder / "ffm.scores"), unseen)


def features(sample: PublicSample, learned: Lines, unseen: Lines) -> tuple[list[dict[str, float]], ...]:
    """Return the rows of both parts for programs that take a number for each name.

    A category is a name with the number 1. Numeric columns are standardised by the learned rows; a missing number is
    their mean.
    """
    if not sample.label:
        return tuple([_ffm_row(line) for line in part.path.read_text().splitlines()] for part in (learned, unseen))
    tables = [_table(part.path) for part in (learned, unseen)]
    moments = {}
    for name in sample.numeric:
        known = np.array([float(row[name]) for row in tables[0] if row[name]])
        moments[name] = (float(known.mean()), float(known.std()) or 1.0)
    return tuple([_row(sample, row, moments) for row in table] for table in tables)


def _row(sample: PublicSample, row: dict[str, str], moments: dict[str, tuple[float, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, cell in row.items():
        if name == sample.label or name in sample.left_out or not cell:
            continue
        if name in moments:
            found[name] = (float(cell) - moments[name][0]) / moments[name][1]
        elif name == sample.several:
            parts = cell.split("|")
            found |= {f"{name}={part}": 1 / len(parts) for part in parts}
        else:
            found[f"{name}={cell}"] = 1.0
    return found


def _ffm_row(line: str) -> dict[str, float]:
    tokens = [token.split(":") for token in line.split()[1:]]
    return {f"{field}:{key}": float(number) for field, key, number in tokens}


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _labels(sample: PublicSample, path: Path) -> NDArray[np.bool_]:
    if sample.label:
        return np.array([row[sample.label] == sample.positive for row in _table(path)])
    return np.array([line.split()[0] == sample.positive for line in path.read_text().splitlines()])


def _name(name: str) -> str:
    """The name of a feature without the characters that have a meaning in Vowpal Wabbit's text."""
    return re.sub(r"[\s:|]", "_", name)


def _auc(scores: NDArray[np.float64], part: Lines) -> float:
    found = auc(scores.astype(np.float32), part.labels.astype(np.float32))
    assert found is not None
    return found


def study(
    folder: Path, splits: int, start: int, programs: Path | None, say: Callable[[str], object]
) -> list[list[str]]:
    """Return the lines of the table: sample, rows, program, mean AUC and its standard error.

    Parameters
    ----------
    folder : Path
        With the samples.
    splits : int
        Random splits of each.
    start : int
        Seed of the splits.
    programs : Path, optional
        Folder with xLearn's programs.
    say : callable
        Takes a line about the progress.
    """
    lines = [["sample", "rows", "program", "AUC", "+-"]]
    for title, sample in SAMPLES.items():
        absent = [name for name in sample.names if not (folder / name).exists()]
        if absent:
            say(f"{title} is left out: {folder} has no {absent[0]}")
            continue
        runs: dict[str, Callable[[Lines, Lines], float]] = {
            f"bitlane {model}": partial(ours, sample, model) for model in sample.kinds
        }
        runs["LogisticRegression"] = partial(scikit_learn, sample)
        if find_spec("vowpalwabbit"):
            runs["Vowpal Wabbit"] = partial(vowpal_wabbit, sample)
        if programs is not None and not sample.label:
            runs["xLearn ffm"] = partial(xlearn, programs)
        found: dict[str, list[float]] = {name: [] for name in runs}
        rows = 0
        for number in range(splits):
            say(f"{title}: split {number + 1} of {splits}")
            with tempfile.TemporaryDirectory() as name:
                parts = divide(sample, folder, Path(name), start + number)
                rows = sum(len(part.labels) for part in parts)
                for program, run in runs.items():
                    found[program].append(run(*parts))
        for program, aucs in found.items():
            error = np.std(aucs, ddof=1) / np.sqrt(splits) if splits > 1 else np.nan
            lines.append([title, str(rows), program, f"{np.mean(aucs):.3f}", f"{error:.3f}"])
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bitlane_studies.sparse.samples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="with the samples")
    parser.add_argument("--splits", type=positive, default=SPLITS, metavar="N", help=f"default: {SPLITS}")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the splits (default: 0)")
    parser.add_argument("--xlearn", type=Path, metavar="DIR", help="with xlearn_train and xlearn_predict")
    arguments = parser.parse_args(argv)
    try:
        progress = partial(print, file=sys.stderr, flush=True)
        table = study(arguments.folder, arguments.splits, arguments.seed, arguments.xlearn, progress)
    except (BitlaneError, OSError, subprocess.CalledProcessError) as error:
        print(f"samples: {error}", file=sys.stderr)
        return 2
    print(align_columns(table, left=3))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare the speed of sparse models with other programs: `python -m bitlane_studies.sparse.speed`.

Each pair trains on the same rows, with as many passes, by turns, on one core of the processor: all threads of a program
share it. The time goes from the call to the saved model, reading included. Each program is tuned on a grid of four
points, by its AUC on a fifth of the training rows. Two more tables have our AUC with other first factors, and the speed
with all cores, with the share of time in which our training waits for the reader.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns
from bitlane_studies.sparse.duels import Duel, Study, named, quality_of, table
from bitlane_studies.sparse.ours import Ours
from bitlane_studies.sparse.rivals import Contender, FastFM, LibFFM, LibFM, ScikitLearnModels, VowpalWabbit, Workspace
from bitlane_studies.sparse.rows import Splits, divide, load_rows

MODELS = ("lr", "fm", "ffm")
SEEDS = 3
PASSES = 5  # of all duels but those of logistic regression from files, which learns online in one


def duels_of(options: argparse.Namespace, work: Path) -> list[Duel]:
    """Return all duels of the models that were asked for."""
    fm, ffm = options.factors
    duels_of = {
        "lr": [
            Duel("LR", 1, Ours("lr", "text"), VowpalWabbit("text")),
            Duel("LR", 1, Ours("lr", "Arrow"), VowpalWabbit("cache")),
            Duel("LR", PASSES, Ours("lr", "memory"), ScikitLearnModels("SGDClassifier")),
            Duel("LR", PASSES, Ours("lr", "memory"), ScikitLearnModels("LogisticRegression")),
        ],
        "fm": [
            Duel(f"FM {fm}", PASSES, Ours("fm", "text", fm), LibFM(options.libfm, work, fm)),
            Duel(f"FM {fm}", PASSES, Ours("fm", "memory", fm), FastFM(options.fastfm, fm)),
        ],
        "ffm": [
            Duel(f"FFM {ffm}", PASSES, Ours("ffm", "text", ffm), LibFFM(options.libffm, work, ffm, "text")),
            Duel(f"FFM {ffm}", PASSES, Ours("ffm", "Arrow", ffm), LibFFM(options.libffm, work, ffm, "cache")),
        ],
    }
    return [duel for model in options.models for duel in duels_of[model]]


def run(options: argparse.Namespace, folder: Path) -> str:
    """Measure everything and return the report.

    Raises
    ------
    BitlaneError
        The rows cannot be used, or a program fails.
    """
    files = folder / f"{Path(options.data).stem}-{options.rows or 'all'}"
    files.mkdir(exist_ok=True)
    splits = divide(load_rows(options.data, options.rows), files)
    workspace = Workspace(folder, (options.core,))
    study = Study(splits, workspace, options.repeat, lambda line: print(line, file=sys.stderr, flush=True))
    duels, absent = [], {}
    for duel in duels_of(options, folder):
        missing = duel.rival.missing()
        if missing is None:
            duels.append(duel)
        else:
            absent[duel.rival.program] = missing
    results = [study.measure(duel) for duel in duels]
    fixed = {f"{each.program}: {each.fixed}" for duel in duels for each in (duel.ours, duel.rival)}
    sections = [
        _head(options, splits),
        *([table(duels, results, splits.train.rows.rows)] if duels else []),
        *(["\n".join(sorted(fixed))] if fixed else []),
        *(f"{program} is missing: {how}" for program, how in absent.items()),
        *([_by_seed(options, study, splits, workspace)] if set(options.models) != {"lr"} else []),
        _all_cores(options, study, splits, workspace),
    ]
    return "\n\n".join(sections)


def _head(options: argparse.Namespace, splits: Splits) -> str:
    rows, held = splits.train.rows, splits.test.rows.rows
    return (
        f"{options.data}: {rows.rows:,} rows to train, {held:,} held out, {rows.nnz / rows.rows:.1f} features a row, "
        f"{splits.train.keys:,} keys, {splits.train.fields} fields\n"
        f"{platform.machine()}, core {options.core} of {os.cpu_count()}, Python {platform.python_version()}, "
        f"medians of {options.repeat}; 'faster': their time over ours, by turns"
    )


def _by_seed(options: argparse.Namespace, study: Study, splits: Splits, workspace: Workspace) -> str:
    """Return the AUC of models with factors for several seeds: as much as two equal models may differ."""
    cells = [("AUC by seed", *map(str, range(SEEDS)))]
    for model in options.models:
        if model == "lr":
            continue
        aucs = []
        for seed in range(SEEDS):
            ours = Ours(model, "Arrow", _factors(options, model), seed)
            ours.train(study.tune(ours, PASSES), PASSES, splits.train, workspace)
            aucs.append(quality_of(splits.test.rows.labels, ours.predict(splits.train, splits.test, workspace))[0])
        cells.append((model.upper(), *(f"{auc:.4f}" for auc in aucs)))
    return align_columns(cells)


def _all_cores(options: argparse.Namespace, study: Study, splits: Splits, workspace: Workspace) -> str:
    """Return the table of speeds with all cores, and of the time that our training waits for the reader."""
    cores = sorted(os.sched_getaffinity(0))
    contenders: list[tuple[str, Contender]] = [
        (model, Ours(model, reads, _factors(options, model))) for model in options.models for reads in ("text", "Arrow")
    ]
    if "lr" in options.models and VowpalWabbit().missing() is None:
        contenders += [("lr", VowpalWabbit("text")), ("lr", VowpalWabbit("cache"))]
    cells = [("model", "program", "from", "setting", "M rows/s", "waiting for the reader")]
    for model, contender in contenders:
        passes = 1 if model == "lr" else PASSES
        setting = study.tune(contender, passes)
        contender.prepare(splits.train)
        timing = contender.train(setting, passes, splits.train, replace(workspace, cores=cores))
        rate = splits.train.rows.rows * passes / timing.seconds / 1e6
        waiting = "" if timing.waiting is None else f"{timing.waiting:.1%}"
        cells.append((model.upper(), contender.program, contender.reads, named(setting), f"{rate:.2f}", waiting))
    return f"With {len(cores)} cores, in one run each:\n" + align_columns(cells, left=4)


def _factors(options: argparse.Namespace, model: str) -> int:
    fm, ffm = options.factors
    return int({"fm": fm, "ffm": ffm}.get(model, 0))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser("python -m bitlane_studies.sparse.speed", description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="goodbooks", help="a data set of BITLANE_DATA, a file, or 'generated'")
    parser.add_argument("--rows", type=int, help="take the first rows only (default: all; 1,000,000 generated ones)")
    parser.add_argument("--models", type=_models, default=MODELS, help="of lr, fm, ffm, with commas (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each program (default: 3)")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="of the processor")
    parser.add_argument("--factors", type=int, nargs=2, default=(8, 4), metavar=("FM", "FFM"), help="(default: 8 4)")
    parser.add_argument("--libffm", type=Path, metavar="FOLDER", help="the source of libffm")
    parser.add_argument("--libfm", type=Path, metavar="FOLDER", help="the source of libFM")
    parser.add_argument("--fastfm", metavar="PYTHON", help="an interpreter with fastFM")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="keep files and programs here (default: temporary)")
    return parser


def _models(text: str) -> tuple[str, ...]:
    models = tuple(text.split(","))
    if not set(models) <= set(MODELS):
        raise argparse.ArgumentTypeError(f"{text!r}: choose of {', '.join(MODELS)}")
    return models


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; return the exit status."""
    options = parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (options.work or Path(temporary)).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            print(run(options, folder))
    except BitlaneError as error:
        print(f"speed: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Serving weights in few bits: `python -m bitlane_studies.sparse.quantized_serving goodbooks generated`.

The study trains LR, FM, FFM and, if torch is installed, DNN with the default settings of `bitlane sparse train`. It
freezes the weights as float32 and as codes of 8, 4 and 2 bits, and scores the held-out rows with each: those that
``--test-fraction 0.1`` leaves out, or the last tenth of ``generated`` (1,000,000 rows of a click log). Levels:

uniform              equal intervals from the smallest to the largest value of a column
optimal              `bitlane.optimal_levels`: least variance of stochastic rounding
optimal, weighted    the same, with each value weighted by the sum of its squared gradients
nearest              these moved to the means of the values nearest to them; not weighted, and weighted
"""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from bitlane.cli.argument_types import positive, seed
from bitlane.cli.sparse import data, model_settings
from bitlane.cli.sparse.train import DEFAULTS
from bitlane.errors import BitlaneError
from bitlane.support.text import align_columns
from bitlane_studies.sparse import quality

if TYPE_CHECKING:
    from bitlane.sparse.batches.batch import Batch
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.registry.quantizing import Losses

GENERATED = "generated"
BITS = (8, 4, 2)
LEVELS = (("uniform", False), ("optimal", False), ("optimal", True), ("nearest", False), ("nearest", True))


@dataclass(frozen=True)
class Served:
    """One way to serve a model.

    Attributes
    ----------
    model, levels : str
    bits, bytes : int
        Of a value, and of the frozen table.
    share : float
        Bytes of the table over those of keys and float32 values.
    auc : float
    lost : dict of float
        AUC and log loss, against float32.
    """

    model: str
    levels: str
    bits: int
    bytes: int
    share: float
    auc: float
    lost: Losses


def parts(name: str, rows: int | None) -> tuple[Batch, Batch]:
    """Return the rows to train on and those that are held out; `rows` are the generated ones (default: 1,000,000)."""
    if name != GENERATED:
        return quality.parts(name)
    from bitlane_studies.sparse.rows import load_rows

    found = load_rows(name, rows)
    cut = found.rows - found.rows // 10
    return found.slice(0, cut), found.slice(cut, found.rows)


def trained(kind: str, train: Batch, fields: int, epochs: int, start: int) -> SparseModel:
    """Return a model that has learned with its default settings; `start` is the seed."""
    from bitlane.sparse.models.model import SparseModel

    arguments = Namespace(**{**DEFAULTS, "model": kind, "seed": start})
    model = SparseModel(model_settings.model_spec(arguments, fields if model_settings.needs_fields(kind) else 0))
    for _ in range(epochs):
        model.learn(train)
    return model


def serve(model: SparseModel, test: Batch) -> Iterator[Served]:
    """Yield the model with float32 values, and with each kind and number of levels."""
    from bitlane.sparse.registry.held_out import score_held_out
    from bitlane.sparse.registry.quantizing import frozen_model, quality_lost, sample_weights
    from bitlane.sparse.tables.codebooks import fit_codebook

    values, weights = sample_weights(model, len(model.parameters.table))
    plain = (8 + 4 * values.shape[1]) * len(model.parameters.table)
    before = None
    for bits, (kind, weighted) in [(32, ("float32", False)), *((bits, each) for bits in BITS for each in LEVELS)]:
        codebook = None if bits == 32 else fit_codebook(values, bits, kind, weights if weighted else None)
        frozen = frozen_model(model, codebook)
        after = score_held_out([frozen], [test]).quality(0)
        assert after is not None and after.auc is not None
        before = before or after
        name, size = kind + (", weighted" if weighted else ""), frozen.table.nbytes
        yield Served(model.spec.kind.upper(), name, bits, size, size / plain, after.auc, quality_lost(before, after))


def study(name: str, epochs: int, start: int, rows: int | None, say: Callable[[str], object]) -> list[Served]:
    """Train all models on a data set, and serve them.

    Parameters
    ----------
    name : str
        A data set, a file, or ``"generated"``.
    epochs : int
    start : int
        The seed.
    rows : int, optional
        Generated ones. Default: 1,000,000.
    say : callable
        Takes a line about the progress.
    """
    train, test = parts(name, rows)
    fields = int(max(train.fields.max(initial=0), test.fields.max(initial=0))) + 1
    say(f"{name}: {train.rows:,} rows to train on, {test.rows:,} held out, {fields} fields")
    found: list[Served] = []
    for kind in quality.KINDS:
        if kind == quality.NETWORK and find_spec("torch") is None:
            say(f"{kind.upper()} is left out: it needs torch")
            continue
        say(f"training {kind.upper()}")
        found += serve(trained(kind, train, fields, epochs, start), test)
    return found


def report(name: str, epochs: int, found: Sequence[Served]) -> str:
    """Return the measurements of a data set as a table."""
    head = [f"{data.data_name([name])}, {epochs} epochs", "levels"]
    cells = [[*head, "bits", "MB", "of key + value", "AUC", "AUC lost", "log loss lost"]]
    for each in found:
        cells.append(
            [
                each.model,
                each.levels,
                str(each.bits),
                f"{each.bytes / 1e6:.2f}",
                f"{each.share:.3f}",
                f"{each.auc:.4f}",
                f"{each.lost['auc']:+.5f}",
                f"{each.lost['log_loss']:+.5f}",
            ]
        )
    return align_columns(cells, left=2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, print a table for each data set, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bitlane_studies.sparse.quantized_serving", description=__doc__)
    parser.add_argument("data", nargs="+", metavar="DATA", help="goodbooks, census32k, files of data, or generated")
    parser.add_argument(
        "--epochs", type=positive, help=f"passes over the data (default: {quality.EPOCHS}; generated: 1)"
    )
    parser.add_argument("--rows", type=positive, metavar="N", help="generated rows (default: 1,000,000)")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the first weights (default: 0)")
    arguments = parser.parse_args(argv)
    try:
        data.require_libraries("this study")
        for name in arguments.data:
            epochs = arguments.epochs or (1 if name == GENERATED else quality.EPOCHS)
            found = study(name, epochs, arguments.seed, arguments.rows, print)
            print(report(name, epochs, found), end="\n\n")
    except BitlaneError as error:
        print(f"quantized_serving: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

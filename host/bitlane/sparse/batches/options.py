"""How files are read: one frozen set of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.batches.arrays import SPLITS
from bitlane.sparse.batches.checks import LARGEST_FIELD, check_task
from bitlane.sparse.batches.formats import NAMES, check_encoding
from bitlane.sparse.batches.labels import check_positive
from bitlane.sparse.batches.schema import POINT, ListSchema, Schema, check_decimal


@dataclass(frozen=True)
class ReadOptions:
    """Settings of a source.

    Attributes
    ----------
    label, time, weight : str, optional
        Columns; instead of a schema, whose other columns are then chosen by `columns.default_schema`. The label is
        "label" by default. Of npz files, `weight` is an array.
    schema : Schema or ListSchema, optional
        The columns of CSV, Parquet and Arrow files.
    task : {"classification", "regression"}, default="classification"
        Which labels are valid: see `checks.check_labels`.
    positive : str, optional
        The label that is 1, all others being 0: see `labels.labels_of_values`.
    labelled : bool, default=True
        False: CSV, Parquet and Arrow files may lack the label column; labels are then nan. Weights are not read.
    max_fields : int, optional
        Fields must be below it.
    batch_rows : int, default=8192
        Rows of a batch; the last one of an epoch may have fewer.
    shuffle_rows : int, default=0
        Each group of so many consecutive rows is permuted at random; 0 leaves the order as it is.
    shuffle_files : bool, default=False
        Permute the files at random in each epoch.
    seed : int, default=0
        Of both permutations.
    threads : int, default=2
        Threads that parse and hash; one more reads. The result is the same for any number.
    block_bytes : int, default=4 MiB
        Bytes of text that a thread parses at a time.
    format : str, optional
        The format of files whose suffix says none, such as ``clicks.txt`` and ``part-00000``: one of `formats.NAMES`.
    column_names : tuple of str, optional
        The columns of CSV files without a header line.
    header : bool, default=True
        False: CSV files have no header line, and their columns are x0, x1, ...
    separator : str, optional
        Between the columns of CSV files; by default a comma, and a tab in TSV.
    encoding : str, optional
        Of text files, as Python names it; UTF-8 by default.
    comment : str, optional
        What begins a line of text files that is a comment, also within a cell that has line breaks.
    decimal : {".", ","}, default="."
        Of numbers in text; instead of a schema, which has its own.
    ignore : tuple of str
        Columns that a schema which is chosen by the file leaves out.
    namespaces : tuple of str, optional
        Of Vowpal Wabbit's text: each is the field of its position, and all others share the next one. By default those
        of the first block of the first file.
    split : {"train", "test"}, default="train"
        Of npz files with dense arrays.
    share : tuple of int, default=(0, 1)
        (i, n): share i of n shares of the rows. Pieces are dealt out in turn: some thousand rows of a table, or some
        hundred thousand bytes of text; of a stream complete segments, by their names. No row is in two shares.
    test_fraction : float, optional
        So many of the rows of files are test rows, by their numbers: see `left_out.is_held_out`. They are left out.
    is_test : bool, default=False
        With `test_fraction`: read the test rows, and leave out all others.
    thinned : bool, default=False
        Leave out rows of weight 0, as a training does.
    negatives : float, optional
        Share of the rows with label 0 that stays, chosen by the rows' numbers and `seed`: see `thinning.Thinning`.
    filesystem : pyarrow.fs.FileSystem, optional
        Where the paths are; by default each path says it.
    """

    label: str | None = None
    time: str | None = None
    weight: str | None = None
    schema: Schema | ListSchema | None = None
    task: str = "classification"
    positive: str | None = None
    labelled: bool = True
    max_fields: int | None = None
    batch_rows: int = 8192
    shuffle_rows: int = 0
    shuffle_files: bool = False
    seed: int = 0
    threads: int = 2
    block_bytes: int = 4 << 20
    format: str | None = None
    column_names: tuple[str, ...] | None = None
    header: bool = True
    separator: str | None = None
    encoding: str | None = None
    comment: str | None = None
    decimal: str = POINT
    ignore: tuple[str, ...] = ()
    namespaces: tuple[str, ...] | None = None
    split: str = "train"
    share: tuple[int, int] = (0, 1)
    test_fraction: float | None = None
    is_test: bool = False
    thinned: bool = False
    negatives: float | None = None
    filesystem: Any = None

    def __post_init__(self) -> None:
        check_task(self.task)
        object.__setattr__(self, "positive", check_positive(self.positive, self.task))
        least = {"batch_rows": 1, "shuffle_rows": 0, "seed": 0, "threads": 1, "block_bytes": 1}
        for name, smallest in least.items():
            given = getattr(self, name)
            if not isinstance(given, int) or given < smallest:
                raise DataError(f"{name}={given!r} must be an integer of at least {smallest}")
        if self.max_fields is not None and not 1 <= self.max_fields <= LARGEST_FIELD + 1:
            raise DataError(f"max_fields={self.max_fields} must be from 1 to {LARGEST_FIELD + 1}")
        if not 0 <= self.share[0] < self.share[1]:
            raise DataError(f"share={self.share} must be an index, from 0, and the number of shares above it")
        if self.test_fraction is not None and not 0.0 < self.test_fraction < 1.0:
            raise DataError(f"a test fraction of {self.test_fraction:g} is not between 0 and 1, for example 0.1")
        if self.negatives is not None:
            check_negatives(self.negatives, self.task)
            if self.shuffle_files:
                raise DataError("negatives are chosen by the rows' numbers: set shuffle_files=False")
        if self.format is not None and self.format not in NAMES:
            raise DataError(f"format={self.format!r} is unknown; choose {', '.join(NAMES)}")
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.comment is not None and (not self.comment or "\n" in self.comment):
            raise DataError(f"comment={self.comment!r}: use what begins a line, such as '#'")
        check_decimal(self.decimal)
        if self.split not in SPLITS:
            raise DataError(f"split={self.split!r} is unknown; choose 'train' or 'test'")
        if self.schema is not None:
            given, own = ((each.label, each.time, each.weight) for each in (self, self.schema))
            if any(mine not in (None, its) for mine, its in zip(given, own, strict=True)):
                raise DataError(f"label, time and weight {given} differ from those of the schema: set them there")

    @property
    def thins(self) -> bool:
        """Whether rows may be left out by `thinned` and `negatives`."""
        weight = self.weight if self.schema is None else self.schema.weight
        return self.negatives is not None or (self.thinned and weight is not None)


def check_negatives(share: float, task: str, name: str = "negatives=") -> None:
    """Raise DataError unless a share of the rows with label 0 can be kept; `name` is what messages begin with."""
    if task != "classification":
        raise DataError(f"{name}{share:g}: a regression has no negatives; omit it")
    if not 0.0 < share < 1.0:
        raise DataError(
            f"{name}{share:g}: the share of the rows with label 0 that is kept is between 0 and 1, such as 0.1"
        )

"""Sources of batches: files and memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from bitlane.errors import DataError
from bitlane.sparse.batches.arranging import arranged, file_order, split_start
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.labels import warn_if_absent
from bitlane.sparse.batches.left_out import part_of
from bitlane.sparse.batches.options import ReadOptions
from bitlane.sparse.batches.pipeline import ahead, in_order
from bitlane.sparse.batches.schema import ListSchema, Schema
from bitlane.sparse.batches.thinning import Thinning
from bitlane.support.csv_text import HEAD_BYTES, column_of
from bitlane.support.optional import require_extra
from bitlane.support.user_warnings import warn_user

if TYPE_CHECKING:
    import pyarrow as pa

    from bitlane.sparse.batches.checks import RowLocation
    from bitlane.sparse.batches.files import DataFile
    from bitlane.sparse.batches.pieces import Piece
    from bitlane.sparse.batches.stream import StreamOffset

_ROWS_AHEAD = 1 << 15
_OPENERS = 16  # threads that read files' metadata


class Source(Protocol):
    """What a training reads: the same batches for the same epoch, whatever the number of threads."""

    def batches(self, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
        """Yield the batches of an epoch, without its first `start` rows.

        The batches that follow are those of an uninterrupted epoch; if `start` is within one, its rest comes first.
        """
        ...


@runtime_checkable
class Stream(Source, Protocol):
    """A source of one epoch that knows where it is. Its batches are not cut."""

    @property
    def offset(self) -> StreamOffset:
        """The end of the last batch that the caller got; a stream can begin there."""
        ...


@runtime_checkable
class Stoppable(Protocol):
    """A source that may wait for rows for ever."""

    def stop(self) -> None:
        """End the source: `batches` returns soon."""
        ...


@runtime_checkable
class Thinned(Protocol):
    """A source that may leave out rows of label 0, and counts them."""

    @property
    def thinning(self) -> Thinning:
        """What leaves them out."""
        ...


class MemorySource:
    """A batch in memory.

    Parameters
    ----------
    batch : Batch
    batch_rows, shuffle_rows, seed : int
        As in `ReadOptions`.
    """

    def __init__(self, batch: Batch, *, batch_rows: int = 8192, shuffle_rows: int = 0, seed: int = 0):
        self.batch = batch
        self.options = ReadOptions(batch_rows=batch_rows, shuffle_rows=shuffle_rows, seed=seed)
        self.wait_seconds = 0.0
        self.rows = 0

    @property
    def epoch_rows(self) -> int:
        """Rows of an epoch."""
        return self.batch.rows

    def batches(self, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
        """Yield the batches of an epoch, without its first `start` rows."""
        first, inner = split_start(start, self.options.shuffle_rows)
        chunks = iter([self.batch.slice(first, self.batch.rows)])
        for batch in arranged(chunks, self.options, epoch, (first, inner)):
            self.rows += batch.rows
            yield batch


class FileSource:
    """Rows of files: read by one thread in order, parsed and hashed by others, and shuffled within bounded groups.

    Parameters
    ----------
    paths : str, Path or sequence of these
        See `files.find_files`.
    options : ReadOptions, optional

    Attributes
    ----------
    files : list of DataFile
    schema : Schema, ListSchema or None
        The columns of tables, with the types of the first table; None if all files are libsvm, libffm or npz.
    types : dict of str to str
        The types of all columns of the first table, if it was asked for them.
    wait_seconds : float
        Time that callers waited for a batch.
    rows : int
        Rows that callers got.
    thinning : Thinning
        Counts the rows of label 0 that were left out.

    Raises
    ------
    DataError
        No file matches, or the first table has not the columns.
    """

    def __init__(self, paths: str | Path | Sequence[str | Path], options: ReadOptions | None = None):
        require_extra("numba", "Reading sparse rows", "'bitlane[sparse]'")
        require_extra("pyarrow", "Reading sparse rows", "'bitlane[sparse]'")
        from bitlane.sparse.batches.files import find_files
        from bitlane.sparse.batches.text import LAYOUTS

        self.options = ReadOptions() if options is None else options
        self.files: list[DataFile] = find_files(paths, self.options.filesystem, self.options.format)
        self._set_encoding()
        for file in self.files if self.options.weight is not None else ():
            if file.format in LAYOUTS:
                raise DataError(
                    f"{file.name}: {file.format} has no weights of rows: omit --weight, or use CSV or Parquet"
                )
        self.thinning = Thinning(self.options.negatives, self.options.seed)
        self.types: dict[str, str] = {}
        self.schema = self._find_schema()
        self._find_namespaces()
        self.wait_seconds = 0.0
        self.rows = 0
        self._epoch_rows: int | None = None
        self._batches: dict[str, Batch] = {}

    @property
    def epoch_rows(self) -> int | None:
        """Rows of an epoch: from the files' metadata, or once an epoch has been read; None if unknown."""
        if self._epoch_rows is None:
            is_part = self.options.test_fraction is not None or self.thins
            self._epoch_rows = None if is_part else self.file_rows()
        return self._epoch_rows

    def _set_encoding(self) -> None:
        """Tell the files of text their encoding and comments, and warn if the first is UTF-8 nevertheless."""
        from bitlane.sparse.batches.decoding import seems_utf8
        from bitlane.sparse.batches.files import reading
        from bitlane.sparse.batches.formats import TEXT

        encoding, comment = self.options.encoding, self.options.comment
        if encoding is None and comment is None:
            return
        self.files = [
            replace(file, encoding=encoding, comment=comment) if file.format in TEXT else file for file in self.files
        ]
        first = next((file for file in self.files if file.format in TEXT), None)
        if first is None or encoding is None or encoding.lower().replace("_", "-").startswith("utf"):
            return
        with reading(first.name), first.open_bytes() as stream:
            if seems_utf8(stream.read(HEAD_BYTES)):
                warn_user(f"{first.name} is UTF-8 text, and it is read as {encoding}: is --encoding right?")

    def _find_schema(self) -> Schema | ListSchema | None:
        from bitlane.sparse.batches.columns import default_schema, types_of
        from bitlane.sparse.batches.pieces import TABLES, columns_of

        options = self.options
        tables = [file for file in self.files if file.format in TABLES]
        schema = options.schema
        if not tables or isinstance(schema, ListSchema) or (schema is not None and not schema.lacks_types):
            return schema
        columns, name = columns_of(tables[0], options), tables[0].name
        self.types = types_of(columns)
        if schema is not None:
            return schema.with_types(self.types)
        label, weight, ignore = options.label, options.weight, options.ignore
        if not options.header and options.column_names is None:
            label, weight = (None if each is None else column_of(each, columns.names) for each in (label, weight))
            ignore = tuple(column_of(each, columns.names) for each in ignore)
        return default_schema(
            columns,
            name,
            label=label,
            time=options.time,
            weight=weight,
            labelled=options.labelled,
            ignore=ignore,
            decimal=options.decimal,
        )

    def _find_namespaces(self) -> None:
        from bitlane.sparse.batches.pieces import first_namespaces

        first = next((file for file in self.files if file.format == "vw"), None)
        if first is not None and self.options.namespaces is None:
            self.options = replace(self.options, namespaces=first_namespaces(first, self.options))

    @property
    def thins(self) -> bool:
        """Whether rows may be left out by their weights and labels: those of Vowpal Wabbit's text have weights."""
        return self.options.thins or (self.options.thinned and any(file.format == "vw" for file in self.files))

    @property
    def has_tables(self) -> bool:
        """Whether a file has columns."""
        from bitlane.sparse.batches.pieces import TABLES

        return any(file.format in TABLES for file in self.files)

    def column_names(self) -> list[str]:
        """Return the names of the columns of the first table."""
        from bitlane.sparse.batches.pieces import TABLES, columns_of

        table = next(file for file in self.files if file.format in TABLES)
        return list(columns_of(table, self.options).names)

    def first_rows(self, schema: Schema) -> tuple[pa.RecordBatch | None, RowLocation]:
        """Return the first rows of the first table, None if it has none, and where they are."""
        from bitlane.sparse.batches.checks import RowLocation
        from bitlane.sparse.batches.pieces import TABLES, first_rows

        table = next(file for file in self.files if file.format in TABLES)
        return first_rows(table, schema, self.options), RowLocation(table.name)

    def fitted(
        self, schema: Schema, standard: Sequence[str] | None = None, buckets: Mapping[str, int] | None = None
    ) -> Schema:
        """Return a schema with what the first rows of the first table say; those of weight 0 do not count.

        Parameters
        ----------
        schema : Schema
        standard : sequence of str, optional
            Numeric columns that get centres and scales. Default: all.
        buckets : mapping of str to int, optional
            Columns that get edges of so many buckets.
        """
        from bitlane.sparse.batches.columns import weights_of
        from bitlane.sparse.batches.moments import edges_of, scales_of

        names = schema.numeric if standard is None else standard
        rows, location = self.first_rows(schema) if names or buckets else (None, None)
        if rows is None or location is None:
            return schema
        weights = weights_of(rows, schema, location, self.options.labelled)
        if weights is not None:
            rows = rows.filter(weights > 0)
        scales = [each for each in schema.scales if each[0] not in names]
        scales += scales_of(rows, names, location, schema)
        transforms = [
            (name, kind, edges_of(rows, name, buckets[name], location, schema))
            if kind == "buckets" and buckets and name in buckets
            else (name, kind, settings)
            for name, kind, settings in schema.transforms
        ]
        return replace(schema, scales=tuple(scales), transforms=tuple(transforms))

    def file_rows(self) -> int | None:
        """Return the rows of the files, those that are left out included; None if only reading them would tell."""
        from bitlane.sparse.batches.pieces import COUNTED, known_rows

        if any(file.format not in COUNTED for file in self.files):
            return None
        with ThreadPoolExecutor(_OPENERS) as pool:
            counts = list(pool.map(lambda file: known_rows(file, self.options.split), self.files))
        return None if None in counts else sum(count for count in counts if count is not None)

    def batches(self, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
        """Yield the batches of an epoch, without its first `start` rows.

        Closing the generator ends the threads.

        Raises
        ------
        DataError
            Something in a file cannot be used. Batches of the rows before it come first.
        """
        options = self.options
        first, inner = split_start(start, options.shuffle_rows)
        chunks = in_order(self._pieces(epoch, first), options.threads)
        batches = ahead(arranged(chunks, options, epoch, (first, inner)), max(2, _ROWS_AHEAD // options.batch_rows))
        count = 0
        try:
            while True:
                begin = perf_counter()
                batch = next(batches, None)
                self.wait_seconds += perf_counter() - begin
                if batch is None:
                    break
                if epoch == start == count == 0:
                    warn_if_absent(batch.labels, options.positive, self.files[0].name)
                count += batch.rows
                self.rows += batch.rows
                yield batch
        finally:
            batches.close()
        if start + count == 0 and options.share[1] == 1:
            what = "there are no rows" + (" to learn: all weights are 0" if self.thins else "")
            raise DataError(f"{', '.join(file.name for file in self.files[:3])}: {what}")
        if count:
            self._epoch_rows = start + count

    def _pieces(self, epoch: int, start: int) -> Generator[Callable[[], Batch], None, None]:
        from bitlane.sparse.batches.pieces import Skip, pieces_of

        share, fraction, thins = self.options.share, self.options.test_fraction, self.thins
        is_whole = share[1] == 1 and fraction is None and not thins
        skip = Skip(start if is_whole else 0)
        files = [self.files[index] for index in file_order(len(self.files), self.options, epoch)]
        pieces: Iterator[Piece] = (
            piece for file in files for piece in pieces_of(file, self.schema, self.options, skip, self._batches)
        )
        if fraction is not None:
            pieces = part_of(pieces, fraction, is_test=self.options.is_test)
        if thins:
            pieces = self.thinning.of_pieces(pieces)
        yield from pieces if is_whole else _shared(pieces, share, start)


def open_source(
    paths: str | Path | Sequence[str | Path], options: ReadOptions | None = None, **settings: Any
) -> FileSource:
    """Open files, chosen by their suffixes, or a data set of BITLANE_DATA by its name.

    Parameters
    ----------
    paths : str, Path or sequence of these
        Files, folders, globs, URIs, or names such as ``goodbooks``: see `files.find_files`.
    options : ReadOptions, optional
    **settings
        Attributes of `ReadOptions` that replace those of `options`: ``label="click", shuffle_rows=100_000``.

    Returns
    -------
    FileSource

    Raises
    ------
    DataError
        No file matches, or a setting is invalid.

    Examples
    --------
    >>> source = open_source("logs/day-*/part-*.parquet", label="click", threads=4)  # doctest: +SKIP
    >>> for batch in source.batches(epoch=0):  # doctest: +SKIP
    ...     model.learn(batch)
    """
    return FileSource(paths, replace(options or ReadOptions(), **settings))


def _shared(pieces: Iterator[Piece], share: tuple[int, int], start: int) -> Iterator[Piece]:
    """Yield the pieces of one of several workers: every n-th from piece i on, without their first `start` rows.

    Parameters
    ----------
    pieces : iterator of Piece
        All pieces, without a skip.
    share : (int, int)
        i and n.
    start : int
        Text has to be decoded to count its rows.
    """
    index, count = share
    for number, piece in enumerate(pieces):
        if number % count != index:
            continue
        if start:
            rows = piece.rows or piece().rows
            if start >= rows:
                start -= rows
                continue
            piece, start = replace(piece, drop=start), 0
        yield piece

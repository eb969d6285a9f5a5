"""Which rows a version has learned, and whether held-out rows are among them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.identity import FileIdentity
from bitlane.sparse.batches.pipeline import close
from bitlane.sparse.parameters.row_digests import digests_of
from bitlane.sparse.parameters.row_sample import RowSample
from bitlane.sparse.registry.overlap import RowOverlap, overlap_of
from bitlane.sparse.training.run_folder import sample_of
from bitlane.support.user_warnings import warn_user

MOST_LEARNED = 0.01  # of held-out rows: without loss, they make a log loss of 0.2 better by 0.002, what it may lose


@dataclass(frozen=True)
class HeldOutRows:
    """The rows on which a version is measured.

    Attributes
    ----------
    identities : tuple of FileIdentity
        Of their files, in order. None of data sets whose own test rows are used.
    fraction : float or None
        Of the rows, those that a training with this test fraction has left out; None for all.
    allowed : bool
        Whether rows that a version has learned are allowed.
    """

    identities: tuple[FileIdentity, ...] = ()
    fraction: float | None = None
    allowed: bool = False


@dataclass(frozen=True)
class LearnedRows:
    """The rows of a training.

    Attributes
    ----------
    identities : tuple of FileIdentity
        Of the files, in the order of their rows' numbers.
    fraction : float or None
        Of the rows, those that were left out: `bitlane.sparse.batches.left_out.is_held_out`.
    folder : str or None
        Whose segments were followed, instead of files.
    sample : RowSample or None
        Of the rows, by their content.
    """

    identities: tuple[FileIdentity, ...]
    fraction: float | None = None
    folder: str | None = None
    sample: RowSample | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None) -> LearnedRows | None:
        """Return the rows of a training by the settings of its data; None if these do not say it.

        Raises
        ------
        DataError
            The record is damaged.
        """
        if not settings or settings.get("files") is None:
            return None
        try:
            identities = tuple(FileIdentity(**each) for each in settings["files"])
        except TypeError as error:
            raise DataError(f"the record of the files that a training has read is damaged: {error}") from error
        folder = settings["paths"][0] if settings.get("follow") and settings.get("paths") else None
        return cls(identities, settings.get("test_fraction"), folder, sample_of(settings))

    def overlap(self, rows: HeldOutRows) -> str | None:
        """Return which held-out rows were learned, or None if none was, as far as files tell it.

        A file is the same if its bytes are. If its name is the same and its bytes are not, it has changed since.
        """
        if self.folder is not None:
            inside = [file.name for file in rows.identities if file.name.startswith(self.folder.rstrip("/") + "/")]
            return f"{inside[0]} is a segment of {self.folder}, which the training followed" if inside else None
        learned = [file.digest for file in self.identities]
        given = [file.digest for file in rows.identities]
        names = {file.name for file in self.identities}
        same = [file for file in rows.identities if file.digest in learned]
        changed = [file for file in rows.identities if file.name in names and file.digest not in learned]
        if changed:
            return f"{changed[0].name} has changed since the training read it: its rows may be the same"
        if not same:
            return None
        name = same[0].name
        if self.fraction is None:
            return f"all rows of {name} were learned"
        if rows.fraction != self.fraction:
            return f"all rows of {name} were learned but for those of --test-fraction {self.fraction:g}"
        behind = 1 + max(index for index, digest in enumerate(given) if digest in learned)
        if given[:behind] != learned[:behind]:
            return f"{name} was learned among other files: give all of them in the same order, since rows have numbers"
        return None


class NewRowsCheck:
    """Whether held-out rows are new to a model: by its files at once, and by their content while they are read.

    Parameters
    ----------
    settings : mapping or None
        Of the data of its training.
    rows : HeldOutRows, optional
        Without it only the content is compared.
    what : str
        The model, for messages.

    Attributes
    ----------
    told : list of str
        Sentences on what was found so far.

    Raises
    ------
    DataError
        The model has learned some of these rows, and that is not allowed.
    """

    def __init__(self, settings: Mapping[str, Any] | None, rows: HeldOutRows | None, what: str):
        self.told: list[str] = []
        self._what, self._allowed = what, rows is not None and rows.allowed
        self._by_numbers = rows is not None and rows.fraction is not None  # test rows of the training's own files
        self._learned = LearnedRows.of(settings)
        if rows is None:
            self.told.append("unknown: the caller did not say which rows these are")
        elif self._learned is None:
            self.told.append(f"unknown: {what} has no record of the rows that it has learned")
        elif problem := self._learned.overlap(rows):
            self._refuse(problem)
        else:
            self.told.append(f"{what} has learned none of them, by the record of its files")

    @property
    def text(self) -> str:
        """What was found so far, as a line."""
        return "; ".join(dict.fromkeys(self.told))

    def through(self, batches: Iterable[Batch]) -> Generator[Batch, None, None]:
        """Yield held-out rows, and compare them with those of the training behind the last one.

        Raises
        ------
        DataError
            More than a hundredth of them were learned, and that is not allowed.
        """
        sample = None if self._learned is None else self._learned.sample
        if sample is None:
            self.told.append(f"{self._what} has no sample of its rows: the same rows in other files are not noticed")
            yield from batches
            return
        bound, last = np.uint64(sample.kept()[2]), None if sample.times is None else sample.times[1]
        found, rows, past = [np.zeros(0, np.uint64)], 0, 0
        source = iter(batches)
        try:
            for batch in source:
                digests = digests_of(batch)
                found.append(digests[digests <= bound])
                rows += batch.rows
                if batch.times is not None and last is not None:
                    past += int(np.count_nonzero(batch.times <= last))
                yield batch
        finally:
            close(source)
        self._tell_content(overlap_of(sample, np.concatenate(found), rows))
        if past and last is not None:
            early = f"{_percent(past / rows)} of the held-out rows are not later than the last row that it has learned"
            if self._by_numbers:
                self.told.append(early)
            else:
                self._warn(f"{self._what}: {early}, of {utc_text(last)}, so it may be measured too well")

    def _tell_content(self, overlap: RowOverlap) -> None:
        looked_up = f"{overlap.found:,} of {overlap.compared:,} in a sample"
        share = f"about {_percent(overlap.share)} of the held-out rows are rows that it has learned ({looked_up})"
        if overlap.share > MOST_LEARNED:
            self._refuse(share)
        elif overlap.share:
            self._warn(f"{self._what}: {share}")
        elif overlap.can_tell:
            self.told.append("a sample of its rows agrees")
        else:
            self.told.append("a sample of its rows cannot tell more: too few can be compared, or too many are alike")

    def _refuse(self, problem: str) -> None:
        if not self._allowed:
            raise DataError(
                f"{self._what} has learned held-out rows: {problem}; give other rows, or add --allow-learned"
            )
        self.told.append(f"allowed by --allow-learned: {problem}")

    def _warn(self, text: str) -> None:
        if text not in self.told:
            self.told.append(text)
            warn_user(text)


def utc_text(seconds: int) -> str:
    """Return a time, in seconds since 1970, as text in UTC; a time that no calendar has as its number."""
    try:
        return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "less than 0.1%"

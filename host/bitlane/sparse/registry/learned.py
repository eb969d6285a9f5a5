"""Which rows a version has learned, and whether held-out rows are among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.batches.identity import FileIdentity


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
    """

    identities: tuple[FileIdentity, ...]
    fraction: float | None = None
    folder: str | None = None

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
        return cls(identities, settings.get("test_fraction"), folder)

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


def check_not_learned(settings: Mapping[str, Any] | None, rows: HeldOutRows, what: str) -> str:
    """Return a sentence on whether held-out rows are new to a model.

    Parameters
    ----------
    settings : mapping or None
        Of the data of its training.
    rows : HeldOutRows
    what : str
        The model, for messages.

    Raises
    ------
    DataError
        The model has learned some of these rows, and that is not allowed.
    """
    learned = LearnedRows.of(settings)
    if learned is None:
        return f"unknown: {what} has no record of the rows that it has learned"
    problem = learned.overlap(rows)
    if problem is None:
        return f"{what} has learned none of them, by the record of its files"
    if rows.allowed:
        return f"allowed by --allow-learned: {problem}"
    raise DataError(f"{what} has learned held-out rows: {problem}; give other rows, or add --allow-learned")

"""Labels of versions: each move is a file that never changes, and the last one counts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.registry import records
from bitlane.support.stores import FileTaken, Store

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_RECORD = re.compile(r"(\d{7,})\.json")
_RESERVED = ("latest",)


@dataclass(frozen=True)
class Move:
    """A label was moved.

    Attributes
    ----------
    number : int
        Of the label's moves, from 1.
    version : int
        That it names from then on.
    time : str
        UTC, ISO 8601.
    reason : str
    back : bool
        Whether it was a roll-back.
    """

    number: int
    version: int
    time: str
    reason: str
    back: bool = False


class Labels:
    """The labels in a registry's folder.

    Parameters
    ----------
    store : Store
        Of the registry.
    """

    def __init__(self, store: Store):
        self._store = store

    def all(self) -> dict[str, int]:
        """Return the version of each label."""
        versions = {name: self.current(name) for name in self.names()}
        return {name: version for name, version in versions.items() if version is not None}

    def names(self) -> list[str]:
        """Return the names of the labels, without reading their moves."""
        return self._store.names("labels")

    def current(self, name: str) -> int | None:
        """Return the version that a label names, or None; errors as of `history`."""
        numbers = self.numbers(name)
        return self.recorded(name, numbers[-1]).version if numbers else None

    def history(self, name: str) -> list[Move]:
        """Return all moves of a label, the oldest first.

        Raises
        ------
        DataError
            The name cannot be that of a label, or a file is damaged.
        """
        return [self.recorded(name, number) for number in self.numbers(name)]

    def before(self, name: str) -> int:
        """Return the version to which a roll-back leads; DataError if the label has named only one."""
        stack = self.stack(name)
        if len(stack) < 2:
            known = f"it has always named version {stack[0]}" if stack else "there is no such label"
            raise DataError(f"{self._store.uri}: label {name!r} cannot be rolled back: {known}")
        return stack[-2]

    def stack(self, name: str) -> list[int]:
        """Return the versions that a label has named, without those that were rolled back; the current one last."""
        versions: list[int] = []
        for move in self.history(name):
            while move.back and versions and versions[-1] != move.version:  # one, unless moves were set aside
                del versions[-1]
            if not versions or versions[-1] != move.version:
                versions.append(move.version)
        return versions

    def next_number(self, name: str) -> int:
        """Return the number of the next move of a label; DataError if the name cannot be that of a label."""
        return 1 + max(self.numbers(name), default=0)

    def move(self, name: str, number: int, version: int, reason: str, *, back: bool = False) -> Move:
        """Write a move; `number` is the one that was next when it was decided.

        Raises
        ------
        BitlaneError
            Somebody else has moved the label meanwhile, or it cannot be written.
        """
        move = Move(number, version, records.now(), reason, back)
        try:
            self._store.write(path_of(name, move.number), [records.to_bytes(vars(move))])
        except FileTaken as error:
            raise BitlaneError(
                f"{self._store.uri}: label {name!r} was moved concurrently; check it and try again"
            ) from error
        return move

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of the moves of a label, ascending; DataError if the name cannot be that of a label."""
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise DataError(f"{name!r} cannot be a label: use a letter, then letters, digits, '.', '_', '-'")
        found = (_RECORD.fullmatch(each) for each in self._store.names(f"labels/{name}"))
        return sorted(int(each[1]) for each in found if each)

    def recorded(self, name: str, number: int) -> Move:
        """Return a move of a label; DataError if its file is damaged."""
        path = path_of(name, number)
        record = records.from_bytes(self._store.read(path), self._store.name_of(path))
        try:
            move = Move(**record)
        except TypeError as error:
            raise DataError(f"{self._store.name_of(path)} is damaged: {error}") from error
        if move.number != number or not isinstance(move.version, int):
            raise DataError(f"{self._store.name_of(path)} is damaged: it is not move {number} of a label")
        return move


def path_of(name: str, number: int) -> str:
    """Return the path of a move of a label in the registry."""
    return f"labels/{name}/{number:07}.json"

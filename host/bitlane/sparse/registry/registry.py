"""The registry of one model: immutable versions, labels that move, readers."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.registry import records
from bitlane.sparse.registry.labels import Labels, Move
from bitlane.sparse.registry.manifest import BASE, NAME, Description, Manifest
from bitlane.sparse.registry.readers import Readers
from bitlane.sparse.scoring.calibrators import Calibrator, read_calibrator
from bitlane.sparse.scoring.layers import LayeredTable, PartitionedTable, overlaid
from bitlane.sparse.scoring.model import FrozenModel
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.shard_files import ShardChange, read_change, read_dense
from bitlane.support.stores import FileMissing, FileTaken, Store, StoredFile

LATEST = "latest"
CLAIM = "publisher.json"
_VERSION = re.compile(r"\d{7,}")
_TABLES = ("rows-", "deleted-")
_ATTEMPTS = 100  # to get a number: others may publish at the same time


class Draft:
    """A version that is being written. Make one by `ModelRegistry.draft`.

    Attributes
    ----------
    version : int
    folder : Store
    """

    def __init__(self, version: int, store: Store, claim: bytes):
        self.version, self.folder = version, store.folder(folder_of(version))
        self._store, self._claim = store, claim

    def commit(
        self,
        kind: str,
        parent: int | None,
        base: int,
        description: Description,
        files: list[StoredFile],
        rows: int,
        shards: Partition,
    ) -> Manifest:
        """Write the manifest: from now on, the version exists.

        Parameters
        ----------
        kind : {"base", "delta"}
        parent : int or None
        base : int
            First version of the chain.
        description : Description
        files : list of StoredFile
        rows : int
            Of the model.
        shards : Partition

        Raises
        ------
        BitlaneError
            It cannot be written, somebody else has taken the number, or the parent was collected meanwhile.
        """
        changed, deleted = (sum(each.rows for each in files if each.name.startswith(prefix)) for prefix in _TABLES)
        manifest = Manifest(
            version=self.version,
            kind=kind,
            parent=parent,
            base=base,
            created=records.now(),
            description=description,
            shards=shards.servers,
            virtual_shards=shards.virtual_shards,
            rows=rows,
            changed=changed,
            deleted=deleted,
            files=tuple(files),
        )
        with self._store.locked():
            if self.folder.read(CLAIM) != self._claim:
                raise BitlaneError(f"{self.folder.uri} was taken by another publisher; publish again")
            if parent is not None and not self._store.exists(f"{folder_of(parent)}/{NAME}"):
                raise BitlaneError(f"{self._store.uri}: version {parent} was collected in the meantime; publish again")
            self.folder.write(NAME, [manifest.to_bytes()])
        return manifest


class ModelRegistry:
    """The versions of one model, in a folder. Any process may use it at the same time as others.

    Parameters
    ----------
    uri : str or Path
        Local path or URI, see `Store`. It need not exist.
    filesystem : pyarrow.fs.FileSystem, optional
        See `Store`.
    mapped : bool, default=False
        Map the files of loaded versions instead of reading them into memory; see `Store.open`.

    Attributes
    ----------
    uri : str
    store : Store
    """

    def __init__(self, uri: str | Path, filesystem: Any = None, *, mapped: bool = False):
        self.store = Store(uri, filesystem, mapped=mapped)
        self.uri = self.store.uri
        self._labels, self._readers = Labels(self.store), Readers(self.store)

    # --- versions
    def numbers(self) -> list[int]:
        """Return the numbers of all versions that exist, ascending."""
        return sorted(int(name) for name in self.store.holders("versions", NAME) if _VERSION.fullmatch(name))

    def claimed(self) -> list[int]:
        """Return the numbers of all versions, those included that are being written or were given up."""
        return [int(name) for name in self.store.names("versions") if _VERSION.fullmatch(name)]

    def versions(self) -> list[Manifest]:
        """Return the manifests of all versions, ascending; errors as of `manifest`."""
        return [self.manifest(version) for version in self.numbers()]

    def manifest(self, version: int) -> Manifest:
        """Return the manifest of a version.

        Raises
        ------
        DataError
            There is no such version, or the manifest is damaged or of a newer format.
        """
        name = f"{folder_of(version)}/{NAME}"
        try:
            data = self.store.read(name)
        except FileMissing:
            raise DataError(f"{self.uri} has no version {version}; {self._known()}") from None
        manifest = Manifest.from_bytes(data, self.store.name_of(name))
        if manifest.version != version:
            raise DataError(f"{self.store.name_of(name)} is damaged: it is that of version {manifest.version}")
        return manifest

    def chain(self, version: int) -> list[Manifest]:
        """Return the manifests of a base and of the deltas up to a version, the base first.

        Raises
        ------
        DataError
            A version is missing or damaged.
        """
        chain = [self.manifest(version)]
        while chain[0].kind != BASE:
            parent, child = chain[0].parent, chain[0].version
            if parent is None or parent >= child or not self.store.exists(f"{folder_of(parent)}/{NAME}"):
                raise DataError(f"{self.uri}: version {child} is a delta of version {parent}, which is missing")
            chain.insert(0, self.manifest(parent))
        return chain

    def resolve(self, name: str) -> int:
        """Return the version that a label, a number or ``latest`` names.

        Raises
        ------
        DataError
            No version has this name or number.
        """
        if name.isdecimal():
            return self.manifest(int(name)).version
        version = None if name == LATEST else self.label(name)
        if version is not None:
            return version
        known = self.numbers()
        if not known:
            raise DataError(f"{self.uri} has no version: publish one")
        if name != LATEST:
            labels = ", ".join(self._labels.names()) or "none"
            raise DataError(f"{self.uri} has no label {name!r}; labels: {labels}")
        return known[-1]

    def folder(self, version: int) -> Store:
        """Return the folder of a version."""
        return self.store.folder(folder_of(version))

    def load(self, version: int, *, cache: Path | None = None, after: FrozenModel | None = None) -> FrozenModel:
        """Return a version, once each file that is read has been held against its size and checksum.

        Parameters
        ----------
        version : int
        cache : Path, optional
            A local folder for copies of remote files. Default: they are held in memory.
        after : FrozenModel, optional
            A model that was loaded from this registry. If the version is a change of it, by one or more deltas, only
            these are read, and both models share the rows that have not changed.

        Raises
        ------
        DataError
            A file is missing or damaged, or a manifest has a newer format.
        BitlaneError
            A file cannot be read.
        """
        chain = self.chain(version)
        last, known = chain[-1], [each.version for each in chain]
        calibrator = self.calibrator(last)
        tables: list[LayeredTable] = []
        if after is not None and after.version in known and isinstance(after.table, PartitionedTable):
            chain = chain[known.index(after.version) + 1 :]
            tables = [table for table in after.table.tables if isinstance(table, LayeredTable)]

        def of_shard(shard: int) -> LayeredTable:
            return layered(tables[shard] if tables else None, self.shard(chain, shard, cache))

        with ThreadPoolExecutor() as pool:
            table = PartitionedTable(
                list(pool.map(of_shard, range(last.shards))), Partition(last.shards, last.virtual_shards)
            )
        return FrozenModel(last.description.spec, table, self.dense(last, cache), version, calibrator=calibrator)

    def dense(self, manifest: Manifest, cache: Path | None = None) -> dict[str, NDArray[np.float32]]:
        """Return the dense weights of a version by name; errors as of `load`."""
        return read_dense(self.folder(manifest.version), {file.name: file for file in manifest.files}, cache)

    def calibrator(self, manifest: Manifest) -> Calibrator | None:
        """Return the calibrator of a version, or None; raises DataError if it is damaged."""
        return read_calibrator(manifest.description.calibrator, f"version {manifest.version}")

    def shard(self, chain: list[Manifest], shard: int, cache: Path | None = None) -> list[ShardChange]:
        """Return a shard in each version of a chain; errors as of `load`."""
        return [
            read_change(self.folder(each.version), shard, {file.name: file for file in each.files}, cache)
            for each in chain
        ]

    @contextlib.contextmanager
    def draft(self) -> Iterator[Draft]:
        """A section that writes a new version. If it fails, what was written is removed.

        Yields
        ------
        Draft
            With a number of its own on a local disk. Elsewhere one publisher at a time should write a model.

        Raises
        ------
        BitlaneError
            The registry cannot be written.
        """
        with contextlib.ExitStack() as lease:
            draft = self._claim(lease)
            try:
                yield draft
            except BaseException:
                with contextlib.suppress(BitlaneError):
                    if not self.store.exists(f"{folder_of(draft.version)}/{NAME}"):
                        clear(draft.folder)
                raise

    # --- labels and readers
    def label(self, name: str) -> int | None:
        """Return the version that a label names, or None."""
        return self._labels.current(name)

    def labels(self) -> dict[str, int]:
        """Return the versions of all labels."""
        return self._labels.all()

    def history(self, name: str) -> list[Move]:
        """Return the moves of a label, the oldest first."""
        return self._labels.history(name)

    def reachable(self, name: str, moves: int) -> list[int]:
        """Return the version that a label names, and those that so many roll-backs would reach."""
        return self._labels.stack(name)[-1 - moves :]

    def move_label(self, name: str, version: int, reason: str = "") -> Move:
        """Let a label name a version.

        Raises
        ------
        DataError
            No such version, or a bad name of a label.
        BitlaneError
            Somebody else has moved the label at the same time, or it cannot be written.
        """
        number = self._labels.next_number(name)
        with self.store.locked():
            self.chain(version)
            return self._labels.move(name, number, version, reason)

    def roll_back(self, name: str, reason: str = "") -> Move:
        """Let a label name the version that it named before its last move; once more, the one before that.

        Raises
        ------
        DataError
            There is no earlier version.
        BitlaneError
            As of `move_label`.
        """
        number, version = self._labels.next_number(name), self._labels.before(name)
        with self.store.locked():
            self.chain(version)
            return self._labels.move(name, number, version, reason, back=True)

    def note_reader(self, reader: str, version: int) -> None:
        """Note that a reader uses a version, which is not collected then; see `Readers`.

        On an object store, call it again before `bitlane.sparse.registry.readers.LEASE_SECONDS` are over.
        """
        self._readers.note(reader, version)

    def forget_reader(self, reader: str) -> None:
        """Note that a reader has ended."""
        self._readers.forget(reader)

    def readers(self) -> dict[str, int]:
        """Return the version of each reader that lives."""
        return self._readers.current()

    def forget_dead_readers(self) -> None:
        """Remove the notes of readers that died. Call it while the store is locked."""
        self._readers.forget_dead()

    # --- inside
    def _claim(self, lease: contextlib.ExitStack) -> Draft:
        """Take a number; `lease` shows `collect` that its publisher lives."""
        mine = claim()
        for _ in range(_ATTEMPTS):
            version = 1 + max(self.claimed(), default=0)
            with contextlib.suppress(FileTaken), self.store.locked():  # `collect` sees none without a lease
                self.folder(version).write(CLAIM, [mine])
                lease.enter_context(self.folder(version).held(CLAIM))
                return Draft(version, self.store, mine)
        raise BitlaneError(f"{self.uri}: too many concurrent publishers; publish again")

    def _known(self) -> str:
        known = self.numbers()
        return f"versions: {', '.join(map(str, known[-10:]))}" if known else "it has none"


def layered(below: LayeredTable | None, changes: list[ShardChange]) -> LayeredTable:
    """Return a shard after changes; without a table `below`, the first one is the base."""
    base, overlay = (changes.pop(0).rows, None) if below is None else (below.base, below.overlay)
    for change in changes:
        overlay = overlaid(overlay, change.rows, change.deleted)
    return LayeredTable(base, overlay)


def folder_of(version: int) -> str:
    """Return the folder of a version in the registry."""
    return f"versions/{version:07}"


def claim() -> bytes:
    """Return the file by which this process takes the number of a version."""
    return records.to_bytes({"time": records.now(), "host": socket.gethostname(), "process": os.getpid()})


def clear(folder: Store) -> None:
    """Remove the files of a version, its claim apart, so that its number is not used again; the manifest goes first."""
    folder.remove(NAME)
    for name in folder.names(hidden=True):
        if name != CLAIM:
            folder.remove(name)

"""Care of a registry: a base from a chain of deltas, and removal of what nobody needs."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bitlane.errors import DataError
from bitlane.sparse.registry import records
from bitlane.sparse.registry.manifest import BASE, Manifest
from bitlane.sparse.registry.registry import CLAIM, Draft, ModelRegistry, clear, folder_of
from bitlane.sparse.registry.writing import Written
from bitlane.sparse.servers.cuts import Cut
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.shard_files import dense_name, merged, read_dense, write_cut
from bitlane.support.stores import FileTaken

ABANDONED_SECONDS = 24 * 3600.0  # after which a publisher is taken for dead where files cannot be locked


def compact(registry: ModelRegistry, version: int) -> Manifest:
    """Publish the content of a delta as a base. Its files are those of a full snapshot, to the bit.

    Raises
    ------
    DataError
        The version is a base, is missing or damaged.
    BitlaneError
        It cannot be written.
    """
    chain = registry.chain(version)
    last = chain[-1]
    if last.kind == BASE:
        raise DataError(f"{registry.uri}: version {version} is already a base")
    with registry.draft() as draft, ThreadPoolExecutor() as pool:
        written = list(pool.map(lambda shard: _compact_shard(registry, chain, shard, draft), range(last.shards)))
        files = [file for each in written for file in each.files]
        rows = sum(each.total for each in written)
        partition = Partition(last.shards, last.virtual_shards)
        return draft.commit(BASE, version, draft.version, last.description, files, rows, partition)


def _compact_shard(registry: ModelRegistry, chain: list[Manifest], shard: int, draft: Draft) -> Written:
    rows, last = merged(registry.shard(chain, shard)), chain[-1]
    file = last.file(dense_name(shard))
    dense = {} if file is None else read_dense(registry.folder(last.version), {file.name: file})
    return Written(write_cut(draft.folder, shard, Cut(rows, None, dense, len(rows))), len(rows))


@dataclass(frozen=True)
class Collected:
    """What was removed.

    Attributes
    ----------
    versions : tuple of int
        Complete ones, and what publishers that died have left.
    bytes : int
        Of the complete ones.
    """

    versions: tuple[int, ...]
    bytes: int


def collect(registry: ModelRegistry, keep: int = 3) -> Collected:
    """Remove the versions that nobody needs.

    There remain: the versions that labels name now, and those that their last `keep` roll-backs would reach; the
    newest `keep` versions; the versions of readers; and the chains of all these.

    Parameters
    ----------
    registry : ModelRegistry
    keep : int, default=3
        At least 1.

    Raises
    ------
    DataError
        A chain that must remain is damaged: nothing is removed then. Or another file of the registry is.
    BitlaneError
        Something cannot be removed.
    """
    if keep < 1:
        raise DataError(f"keep must be at least 1; got {keep}")
    with registry.store.locked():
        known = registry.numbers()
        incomplete = {
            version: registry.folder(version).names(hidden=True) for version in set(registry.claimed()) - set(known)
        }
        newest = max([*known, *(version for version, left in incomplete.items() if CLAIM in left)], default=0)
        needed = _needed(registry, known, keep)
        removed, size = [], 0
        for version in reversed(known):  # a change goes before its parent: a kill leaves no version that does not load
            if version not in needed:
                with contextlib.suppress(DataError):  # a damaged one goes, too
                    size += registry.manifest(version).nbytes
                _remove(registry, version, version == newest)
                removed.append(version)
        for version, left in incomplete.items():
            is_empty = version == newest and left == [CLAIM]
            if not is_empty and _is_abandoned(registry, version, left):
                _remove(registry, version, version == newest)
                removed.append(version)
        registry.forget_dead_readers()
    return Collected(tuple(sorted(removed)), size)


def _needed(registry: ModelRegistry, known: list[int], keep: int) -> set[int]:
    wanted = {*known[-keep:], *registry.readers().values()}
    for label in registry.labels():
        wanted.update(registry.reachable(label, keep))
    return {each.version for version in wanted & set(known) for each in registry.chain(version)}


def _remove(registry: ModelRegistry, version: int, newest: bool) -> None:
    """Remove a version; the claim of the newest one stays, so that its number is not used again."""
    clear(registry.folder(version))
    registry.store.remove_folder(f"validations/{version:07}")
    if not newest:
        registry.store.remove_folder(folder_of(version))


def _is_abandoned(registry: ModelRegistry, version: int, left: list[str]) -> bool:
    """Whether the publisher of an incomplete version, of which these files are left, has died."""
    store, name = registry.store, f"{folder_of(version)}/{CLAIM}"
    if not store.is_local:
        claim = records.from_bytes(store.read(name), store.name_of(name)) if CLAIM in left else None
        return claim is not None and records.seconds_since(claim["time"]) > ABANDONED_SECONDS
    if CLAIM not in left:
        return True  # claims are made in the section in which this is called
    try:
        with store.held(name):
            return True
    except FileTaken:
        return False

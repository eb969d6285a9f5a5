"""A new version from cuts of all shards: files first, the manifest last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bitlane.errors import DataError
from bitlane.sparse.registry.manifest import BASE, DELTA, Description, Manifest, check_successor
from bitlane.sparse.registry.registry import Draft, ModelRegistry
from bitlane.sparse.servers.partition import Partition
from bitlane.support.stores import StoredFile


@dataclass(frozen=True)
class Written:
    """What a shard has written.

    Attributes
    ----------
    files : sequence of StoredFile
    total : int
        Keys of the shard.
    clipped : int, default=0
        Values in the files that lay outside the outer levels.
    """

    files: Sequence[StoredFile]
    total: int
    clipped: int = 0


def write_version(
    registry: ModelRegistry,
    description: Description,
    shards: Partition,
    chain: Sequence[Manifest],
    write: Callable[[Draft], Sequence[Written]],
) -> Manifest:
    """Publish a version.

    Parameters
    ----------
    registry : ModelRegistry
    description : Description
        A change has the levels of its base, and without a calibrator that of its parent.
    shards : Partition
        How keys are spread over the shards.
    chain : sequence of Manifest
        That of the version whose change this is, its base first; empty for a base.
    write : callable
        Writes the files of all shards to the folder of a draft.

    Raises
    ------
    DataError
        The model cannot be a change of the parent.
    BitlaneError
        Something cannot be written. No version is there then.
    """
    if chain:
        check_successor(chain[-1], description, shards.servers, shards.virtual_shards)
        description = replace(
            description,
            quantization=chain[0].description.quantization,
            calibrator=description.calibrator or chain[-1].description.calibrator,
        )
    with registry.draft() as draft:
        written = write(draft)
        if description.quantization is not None:
            clipped = sum(each.clipped for each in written)
            description = replace(description, quantization={**description.quantization, "clipped": clipped})
        return draft.commit(
            DELTA if chain else BASE,
            chain[-1].version if chain else None,
            chain[0].version if chain else draft.version,
            description,
            [file for each in written for file in each.files],
            sum(each.total for each in written),
            shards,
        )


def chain_above(registry: ModelRegistry, version: int | None, longest: int) -> list[Manifest]:
    """Return the chain to which a change of a version is added; empty if a base is due.

    If the version was compacted, the chain is that of the new base.

    Parameters
    ----------
    registry : ModelRegistry
    version : int or None
        The version that the publisher knows: its last one, or the newest.
    longest : int
        Deltas of a chain.

    Raises
    ------
    DataError
        A version of the chain is missing or damaged.
    """
    known = registry.numbers()
    if version is None or version not in known:
        return []
    later = []
    for each in known:
        with contextlib.suppress(DataError):  # a damaged one is of no use, and no reason to stop
            later += [registry.manifest(each)] if each > version else []
    compacted = [each for each in later if each.kind == BASE and each.parent == version]
    chain = [compacted[-1]] if compacted else registry.chain(version)
    return chain if len(chain) <= longest else []

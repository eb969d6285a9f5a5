"""What is in a registry, whatever of it is damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from bitlane.errors import DataError
from bitlane.sparse.registry.damage import Damage, find_damage
from bitlane.sparse.registry.labels import Labels
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.registry import ModelRegistry


@dataclass(frozen=True)
class Overview:
    """What is in a registry.

    Attributes
    ----------
    versions : tuple of Manifest
        Of the versions that are not damaged, ascending.
    labels, readers : dict of int
        The versions of labels and readers, as far as their records are not damaged.
    damage : tuple of Damage
        What was found in manifests and records; the files of rows were not read.
    """

    versions: tuple[Manifest, ...]
    labels: Mapping[str, int]
    readers: Mapping[str, int]
    damage: tuple[Damage, ...]


def overview(registry: ModelRegistry) -> Overview:
    """Return what is in a registry; BitlaneError if a file cannot be read for another reason than damage."""
    damage = find_damage(registry, read_rows=False)
    broken = {each.version for each in damage}
    versions: list[Manifest] = []
    labels: dict[str, int] = {}
    readers: dict[str, int] = {}
    with contextlib.suppress(DataError):
        versions = [registry.manifest(version) for version in registry.numbers() if version not in broken]
        for name in Labels(registry.store).names():
            with contextlib.suppress(DataError):
                if (version := registry.label(name)) is not None:
                    labels[name] = version
    with contextlib.suppress(DataError):
        readers = registry.readers()
    return Overview(tuple(versions), labels, readers, tuple(damage))

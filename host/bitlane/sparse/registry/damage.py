"""What is damaged in a registry: files that cannot be read as what they are, and what depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bitlane.errors import DataError
from bitlane.sparse.registry.labels import Labels, path_of
from bitlane.sparse.registry.manifest import DELTA, NAME
from bitlane.sparse.registry.records import NewerFormat
from bitlane.sparse.registry.registry import CLAIM, ModelRegistry, folder_of
from bitlane.sparse.registry.validation import folder_of_validation, read_validation
from bitlane.support.stores import FileMissing

_FOLDERS = ("versions", "labels", "readers", "validations")
_LOCK = ".lock"


@dataclass(frozen=True)
class Damage:
    """A part of a registry that cannot be used.

    Attributes
    ----------
    place : str
        Its path in the registry: the folder of a version, a move of a label, or another file or folder.
    reason : str
        A line: what is wrong.
    version : int or None
        Of a version.
    is_newer : bool
        Whether nothing is wrong but that a newer bitlane has written it, or what it depends on.
    """

    place: str
    reason: str
    version: int | None = None
    is_newer: bool = False


def find_damage(registry: ModelRegistry, *, read_rows: bool = True) -> list[Damage]:
    """Return all that is damaged in a registry.

    Parameters
    ----------
    registry : ModelRegistry
    read_rows : bool, default=True
        Hold the files of all versions against their checksums. Otherwise only small records are read.

    Raises
    ------
    BitlaneError
        A file cannot be read, for another reason than damage.
    """
    found = _damage(_LOCK, registry.store.read, _LOCK)
    folders = [damage for folder in _FOLDERS for damage in _damage(folder, registry.store.names, folder)]
    if folders:  # what lies in the others may depend on them
        return found + folders
    versions = list(_versions(registry, read_rows))
    unusable = {each.version: each for each in versions if each.version is not None}
    return [*found, *versions, *_moves(registry, unusable), *_locks(registry), *_validations(registry)]


def _versions(registry: ModelRegistry, read_rows: bool) -> Iterator[Damage]:
    known = registry.numbers()
    unusable: dict[int | None, Damage] = {}
    for version in known:
        damage = _version(registry, version, unusable, read_rows)
        if damage is not None:
            unusable[version] = damage
            yield damage
    for version in sorted(set(registry.claimed()) - set(known)):
        yield from _damage(folder_of(version), registry.folder(version).read, CLAIM, version=version)


def _version(
    registry: ModelRegistry, version: int, unusable: Mapping[int | None, Damage], read_rows: bool
) -> Damage | None:
    """Return what is damaged of a version; `unusable` are those before it."""
    try:
        manifest = registry.manifest(version)
        parent = manifest.parent if manifest.kind == DELTA else None
        if parent in unusable:
            reason = f"{registry.uri}: version {version} is a delta of version {parent}, which is damaged"
            return Damage(folder_of(version), reason, version, unusable[parent].is_newer)
        if parent is not None and not registry.store.exists(f"{folder_of(parent)}/{NAME}"):
            registry.chain(version)  # raises
        for file in manifest.files if read_rows else ():
            registry.folder(version).open(file)
    except DataError as error:
        return Damage(folder_of(version), str(error), version, isinstance(error, NewerFormat))
    return None


def _moves(registry: ModelRegistry, unusable: dict[int, Damage]) -> Iterator[Damage]:
    labels, known = Labels(registry.store), set(registry.numbers())
    for name in labels.names():
        problems = _damage(f"labels/{name}", labels.numbers, name)
        yield from problems
        is_last = True  # of those that can be used: older ones may name versions that were collected
        for number in [] if problems else reversed(labels.numbers(name)):
            place = path_of(name, number)
            if problems := _damage(place, labels.recorded, name, number):
                yield from problems
                continue
            version = labels.recorded(name, number).version
            broken = unusable.get(version)
            if broken is not None and not broken.is_newer:
                yield Damage(place, f"{registry.store.name_of(place)} names version {version}, which is damaged")
            elif version not in known and is_last:
                yield Damage(place, f"{registry.store.name_of(place)} names version {version}, which is missing")
            else:
                is_last = False


def _locks(registry: ModelRegistry) -> Iterator[Damage]:
    """Yield what has the name of a reader's lock and cannot be locked. Damaged notes need no care."""
    for name in registry.store.names("readers"):
        if name.endswith(".lock"):
            yield from _damage(f"readers/{name}", registry.store.is_held, f"readers/{name}")


def _validations(registry: ModelRegistry) -> Iterator[Damage]:
    for name in registry.store.names("validations"):
        if name.isdecimal():
            yield from _damage(folder_of_validation(int(name)), read_validation, registry, int(name))


def _damage(place: str, read: Callable[..., object], *arguments: object, version: int | None = None) -> list[Damage]:
    """Return what reading says of a place, if it is damaged; that it is missing is no damage."""
    try:
        read(*arguments)
    except FileMissing as error:
        return [] if place == _LOCK or CLAIM in arguments else [Damage(place, str(error), version)]
    except DataError as error:
        return [Damage(place, str(error), version, isinstance(error, NewerFormat))]
    return []

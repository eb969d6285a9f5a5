"""Setting aside what is damaged in a registry, so that all operations work on the rest."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from bitlane.sparse.registry.damage import Damage, find_damage
from bitlane.sparse.registry.registry import CLAIM, ModelRegistry, claim, folder_of
from bitlane.support.stores import FileMissing

ASIDE = "damaged"


@dataclass(frozen=True)
class Mended:
    """What was set aside.

    Attributes
    ----------
    folder : str
        The path or URI under which it lies, by its former path.
    damage : tuple of Damage
    left : tuple of Damage
        What was left where it is: a newer bitlane has written it.
    """

    folder: str
    damage: tuple[Damage, ...]
    left: tuple[Damage, ...]


def mend(registry: ModelRegistry) -> Mended:
    """Move what is damaged to a new folder below ``damaged`` in the registry. Nothing is deleted.

    A version goes with the deltas above it, and with the moves of labels to them: such a label names what it named
    before. The number of a version is not used again.

    Parameters
    ----------
    registry : ModelRegistry

    Raises
    ------
    BitlaneError
        Something cannot be read for another reason than damage, or cannot be moved.
    """
    store = registry.store
    aside = f"{ASIDE}/{1 + max((int(each) for each in store.names(ASIDE) if each.isdecimal()), default=0):07}"
    moved: list[Damage] = []
    with contextlib.ExitStack() as stack:
        damage = find_damage(registry)
        if not any(each.place == ".lock" for each in damage):
            stack.enter_context(store.locked())
            damage = find_damage(registry)
        while todo := [each for each in damage if not each.is_newer]:  # a folder that was moved hid what is below
            for each in todo:
                with contextlib.suppress(FileMissing):
                    store.move(each.place, f"{aside}/{each.place}")
            moved += todo
            damage = find_damage(registry, read_rows=False)
        newest = max((each.version or 0 for each in moved), default=0)
        if newest > max(registry.claimed(), default=0):
            store.write(f"{folder_of(newest)}/{CLAIM}", [claim()])
    return Mended(store.name_of(aside), tuple(moved), tuple(damage))

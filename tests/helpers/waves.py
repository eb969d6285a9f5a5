"""The signals of a VCD file."""

from __future__ import annotations

from pathlib import Path


def variables(path: Path) -> dict[str, int]:
    """The bits of each signal by its name with scopes."""
    scopes: list[str] = []
    found = {}
    with path.open() as file:
        for line in file:
            match line.split():
                case ["$scope", _, name, *_]:
                    scopes.append(name)
                case ["$upscope", *_]:
                    scopes.pop()
                case ["$var", _, bits, _, name, *_]:
                    found[".".join([*scopes, name])] = int(bits)
                case ["$enddefinitions", *_]:
                    break
    return found

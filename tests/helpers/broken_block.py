"""Blocks of the RTL with a fault, for tests of what should find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def broken(block: type, change: Callable[[Any, Any], None]) -> Any:
    """A block of this kind, elaborated with a change: `change(m, block)` overrides assignments."""

    class Broken(block):  # type: ignore[misc]
        def elaborate(self, platform: Any) -> Any:
            m = super().elaborate(platform)
            change(m, self)
            return m

    return Broken

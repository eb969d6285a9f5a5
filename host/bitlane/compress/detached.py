"""Copies and pickles of a compression: its statistics and its state, without the connections to other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from bitlane.errors import DataError


class Detached:
    """What a copy or a pickle of a `DDPCompression`, `FSDPCompression` or `DiLoCo` becomes.

    Connections and threads cannot be copied. The state can: give it to the `load_state_dict` of a compression on the
    same rank. All other names raise AttributeError, in a line that says so.

    Parameters
    ----------
    kind : str
        Name of the class that was copied.
    stats : Stats or LocalStats
        Its statistics.
    state : dict or None
        Its state; None before the first step.

    Attributes
    ----------
    stats : Stats or LocalStats
        The statistics until the copy.
    """

    def __init__(self, kind: str, stats: object, state: dict[str, Any] | None):
        self._kind, self.stats, self._state = kind, stats, state

    @classmethod
    def of(cls, compression: Any) -> tuple[Any, ...]:
        """Return what `__reduce__` of a compression returns."""
        return cls, (type(compression).__name__, compression.stats, _state_of(compression.state_dict))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the compression when it was copied; raise DataError if it had made no step."""
        if self._state is None:
            raise DataError("there is no state before the first step")
        return dict(self._state)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a copy of a {self.__dict__.get('_kind')} has no {name}, because it has no connections to other ranks: "
            "create a new one, and load the state_dict() of this copy"
        )


def _state_of(state_dict: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return state_dict()
    except DataError:  # before the first step
        return None

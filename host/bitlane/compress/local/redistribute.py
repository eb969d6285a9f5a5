"""States of a `DiLoCo` for another number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bitlane.errors import DataError

from ..compressor import Compressor, SavedState, part_compressor
from ..ddp.states import redistribute


def redistribute_local(compressor: Compressor, states: Sequence[SavedState], ranks: int) -> list[dict[str, Any]]:
    """Convert the states of a run to another number of ranks.

    The new ranks begin with the global parameters, to which loading a state sets their models; an average in progress
    is applied first. What the old ranks have learned since their last round is dropped, so convert states that were
    saved after one. Residuals are kept, as in `bitlane.compress.ddp.states.redistribute`.

    Parameters
    ----------
    compressor : Compressor
        The settings of the run.
    states : sequence of SavedState
        The states of all ranks of the run, in any order.
    ranks : int
        The new number of ranks.

    Returns
    -------
    list of dict
        The state of each new rank, in order.

    Raises
    ------
    DataError
        If states are missing, inconsistent or from another compressor.

    Examples
    --------
    >>> from bitlane.compress import QSGD
    >>> from bitlane.compress.local.redistribute import redistribute_local
    >>> states = redistribute_local(QSGD(4), saved_states, ranks=8)  # doctest: +SKIP
    """
    if ranks < 1:
        raise DataError(f"ranks must be 1 or more; got {ranks}")
    found = sorted(state["rank"] for state in states if {"fragments", "rank", "ranks"} <= set(state))
    if not found or len(found) < len(states) or found != list(range(states[0]["ranks"])):
        raise DataError(f"the states of DiLoCo of all ranks are needed; got {len(states)} states, of ranks {found}")
    first = states[0]
    for state in states:
        for name in ("step", "settings", "shapes", "ranks"):
            if state[name] != first[name]:
                raise DataError(f"states have different {name}: {first[name]} and {state[name]}")
    converted = [{**first, "rank": rank, "ranks": ranks, "model": None, "fragments": []} for rank in range(ranks)]
    for number, fragment in enumerate(first["fragments"]):
        averages = [state["fragments"][number]["average"] for state in states]
        begun = fragment["average"] is not None
        new = redistribute(part_compressor(compressor, number), averages, ranks) if begun else [None] * ranks
        for state, average in zip(converted, new, strict=True):
            state["fragments"].append({**fragment, "average": average})
    return converted

"""States of a `DiLoCo` for another number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compressor import Compressor, SavedState, with_own_seed
from ..ddp.states import check_identity, ordered_states, redistribute

SAME_FIELDS = ("step", "settings", "shapes", "ranks")


def redistribute_local(compressor: Compressor, states: Sequence[SavedState], ranks: int) -> list[dict[str, Any]]:
    """Convert the states of a run to another number of ranks.

    The new ranks begin with the global parameters, to which loading a state sets their models; an average in progress
    is applied first. What the old ranks have learned since their last round is dropped, so convert states that were
    saved after one. Residuals are kept, as in `bitlane.compress.ddp.states.redistribute`.

    Parameters
    ----------
    compressor, states, ranks
        As in `bitlane.compress.ddp.states.redistribute`, which also describes the result and the errors.

    Examples
    --------
    >>> from bitlane.compress import QSGD
    >>> from bitlane.compress.local.redistribute import redistribute_local
    >>> states = redistribute_local(QSGD(4), saved_states, ranks=8)  # doctest: +SKIP
    """
    for state in states:
        check_identity(state, {}, ("fragments", "rank", *SAME_FIELDS), "DiLoCo")
    ordered = ordered_states(states, SAME_FIELDS, ranks)
    first = ordered[0]
    converted = [{**first, "rank": rank, "ranks": ranks, "model": None, "fragments": []} for rank in range(ranks)]
    for number, fragment in enumerate(first["fragments"]):
        averages = [state["fragments"][number]["average"] for state in ordered]
        begun = fragment["average"] is not None
        new = redistribute(with_own_seed(compressor, number), averages, ranks) if begun else [None] * ranks
        for state, average in zip(converted, new, strict=True):
            state["fragments"].append({**fragment, "average": average, "start": None})
    return converted

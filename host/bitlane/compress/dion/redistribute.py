"""States of a `Dion` for another number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compressor import SavedState
from ..ddp.states import redistribute
from .factors import DionFactors


def redistribute_dion(factors: DionFactors, states: Sequence[SavedState], ranks: int) -> list[dict[str, Any]]:
    """Convert the states of a run to another number of ranks.

    Each new rank gets the mean of the momenta, so that their average, which is all that a step depends on, is the same.

    Parameters
    ----------
    factors : DionFactors
        `dion.compressor` of a Dion with the same settings.
    states : sequence of SavedState
        The states of all ranks, in any order, after one step or more.
    ranks : int
        The new number of ranks.

    Returns
    -------
    list of dict
        The state of each new rank, in order.

    Raises
    ------
    DataError
        If states are missing, inconsistent or from other settings.

    Examples
    --------
    >>> from bitlane.compress.dion.redistribute import redistribute_dion
    >>> states = redistribute_dion(dion.compressor, saved_states, ranks=8)  # doctest: +SKIP
    """
    exchanges = redistribute(factors, [state["exchange"] for state in states], ranks)
    return [{**states[0], "exchange": each} for each in exchanges]

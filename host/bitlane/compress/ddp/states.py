"""Saved states: their identity, and redistribution to another number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.support.user_warnings import warn_user

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.transport import ThreadTransport
from ..compressor import Compressor, Layout, Reducer, SavedState, layout_of_shapes, vector_length
from ..segments import Segmented

FORMAT = 1


def identity(compressor: Compressor, rank: int, ranks: int, layout: Layout | None = None) -> dict[str, Any]:
    """Return the fields that identify a state; without `layout`, those known before the first step."""
    inner, segment = (compressor.compressor, compressor.least) if isinstance(compressor, Segmented) else (compressor, 0)
    known = {"format": FORMAT, "compressor": repr(inner), "segment": segment, "ranks": ranks, "rank": rank}
    return known if layout is None else {**known, "shapes": [list(span.shape) for span in layout]}


def check_identity(
    state: SavedState,
    own: Mapping[str, Any],
    fields: Iterable[str] = ("step", "shapes", "reducer", "policy"),
    owner: str = "DDPCompression",
    converter: str = "redistribute",
) -> None:
    """Raise DataError unless `state` has the identity `own` and all `fields` of a state of `owner`.

    The message names `converter`, which converts states to another number of ranks.
    """
    state = {"segment": 0, **state}  # earlier versions had no segments
    missing = {*fields, *own} - set(state)
    if missing:
        raise DataError(f"not a state of {owner}: it has no {', '.join(sorted(missing))}")
    for name, value in own.items():
        if state[name] != value:
            hint = {"ranks": f": convert the states with {converter}", "segment": ": attach with the same overlap"}
            raise DataError(f"the saved state has {name} {state[name]} instead of {value}{hint.get(name, '')}")


def check_order(state: SavedState, parameters: Sequence[Tensor]) -> None:
    """Raise DataError, or warn, if the residuals in a state of an earlier version may be in another order.

    It stored those of a parameter in the order of its memory, and not which order that was.

    Parameters
    ----------
    state : SavedState
        A state of `DDPCompression`; later versions have the field "order".
    parameters : sequence of Tensor
        The parameters of the model, as far as they are known.
    """
    if "order" in state:
        return
    odd = next((each for each in parameters if not each.is_contiguous()), None)
    if odd is not None:
        raise DataError(
            f"the saved state is of an earlier version, which stored residuals in the order of memory, and a parameter "
            f"of shape {tuple(odd.shape)} is not contiguous: start without the state, or load it into a contiguous "
            "model if it was saved from one"
        )
    if any(len(shape) > 3 for shape in state["shapes"]):
        warn_user(
            "the saved state is of an earlier version, which stored residuals in the order of memory: if the model had "
            "another memory format then, such as channels_last, start without the state"
        )


def redistribute(compressor: Compressor, states: Sequence[SavedState], ranks: int) -> list[dict[str, Any]]:
    """Convert the states of a run to another number of ranks.

    The residuals still have to be applied to the average, as their sum over ranks divided by the number of ranks. So
    each new rank gets the mean of the old residuals. Bit policies and the step number do not change.

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
    >>> from bitlane.compress import EFSign
    >>> from bitlane.compress.ddp.states import redistribute
    >>> states = redistribute(EFSign(), saved_states, ranks=8)  # doctest: +SKIP
    """
    if states:
        compressor = _with_segments(compressor, states[0])
    for state in states:
        check_identity(state, identity(compressor, state.get("rank", 0), states[0].get("ranks", len(states))))
    ordered = ordered_states(states, ("step", "shapes"), ranks)
    layout = layout_of_shapes(ordered[0]["shapes"])
    residuals = [_restored(compressor, layout, state).residual() for state in ordered]
    mean = _mean([each for each in residuals if each is not None]) if residuals[0] is not None else None
    converted = []
    for rank in range(ranks):
        reducer = _reducer(compressor, layout, rank, ranks)
        reducer.reshard([state["reducer"] for state in ordered], None if mean is None else mean.clone())
        own = {**identity(compressor, rank, ranks, layout), "reducer": reducer.state_dict()}
        kept = {name: ordered[0][name] for name in ("names", "order") if name in ordered[0]}
        converted.append({**own, **kept, "step": ordered[0]["step"], "policy": dict(ordered[0]["policy"])})
    return converted


def relocated(
    compressor: Compressor, state: SavedState, rank: int, ranks: int, own: float, extra: Tensor | None = None
) -> dict[str, Any]:
    """Convert the state of one rank to a place among other ranks.

    Parameters
    ----------
    compressor : Compressor
        The settings of the run.
    state : SavedState
        The state of the rank.
    rank, ranks : int
        Its new number, and the new number of ranks.
    own : float
        Factor of its residual: `ranks` by the earlier number conserves the sum over ranks divided by their number, of
        those that remain. 0 drops it.
    extra : Tensor, float32 [n], or None, default: None
        What is added to the residual, in units of this rank's gradient.

    Returns
    -------
    dict
        The state of the rank at its new place.
    """
    layout = layout_of_shapes(state["shapes"])
    residual = _restored(compressor, layout, state).residual()
    if residual is not None:
        residual = residual * own if extra is None else residual * own + extra
    reducer = _reducer(compressor, layout, rank, ranks)
    reducer.reshard([state["reducer"]], residual)
    kept = {"step": state["step"], "policy": dict(state["policy"]), "reducer": reducer.state_dict()}
    return {**identity(compressor, rank, ranks, layout), **kept}


def residual_of(compressor: Compressor, state: SavedState) -> Tensor | None:
    """Return the residual in the state of a rank, float32 [n], in units of its gradient; None without one."""
    return _restored(compressor, layout_of_shapes(state["shapes"]), state).residual()


def renamed(compressor: Compressor, state: SavedState, names: Sequence[str], layout: Layout) -> dict[str, Any]:
    """Convert the state of a rank to other parameters, after some were frozen or unfrozen.

    Parameters with the same name and shape keep what was not sent; those that are new begin with zeros. The factors of
    low-rank compressors begin anew, if they have other shapes.

    Parameters
    ----------
    compressor : Compressor
        The settings of the run.
    state : SavedState
        The state, with the names of its parameters.
    names : sequence of str
        Names of the parameters of `layout`, in its order.
    layout : Layout
        The parameters now.

    Returns
    -------
    dict
        The state of the same rank for these parameters.
    """
    compressor = _with_segments(compressor, state)
    old = layout_of_shapes(state["shapes"])
    spans = dict(zip(state["names"], old, strict=True))

    def moved(vector: Tensor) -> Tensor:
        result = torch.zeros(vector_length(layout))
        for name, span in zip(names, layout, strict=True):
            before = spans.get(name)
            if before is not None and before.shape == span.shape:
                result[span.begin : span.end] = vector[before.begin : before.end]
        return result

    residual = _restored(compressor, old, state).residual()
    reducer = _reducer(compressor, layout, state["rank"], state["ranks"])
    count = vector_length(old)
    vectors = {
        name: moved(each) if isinstance(each, Tensor) and each.shape == (count,) else each
        for name, each in state["reducer"].items()
    }
    reducer.reshard([vectors], None if residual is None else moved(residual))
    own = {**identity(compressor, state["rank"], state["ranks"], layout), "names": list(names)}
    order = {"order": state["order"]} if "order" in state else {}
    return {**own, **order, "step": state["step"], "policy": dict(state["policy"]), "reducer": reducer.state_dict()}


def _with_segments(compressor: Compressor, state: SavedState) -> Compressor:
    """Return the compressor with the segments of a state."""
    return Segmented(compressor, state["segment"]) if state.get("segment") else compressor


def as_tensors(state: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the numpy arrays of a state to tensors, which `torch.load(weights_only=True)` can read."""
    return {
        name: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
        for name, value in state.items()
    }


def as_arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the tensors of a state to numpy arrays; the inverse of `as_tensors`."""
    return {name: value.cpu().numpy() if isinstance(value, Tensor) else value for name, value in state.items()}


def ordered_states(states: Sequence[SavedState], same: Sequence[str], ranks: int) -> list[SavedState]:
    """Return the states of all ranks of a run in order, for their conversion to `ranks` ranks.

    Raises
    ------
    DataError
        If a state is missing, if states differ in a field of `same`, or if `ranks` is less than 1.
    """
    if ranks < 1:
        raise DataError(f"ranks must be 1 or more; got {ranks}")
    if not states:
        raise DataError("no states to redistribute")
    for name in same:
        for state in states:
            if state[name] != states[0][name]:
                raise DataError(f"states have different {name}: {states[0][name]} and {state[name]}")
    ordered = sorted(states, key=lambda state: int(state["rank"]))
    saved, needed = [state["rank"] for state in ordered], states[0]["ranks"]
    if saved != list(range(needed)):
        raise DataError(f"the states of {needed} ranks are needed; got ranks {saved}")
    return ordered


def _restored(compressor: Compressor, layout: Layout, state: SavedState) -> Reducer:
    reducer = _reducer(compressor, layout, state["rank"], state["ranks"])
    reducer.load_state_dict(state["reducer"])
    return reducer


def _reducer(compressor: Compressor, layout: Layout, rank: int, ranks: int) -> Reducer:
    """Return a reducer that only holds a state: its link has no other ranks."""
    link = Link(ThreadTransport(rank, [[] for _ in range(ranks)], 0.0), "")
    return compressor.reducer(layout, link, AlphaBetaModel(), torch.device("cpu"))


def _mean(vectors: Sequence[Tensor]) -> Tensor:
    total = torch.zeros(len(vectors[0]), dtype=torch.float64)
    for vector in vectors:
        total += vector
    return (total / len(vectors)).float()

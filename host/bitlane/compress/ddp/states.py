"""Saved states: whose they are, and how they go to another number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError

from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..collectives.transport import ThreadTransport
from ..compressor import Compressor, Layout, ParameterSpan, Reducer, SavedState, vector_length

FORMAT = 1


def identity(compressor: Compressor, rank: int, ranks: int, layout: Layout | None = None) -> dict[str, Any]:
    """What a state is of; without `layout`, as far as that is known before the first step."""
    known: dict[str, Any] = {"format": FORMAT, "compressor": repr(compressor), "ranks": ranks, "rank": rank}
    return known if layout is None else {**known, "shapes": [list(place.shape) for place in layout]}


def check_identity(state: SavedState, own: Mapping[str, Any]) -> None:
    """DataError unless `state` is of `own`, and complete."""
    missing = {"step", "shapes", "reducer", "policy", *own} - set(state)
    if missing:
        raise DataError(f"no state of a DDPCompression: it lacks {', '.join(sorted(missing))}")
    for name, value in own.items():
        if state[name] != value:
            hint = "; redistribute makes states for another number of ranks" if name == "ranks" else ""
            raise DataError(f"{name} of the saved state is {state[name]}, and {value} is needed{hint}")


def redistribute(compressor: Compressor, states: Sequence[SavedState], ranks: int) -> list[dict[str, Any]]:
    """States for another number of ranks, from those of all ranks of a run, in any order.

    What ranks keep back is still to be applied to the average: the sum over ranks divided by their number. So each new
    rank keeps back the mean of what the old ones did. Bit policies and the number of the step go on as they are.

    Raises DataError where states are missing, do not belong together, or are of another compressor.
    """
    if ranks < 1:
        raise DataError(f"ranks={ranks}: it must be 1 or more")
    ordered = _complete(compressor, states)
    layout = _layout(ordered[0]["shapes"])
    kept = [_restored(compressor, layout, state).residual() for state in ordered]
    mean = _mean([each for each in kept if each is not None]) if kept[0] is not None else None
    made = []
    for rank in range(ranks):
        reducer = _reducer(compressor, layout, rank, ranks)
        reducer.reshard([state["reducer"] for state in ordered], None if mean is None else mean.clone())
        own = {**identity(compressor, rank, ranks, layout), "reducer": reducer.state_dict()}
        made.append({**own, "step": ordered[0]["step"], "policy": dict(ordered[0]["policy"])})
    return made


def as_tensors(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state whose numpy arrays are tensors, which `torch.load` reads without running code."""
    return {
        name: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
        for name, value in state.items()
    }


def as_arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    """What `as_tensors` was given."""
    return {name: value.cpu().numpy() if isinstance(value, Tensor) else value for name, value in state.items()}


def _complete(compressor: Compressor, states: Sequence[SavedState]) -> list[SavedState]:
    """All ranks' states, in order of rank."""
    if not states:
        raise DataError("no states to redistribute")
    size = states[0].get("ranks", len(states))
    for state in states:
        check_identity(state, identity(compressor, state.get("rank", 0), size))
        for name in ("step", "shapes"):
            if state[name] != states[0][name]:
                raise DataError(f"states have different {name}: {states[0][name]} and {state[name]}")
    ordered = sorted(states, key=lambda state: int(state["rank"]))
    if [state["rank"] for state in ordered] != list(range(size)):
        raise DataError(f"{size} ranks saved states, and these are of ranks {[state['rank'] for state in ordered]}")
    return ordered


def _layout(shapes: Sequence[Sequence[int]]) -> Layout:
    layout: list[ParameterSpan] = []
    for shape in shapes:
        layout.append(ParameterSpan(vector_length(layout), tuple(shape)))
    return layout


def _restored(compressor: Compressor, layout: Layout, state: SavedState) -> Reducer:
    reducer = _reducer(compressor, layout, state["rank"], state["ranks"])
    reducer.load_state_dict(state["reducer"])
    return reducer


def _reducer(compressor: Compressor, layout: Layout, rank: int, ranks: int) -> Reducer:
    """One that never averages: it has nobody to send to."""
    link = Link(ThreadTransport(rank, [[] for _ in range(ranks)], 0.0), "")
    return compressor.reducer(layout, link, AlphaBetaModel(), torch.device("cpu"))


def _mean(vectors: Sequence[Tensor]) -> Tensor:
    total = torch.zeros(len(vectors[0]), dtype=torch.float64)
    for vector in vectors:
        total += vector
    return (total / len(vectors)).float()

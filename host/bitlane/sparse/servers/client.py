"""The parameters of several servers, used as if they were here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.servers import wire
from bitlane.sparse.servers.group import Call, ServerGroup
from bitlane.sparse.servers.updates import join_dense, split_dense

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


class RemoteParameters(ServerGroup):
    """Sparse parameters and matrices on servers: `pull` and `push` as of `SparseParameters`. See `ServerGroup`."""

    # --- sparse
    def pull(self, keys: Keys, *, create: bool = False) -> Floats:
        """Return the weights of `keys`; parameters and result as of `SparseParameters.pull`.

        Raises
        ------
        BitlaneError
            No answer before the deadline, or an error of a server.
        """
        keys = _checked(keys)
        places, parts = self._split(keys)
        calls = [Call(server, "pull", wire.key_batch(part)) for server, part in parts]
        if create:
            self._update(calls)
        else:
            with self._reading:
                self._exchange(self._readers, calls)
        found = [wire.array_of(call.answer, 0, np.float32) for call in calls]
        if len(found) == 1 and places is None:
            return found[0]
        weights = np.empty((len(keys), self.layout.values), np.float32)
        if places is not None and found:
            weights[places] = np.concatenate(found)
        return weights

    def push(self, keys: Keys, gradients: Floats, rows_seen: int = 0) -> None:
        """Take one step for each key; parameters as of `SparseParameters.push`.

        Raises
        ------
        DataError
            The gradients have another shape. Nothing was applied.
        BitlaneError
            No answer before the deadline, or an error of a server. The update is kept; see the class.
        """
        keys = _checked(keys)
        if np.shape(gradients) != (len(keys), self.layout.values):
            raise DataError(
                f"{len(keys)} keys need gradients [{len(keys)}, {self.layout.values}]; got {list(np.shape(gradients))}"
            )
        gradients = np.asarray(gradients, np.float32)
        places, parts = self._split(keys)
        calls, at = [], 0
        for server, part in parts:
            chosen = gradients if places is None else gradients[places[at : at + len(part)]]
            calls.append(Call(server, "push", wire.gradient_batch(part, chosen), {"rows_seen": int(rows_seen)}))
            at += len(part)
        self._update(calls)

    # --- dense
    def pull_dense(self) -> dict[str, Floats]:
        """Return the weights of all matrices by name; errors as of `pull`."""
        calls = [Call(server, "dense", None) for server, names in enumerate(self._matrices) if names]
        with self._reading:
            self._exchange(self._readers, calls)
        found: dict[str, Floats] = {}
        for call in calls:
            found.update(split_dense(wire.array_of(call.answer, 0, np.float32), self._matrices[call.server]))
        return found

    def push_dense(self, gradients: Mapping[str, Floats], rows_seen: int = 0) -> None:
        """Take one step of all matrices, each with its gradient; errors as of `push`."""
        if set(gradients) != set(self.spec.matrices):
            raise DataError(f"the model has the matrices {sorted(self.spec.matrices)}; got {sorted(gradients)}")
        for name, each in self.spec.matrices.items():
            if np.shape(gradients[name]) != each.shape:
                raise DataError(f"the gradient of {name} must have the shape {list(each.shape)}")
        calls = [
            Call(
                server,
                "dense",
                wire.dense_batch(join_dense({name: gradients[name] for name in names})),
                {"rows_seen": int(rows_seen)},
            )
            for server, names in enumerate(self._matrices)
            if names
        ]
        self._update(calls)

    def tick(self, clock: int) -> None:
        """Set the clock of all tables, 0 to 2^32 - 1; errors as of `push`."""
        self._update([Call(server, "dense", None, {"clock": int(clock)}) for server in range(len(self._updaters))])

    # --- inside
    def _split(self, keys: Keys) -> tuple[NDArray[np.int64] | None, list[tuple[int, Keys]]]:
        """Return the places of the keys, grouped by server, or None for one server; and each server's keys."""
        if len(self._updaters) == 1:
            return None, [(0, keys)]
        places, bounds = self._partition.split(keys)
        grouped = keys[places]
        parts = [(server, grouped[bounds[server] : bounds[server + 1]]) for server in range(len(bounds) - 1)]
        return places, [(server, part) for server, part in parts if len(part)]


def _checked(keys: Keys) -> Keys:
    if not isinstance(keys, np.ndarray) or keys.dtype != np.uint64 or keys.ndim != 1:
        raise DataError("keys must be a uint64 array of one dimension")
    return np.ascontiguousarray(keys)

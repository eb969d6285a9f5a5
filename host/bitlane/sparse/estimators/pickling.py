"""A model as plain arrays, to pickle it, and back."""

from __future__ import annotations

from typing import Any


def pack(model: Any) -> dict[str, Any]:
    """Return all of a `SparseModel` as names, numbers and arrays."""
    table = model.parameters.table
    with table.frozen():
        return {
            "spec": model.spec.to_json(),
            "rows_seen": model.rows_seen,
            "rows": list(table.items()),
            "table": table.state(),
            "matrices": {name: matrix.state() for name, matrix in model.matrices.items()},
        }


def unpack(state: dict[str, Any], device: str) -> Any:
    """Return the model that `pack` took, with the same bits; `device` as in `SparseModel`."""
    from bitlane.sparse.models.model import SparseModel
    from bitlane.sparse.models.spec import ModelSpec

    model = SparseModel(ModelSpec.from_json(state["spec"]), device)
    model.rows_seen = state["rows_seen"]
    model.parameters.table.load(state["rows"])
    model.parameters.table.restore(state["table"])
    for name, matrix in model.matrices.items():
        matrix.restore(state["matrices"][name])
    return model

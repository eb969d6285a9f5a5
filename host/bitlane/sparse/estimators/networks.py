"""The parameters of estimators with layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bitlane.errors import DataError
from bitlane.sparse.models.recipes import RECIPES
from bitlane.support.optional import require_extra

from .base import SparseEstimator, by_part


@dataclass(eq=False, repr=False)
class Network(SparseEstimator):
    """A model with layers: minibatches, embeddings by field, torch."""

    batch_rows: int = RECIPES["dnn"].batch_rows
    dim: int = RECIPES["dnn"].dim
    hidden: tuple[int, ...] = RECIPES["dnn"].hidden
    initial_scale: float | None = None
    dense_optimizer: Any = None
    device: str = "cpu"

    _needs_fields: ClassVar[bool] = True
    _shape: ClassVar[tuple[str, ...]] = ("dim", "hidden", "initial_scale")

    def _check(self) -> None:
        super()._check()
        require_extra("torch", type(self).__name__, "'bitlane[sparse,torch]'")
        if not isinstance(self.hidden, tuple | list):
            raise DataError(f"hidden={self.hidden!r}: give the sizes of the hidden layers, such as (64, 32)")

    def _more(self) -> dict[str, Any]:
        return by_part(self.dense_optimizer, ("dense",), "dense_optimizer")

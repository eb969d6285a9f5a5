"""The settings of `FSDPCompression`, and their checks before anything is exchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.amp.grad_scaler import GradScaler

from bitlane.errors import DataError

from ..collectives.cost_model import AlphaBetaModel
from ..ddp.settings import check_settings, step_rules
from ..ddp.steps import NonFinite, StepRules


@dataclass(frozen=True)
class AverageSettings:
    """How the replicas exchange data; described in `FSDPCompression`."""

    nonfinite: NonFinite | None = None
    debug: bool = False
    start: int = 0
    timeout: float = 600.0
    link_model: AlphaBetaModel | None = None
    grad_scaler: GradScaler | None = None

    @property
    def rules(self) -> StepRules:
        """The rules of each step; raise DataError if one has another value."""
        return step_rules(self.nonfinite, self.debug, self.start, self.grad_scaler)

    def check(self, compressor: Any) -> None:
        """Raise DataError if a setting has another type or value, or the compressor cannot be used with groups."""
        check_settings(compressor, self.link_model, self.timeout, self.grad_scaler)
        if getattr(compressor.policy, "observes_steps", False):
            raise DataError(
                f"bits={type(compressor.policy).__name__}(...) needs the time of a step, and FSDP averages a step in "
                "groups: give a number of bits, or Adaptive()"
            )

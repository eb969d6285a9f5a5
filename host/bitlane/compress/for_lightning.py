"""Gradient compression as a callback of Lightning, which saves and loads the states of all ranks."""

from __future__ import annotations

from typing import Any

from bitlane.support.optional import is_installed, require_extra

from .compressor import Compressor
from .ddp.attach import attach
from .ddp.hook import DDPCompression
from .rank_state import gather_states, state_of_rank

_NAME = "lightning.pytorch" if is_installed("lightning") else "pytorch_lightning"  # of the two distributions
Callback: Any = require_extra(_NAME, "CompressGradients", "lightning").Callback


class CompressGradients(Callback):
    """Averages the gradients of a training with the strategy "ddp" with a compressor.

    Lightning writes the state of rank 0. So the callback sends those of all ranks there when a checkpoint is saved. A
    training that is resumed with the same number of ranks continues identically; with another number, each new rank
    has the mean of the residuals.

    Parameters
    ----------
    compressor : Compressor or str
        As in `attach`.
    **settings
        Other arguments of `DDPCompression`. The GradScaler of the precision "16-mixed" is given to it.

    Attributes
    ----------
    compression : DDPCompression or None
        The compression during a fit, and after it for its statistics; None before the first fit.

    Examples
    --------
    >>> from bitlane.compress import QSGD
    >>> callback = CompressGradients(QSGD(bits=4, error_feedback=True))  # doctest: +SKIP
    >>> lightning.Trainer(strategy="ddp", devices=2, callbacks=[callback]).fit(model)  # doctest: +SKIP
    """

    def __init__(self, compressor: Compressor | str, **settings: Any):
        self.compressor, self.settings = compressor, settings
        self.compression: DDPCompression | None = None
        self._is_open = False
        self._states: list[dict[str, Any]] = []  # of all ranks: loaded, or those at the end of a fit

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach the compressor; Lightning has wrapped the model in DDP, and may have loaded a checkpoint."""
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        settings = self.settings if scaler is None else {"grad_scaler": scaler, **self.settings}
        self.compression = attach(trainer.strategy.model, self.compressor, **settings)
        self._is_open = True
        self._restore()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep the states for a checkpoint that is saved after the fit, and close the connections."""
        self._states = self.state_dict().get("states", [])
        self._close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close the connections, so that the other ranks do not wait."""
        self._close()

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all ranks on rank 0; Lightning calls it on all ranks when it saves a checkpoint."""
        if self._is_open and self.compression is not None:
            states = gather_states(self.compression)
        else:
            states = self._states
        return {"states": states} if states else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of this rank; Lightning calls it on all ranks, before or after `on_fit_start`."""
        self._states = state_dict["states"]
        self._restore()

    def _restore(self) -> None:
        if self._is_open and self.compression is not None and self._states:
            transport = self.compression.transport
            state = state_of_rank(self.compression.compressor, self._states, transport.rank, transport.size)
            self.compression.load_state_dict(state)

    def _close(self) -> None:
        self._is_open = False
        if self.compression is not None:
            self.compression.close()

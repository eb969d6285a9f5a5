"""Checks of the settings of a hook, before anything is exchanged."""

from __future__ import annotations

from typing import get_args

from torch.amp.grad_scaler import GradScaler

from bitlane.errors import DataError
from bitlane.support.scalars import as_integer, as_number

from ..collectives.cost_model import AlphaBetaModel
from ..compressor import Compressor
from .steps import NonFinite, StepRules


def check_settings(
    compressor: Compressor, link_model: AlphaBetaModel | None, timeout: float, grad_scaler: GradScaler | None
) -> None:
    """Raise DataError if a setting has another type or value."""
    if isinstance(compressor, type) or not hasattr(compressor, "reducer"):
        name = compressor.__name__ if isinstance(compressor, type) else repr(compressor)
        raise DataError(
            f"a compressor is needed, such as QSGD(bits=4); got {name}. To parse text use "
            "bitlane.compress.registry.parse_compressor"
        )
    if link_model is not None and not isinstance(link_model, AlphaBetaModel):
        raise DataError(
            f"link_model={link_model!r}: use an AlphaBetaModel, or parse_link('100mbit') of "
            "bitlane.compress.collectives.emulated_links"
        )
    if grad_scaler is not None and not isinstance(grad_scaler, GradScaler):
        raise DataError(f"grad_scaler must be a torch.amp.GradScaler; got {type(grad_scaler).__name__}")
    if as_number("timeout", timeout) <= 0:
        raise DataError(f"timeout must be above 0 seconds; got {timeout}")


def step_rules(nonfinite: NonFinite | None, debug: bool, start: int, grad_scaler: GradScaler | None) -> StepRules:
    """Return the rules of each step; raise DataError if one has another value."""
    return StepRules(_checked_nonfinite(nonfinite, grad_scaler), debug, as_integer("start", start, 0))


def _checked_nonfinite(nonfinite: NonFinite | None, grad_scaler: GradScaler | None) -> NonFinite:
    """Return what happens to gradients that are not finite; None chooses it."""
    if nonfinite is None:
        return "raise" if grad_scaler is None else "pass"
    if nonfinite not in get_args(NonFinite):
        raise DataError(f"nonfinite must be one of {', '.join(get_args(NonFinite))}; got {nonfinite!r}")
    if grad_scaler is not None and nonfinite != "pass":
        raise DataError(
            f"nonfinite={nonfinite!r} hides infinities from the GradScaler, which then never lowers its scale: omit "
            'nonfinite, or use "pass"'
        )
    return nonfinite

"""The model of `bitlane advise`, and its computing time."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from bitlane.errors import DataError

from ..compressor import Layout
from ..costs import compute_costs
from ..step_costs import ComputeCosts
from ..training.networks import network
from .layouts import call_factory, file_layout, known_layout, module_layout
from .trial import MeasuredTraining

CHANNELS, SIDE, BATCH = 3, 32, 32  # the images for which a named network is measured


def load_model(name: str | None, text: str | None) -> tuple[Layout | MeasuredTraining, ComputeCosts | None]:
    """Return a model as `advise` takes it, and its computing time if that was measured here.

    Parameters
    ----------
    name : str or None
        A network of `networks.NETWORKS`; its computing time is measured.
    text : str or None
        Without a name: a model of `SHAPES`, a file of shapes, or a function that returns a module or a training.

    Raises
    ------
    DataError
        If there is no such model.
    """
    if name is not None:
        return module_layout(network(name, CHANNELS, SIDE, 0)), compute_costs(name, CHANNELS, SIDE, BATCH)
    text = text or ""
    if ":" not in text:
        return file_layout(Path(text)) if Path(text).is_file() else known_layout(text), None
    made = call_factory(text)
    if isinstance(made, nn.Module):
        return module_layout(made), None
    if not isinstance(made, MeasuredTraining):
        raise DataError(
            f"{text} returned {type(made).__name__}; it must return a torch.nn.Module or a MeasuredTraining"
        )
    return made, None

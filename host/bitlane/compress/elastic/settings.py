"""The settings of an `ElasticDiLoCo`, and its statistics."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from bitlane.errors import DataError
from bitlane.support.scalars import as_number

from ..compressor import Compressor
from ..compressors.dgc import DGC
from ..local.outer import OuterOptimizer
from ..local.settings import RoundSettings, check_arguments
from .messages import parse_address

LONGEST_NAME = 200


@dataclass(frozen=True)
class MemberSettings(RoundSettings):
    """How a member of an `ElasticDiLoCo` takes part; described there.

    Raises
    ------
    DataError
        If a setting has another type or value.
    """

    timeout: float = 60.0
    name: str | None = None
    state: Mapping[str, Any] | None = None
    rejoin: bool = True
    patience: float = 60.0
    inner_optimizers: Sequence[torch.optim.Optimizer] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name is not None and (not isinstance(self.name, str) or not 0 < len(self.name) <= LONGEST_NAME):
            raise DataError(f"name must be a text of 1 to {LONGEST_NAME} characters; got {self.name!r}")
        if self.process_group is not None:
            raise DataError("process_group is not supported: the members of an elastic training connect themselves")
        for each in self.inner_optimizers:
            if not isinstance(each, torch.optim.Optimizer):
                raise DataError(f"inner_optimizers must be a list of torch optimizers; got {type(each).__name__} in it")
        if as_number("patience", self.patience) < 0:
            raise DataError(f"patience must be 0 or more seconds; got {self.patience}")

    @property
    def own_name(self) -> str:
        """The name, by default that of the machine and the process."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"


def check_elastic(
    model: nn.Module,
    coordinator: str,
    outer_optimizer: OuterOptimizer | None,
    compressor: Compressor,
    settings: MemberSettings,
) -> None:
    """Raise DataError if an argument has another type, or a compressor cannot be used with changing ranks."""
    check_arguments(model, outer_optimizer, compressor, settings)
    parse_address(coordinator)
    if isinstance(compressor, DGC):
        raise DataError(
            f"{compressor!r} keeps a momentum for each rank, which cannot be handed over: use TopK, whose residual can"
        )


class Place(NamedTuple):
    """What decides which rows a member learns next.

    Attributes
    ----------
    step : int
        Inner steps so far, of all members alike.
    rank, members : int
        The number of this member in the generation, and their number.
    """

    step: int
    rank: int
    members: int


@dataclass
class ElasticStats:
    """What one member has seen since it joined.

    Attributes
    ----------
    generations : int
        Memberships that it has been part of.
    rounds : int
        Rounds that counted.
    repeated : int
        Rounds that were averaged again, because a member was lost.
    rejoined : int
        How often it was voted out, or lost its coordinator, and joined again.
    bytes_sent : int
        Bytes sent to other members, with handovers and rounds that did not count.
    seconds : float
        Time in formations and in rounds that did not count, with the wait for other members.
    lost : list of str
        Members that ended without `leave()`. What they had not sent is lost, if they kept residuals.
    """

    generations: int = 0
    rounds: int = 0
    repeated: int = 0
    rejoined: int = 0
    bytes_sent: int = 0
    seconds: float = 0.0
    lost: list[str] = field(default_factory=list)

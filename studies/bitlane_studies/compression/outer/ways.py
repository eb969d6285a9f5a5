"""The ways to average: DDP in float32 and bfloat16, DiLoCo with few bits or signs, SparseLoCo, Dion, DeMo."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dense import QSGD, EFSign
from bitlane.compress.compressors.topk import TopK
from bitlane.compress.ddp.stats import ring_bytes
from bitlane.compress.dion.optimizer import Dion
from bitlane.compress.local.diloco import DiLoCo

from .demo import DeMo
from .inner import INNER, WEIGHT_DECAY, Optimizers, adamw_of, matrices_and_others

DECAY = 0.95  # of SparseLoCo's residuals


@dataclass(frozen=True)
class Rates:
    """The tuned rates of a way: of the inner and the outer optimizer, and the outer Nesterov momentum; 0 is plain.

    Of Dion: those of Dion, and of AdamW beside it.
    """

    inner: float
    outer: float = 1.0
    momentum: float = 0.0


@dataclass(frozen=True)
class Way:
    """How the ranks average.

    Attributes
    ----------
    name : str
    family : str
        Ways of a family have the rates that were tuned for one of them.
    every : int
        Steps between two averages; 1 for DDP and Dion.
    bits : int
        Bits of a value that is sent.
    density : float
        Values that are sent, as a share of all.
    rank_fraction : float
        Of Dion.
    step_ahead : float
        Of DiLoCo.
    """

    name: str
    family: str
    every: int
    bits: int
    density: float = 1.0
    rank_fraction: float = 1.0
    step_ahead: float = 0.0

    @property
    def compressor(self) -> Compressor:
        """The compressor of a round."""
        if self.density < 1:
            return TopK(self.density, value_bits=self.bits, chunked=True, decay=DECAY)
        return EFSign() if self.bits == 1 else QSGD(self.bits, error_feedback=True)


DDP, ROUNDS, SIGNS, AHEAD = "DDP", "DiLoCo", "DiLoCo with signs", "DiLoCo with signs, ahead"
SPARSE, FACTORS, COSINES = "SparseLoCo", "Dion", "DeMo"
FLOAT32, BFLOAT16 = Way("DDP, float32", DDP, 1, 32), Way("DDP, bfloat16", DDP, 1, 16)
WAYS = (
    *(FLOAT32, BFLOAT16),
    *(Way(f"DiLoCo, {bits} bits", ROUNDS, 30, bits) for bits in (8, 4, 2)),
    Way("DiLoCo, 1 bit", SIGNS, 30, 1),
    Way("DiLoCo, 1 bit, ahead", AHEAD, 30, 1, step_ahead=0.5),
    *(Way(f"SparseLoCo, {percent} %", SPARSE, 10, 2, percent / 100) for percent in (3, 2, 1)),
    Way("SparseLoCo, 2 %, ahead", SPARSE, 10, 2, 0.02, step_ahead=0.5),
)
DION_WAYS = tuple(
    Way(f"Dion, rank 1/{part}, {bits} bits", FACTORS, 1, bits, rank_fraction=1 / part)
    for part, bits in ((2, 8), (4, 8), (4, 4), (8, 4))
)
DEMO_WAYS = tuple(Way(f"DeMo, {100 * density:g} %", COSINES, 1, 16, density) for density in (1 / 64, 1 / 256))
LONG_WAYS = (BFLOAT16, Way("DiLoCo, 1 bit, ahead, longer rounds", AHEAD, 36, 1, step_ahead=0.5))
# The ways whose rates their families take.
TUNED_BY = (
    "DDP, bfloat16",
    "DiLoCo, 4 bits",
    "DiLoCo, 1 bit",
    "DiLoCo, 1 bit, ahead",
    LONG_WAYS[1].name,
    "SparseLoCo, 2 %",
    "Dion, rank 1/4, 8 bits",
    DEMO_WAYS[0].name,
)


def ways_of(inner: str) -> tuple[Way, ...]:
    """Return the ways of an inner optimizer: Dion and DeMo average by themselves."""
    return {"dion": DION_WAYS, "demo": DEMO_WAYS}.get(inner, WAYS)


def in_bfloat16(bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Average a bucket in bfloat16, as torch's `bf16_compress_hook`, which refuses CPUs."""
    gradient = bucket.buffer()
    rounded = gradient.to(torch.bfloat16).div_(dist.get_world_size())
    reduced = dist.all_reduce(rounded, async_op=True).get_future()
    averaged: torch.futures.Future[Tensor] = reduced.then(lambda done: gradient.copy_(done.value()[0]))
    return averaged


class RankAverage:
    """A way on one rank, for one training.

    Attributes
    ----------
    called : torch.nn.Module
        The module to call in a step.
    """

    def __init__(self, way: Way, rates: Rates, model: nn.Module):
        self._way, self._rates, self._model, self.called = way, rates, model, model
        self._diloco: DiLoCo | None = None
        self._dion: Dion | None = None
        self._demo: DeMo | None = None
        if way.family == FACTORS:
            matrices, others = matrices_and_others(model)
            bits = None if way.bits == 32 else way.bits
            fraction, decay, adamw = way.rank_fraction, WEIGHT_DECAY, adamw_of(others, rates.outer)
            self._dion = Dion(matrices, rates.inner, fraction, weight_decay=decay, bits=bits, other_optimizer=adamw)
        elif way.family == COSINES:
            self._demo = DeMo(model.parameters(), rates.inner, way.density, WEIGHT_DECAY)
        elif way.every > 1:
            nesterov = rates.momentum > 0

            def outer(tensors: Iterable[Tensor]) -> torch.optim.Optimizer:
                return torch.optim.SGD(tensors, rates.outer, rates.momentum, nesterov=nesterov)

            self._diloco = DiLoCo(model, outer, way.compressor, way.every, step_ahead=way.step_ahead)
        else:
            self.called = ddp = DistributedDataParallel(model)
            if way.bits == 16:
                ddp.register_comm_hook(None, lambda _, bucket: in_bfloat16(bucket))  # DDP reads types of a function

    def optimizers(self, inner: str) -> tuple[Optimizers, Optimizers]:
        """Return the optimizers to step, those with this name or the averaging one, and all that follow a schedule."""
        if self._demo is not None:
            return [self._demo], [self._demo]
        if self._dion is None:
            own = INNER[inner](self._model, self._rates.inner)
            return own, own
        return [self._dion], [each for each in (self._dion, self._dion.other_optimizer) if each is not None]

    def step(self) -> None:
        """Do what is due after a step of the inner optimizer."""
        if self._diloco is not None:
            self._diloco.step()

    def finish(self) -> None:
        """Make the parameters of all ranks identical."""
        if self._diloco is not None:
            self._diloco.finish()

    def close(self) -> None:
        """Close the connections of the rounds or of Dion."""
        for each in (self._diloco, self._dion):
            if each is not None:
                each.close()

    def declared_bytes(self, steps: int) -> int:
        """Return the bytes of the averages: of DDP those of a ring, of the others those of their transport."""
        if self._diloco is not None:
            return self._diloco.stats.bytes_sent
        if self._demo is not None:
            return self._demo.declared_bytes
        if self._dion is not None:
            return self._dion.stats.total.bytes_sent
        values = sum(parameter.numel() for parameter in self.called.parameters())
        return round(steps * ring_bytes(values, dist.get_world_size()) * self._way.bits / 32)

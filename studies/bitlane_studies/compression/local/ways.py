"""The ways to train: alone, with an average of the gradients in each step, with rounds of DiLoCo, and of torchft's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from bitlane.compress.collectives.sockets import acknowledged_bytes, bytes_at_rest
from bitlane.compress.compressor import Compressor
from bitlane.compress.compressors.dense import QSGD
from bitlane.compress.compressors.uncompressed import Uncompressed
from bitlane.compress.ddp.stats import ring_bytes
from bitlane.compress.local.diloco import DiLoCo
from bitlane.errors import BitlaneError

from .recipe import LocalRecipe

TIMEOUT = timedelta(seconds=60)  # of torchft's exchanges


class Alone:
    """A rank that trains by itself. Its loss shows how much of the other ways' loss is due to averaging.

    Attributes
    ----------
    called : torch.nn.Module
        The module to call in a step.
    rate : float
        Largest learning rate of the inner optimizer.
    """

    def __init__(self, model: nn.Module, recipe: LocalRecipe):
        self.called, self.rate = model, recipe.rate

    def scope(self, inner: torch.optim.Optimizer) -> AbstractContextManager[object]:
        """Return what holds the connections while the inner optimizer makes its steps."""
        return nullcontext()

    def step(self) -> None:
        """Do what is due after a step of the inner optimizer."""

    def finish(self) -> None:
        """Make the parameters of all ranks identical, if this way does."""

    def socket_bytes(self) -> int:
        """Return the bytes that the other ranks have acknowledged on all open connections of this process."""
        return bytes_at_rest()

    def declared_bytes(self, steps: int) -> int:
        """Return the bytes that this rank has sent by its own count, or should have sent by the formula."""
        return 0


class EachStep(Alone):
    """Plain DDP: the gradients are averaged in float32 in each step. The declared bytes are those of a ring."""

    def __init__(self, model: nn.Module, recipe: LocalRecipe):
        super().__init__(model, recipe)
        self.called = DistributedDataParallel(model)

    def declared_bytes(self, steps: int) -> int:
        values = sum(parameter.numel() for parameter in self.called.parameters())
        return round(steps * ring_bytes(values, dist.get_world_size()))


class DiLoCoRounds(Alone):
    """DiLoCo with a compressor. The declared bytes are those of its transport, with the start."""

    def __init__(self, compressor: Compressor, model: nn.Module, recipe: LocalRecipe):
        super().__init__(model, recipe)
        self.rate = recipe.local_rate
        outer = partial(outer_optimizer, recipe)
        self.diloco = DiLoCo(model, outer, compressor, recipe.every)

    def scope(self, inner: torch.optim.Optimizer) -> AbstractContextManager[object]:
        return self.diloco

    def step(self) -> None:
        self.diloco.step()

    def finish(self) -> None:
        self.diloco.finish()

    def declared_bytes(self, steps: int) -> int:
        return self.diloco.transport.sent


class FaultTolerantRounds(Alone):
    """DiLoCo of torchft, in float32, with a manager on each rank and their lighthouse on rank 0.

    Its socket's bytes contain messages between managers, several a second, and not the start, whose
    connection is closed early. torchft quantizes on GPUs only.

    Raises
    ------
    BitlaneError
        torchft is not installed.
    """

    def __init__(self, model: nn.Module, recipe: LocalRecipe):
        super().__init__(model, recipe)
        self.rate, self._recipe = recipe.local_rate, recipe

    @contextmanager
    def scope(self, inner: torch.optim.Optimizer) -> Iterator[object]:
        os.environ.setdefault("RUST_LOG", "error")  # otherwise its managers log each quorum
        try:
            from torchft import Manager, ProcessGroupGloo
            from torchft.coordination import LighthouseServer
            from torchft.local_sgd import DiLoCo as TorchftDiLoCo
        except ModuleNotFoundError as error:
            raise BitlaneError(f"no module {error.name!r}: pip install torchft") from None
        ranks, model = dist.get_world_size(), self.called
        lighthouse = LighthouseServer("[::]:0", ranks) if dist.get_rank() == 0 else None
        address = [lighthouse.address() if lighthouse else ""]
        dist.broadcast_object_list(address)
        store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        manager = Manager(
            ProcessGroupGloo(TIMEOUT),
            load_state_dict=model.load_state_dict,
            state_dict=model.state_dict,
            min_replica_size=ranks,
            use_async_quorum=False,
            replica_id=str(dist.get_rank()),
            store_addr="localhost",
            store_port=store.port,
            rank=0,
            world_size=1,
            lighthouse_addr=address[0],
        )
        try:
            outer = outer_optimizer(self._recipe, [*model.parameters()])
            with TorchftDiLoCo(manager, [model], inner, outer, self._recipe.every) as rounds:
                yield rounds
            dist.barrier()  # rank 0 has the lighthouse of all
        finally:
            manager.shutdown(wait=False)
            if lighthouse:
                lighthouse.shutdown()

    def socket_bytes(self) -> int:
        time.sleep(1)  # the managers never rest
        return acknowledged_bytes()


def outer_optimizer(recipe: LocalRecipe, tensors: list[Tensor]) -> torch.optim.Optimizer:
    """Return SGD with the outer rate and the Nesterov momentum of a recipe; without momentum if that is 0."""
    momentum = recipe.outer_momentum
    return torch.optim.SGD(tensors, recipe.outer_rate, momentum, nesterov=momentum > 0)


PLAIN, FLOAT32, FOUR_BITS, ALONE = "plain DDP", "DiLoCo, float32", "DiLoCo, 4 bits", "each rank alone"
LONGER = f"{FOUR_BITS}, longer rounds"
TORCHFT = "torchft's DiLoCo, float32"
FOUR_BIT_ROUNDS = partial(DiLoCoRounds, QSGD(bits=4, error_feedback=True))
WAYS: dict[str, Callable[[nn.Module, LocalRecipe], Alone]] = {
    PLAIN: EachStep,
    FLOAT32: partial(DiLoCoRounds, Uncompressed()),
    FOUR_BITS: FOUR_BIT_ROUNDS,
    LONGER: FOUR_BIT_ROUNDS,
    TORCHFT: FaultTolerantRounds,
    ALONE: Alone,
}


def recipe_of(way: str, recipe: LocalRecipe) -> LocalRecipe:
    """Return the recipe of a way, from that of plain DDP."""
    return recipe.longer() if way == LONGER else recipe

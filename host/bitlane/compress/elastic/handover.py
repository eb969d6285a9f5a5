"""What a member gives to others: the state to those that join, its residuals to a neighbour when it leaves.

The state is what all members have alike: the global copies, the outer optimizers, the number of steps, and of the
compressor what does not depend on the rank. One that joins also gets the buffers and the parameters that are not
trained, and the states of inner optimizers. Its residuals begin with zeros.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn

from ..collectives.transport import Transport
from ..compressor import Compressor, SavedState, with_own_seed
from ..ddp.states import relocated, residual_of
from ..ddp.steps import StepRunner
from ..local.fragments import Fragment
from ..local.outer import GlobalFragment, copied
from ..local.same_start import named_tensors
from .membership import Formation
from .mesh import Unreached

DIGEST_BYTES = 16


class MemberState:
    """The state of a member, and its parts that move to others.

    Parameters
    ----------
    model : torch.nn.Module
        The model of this member.
    fragments : sequence of GlobalFragment
        Its global copies.
    compressor : Compressor
        The settings.
    inner : sequence of torch.optim.Optimizer
        The inner optimizers whose states move, too.

    Attributes
    ----------
    step : int
        Inner steps at the last round that counted.
    handovers : int
        How often this member has got the state of another one.
    before : dict
        The state of the average of a fragment, by its number, before the round in progress; as long as it may not
        count.
    """

    def __init__(
        self,
        model: nn.Module,
        fragments: Sequence[GlobalFragment],
        compressor: Compressor,
        inner: Sequence[torch.optim.Optimizer] = (),
    ):
        self.model, self.fragments, self.compressor, self.inner = model, fragments, compressor, inner
        self.step = self.handovers = 0
        self.before: dict[int, SavedState | None] = {}

    def begin_round(self, number: int) -> None:
        """Keep the state of the average of a fragment until the round counts."""
        self.before = {number: self.fragments[number].average_state()}

    def end_round(self, step: int) -> None:
        """Note that a round counts."""
        self.step, self.before = step, {}

    def digest(self, with_tensors: bool = False) -> str:
        """Return a digest of what all members have alike; `with_tensors` also of all tensors of the model."""
        total = blake2b(str(self.step).encode(), digest_size=DIGEST_BYTES)
        for each in self.fragments:
            update(total, each.vector)
            update(total, each.optimizer.state_dict())
        if with_tensors:
            update(total, named_tensors(self.model))
        return total.hexdigest()

    def result_digest(self, number: int, average: Tensor) -> str:
        """Return a digest of an average and of the global copy that it will change."""
        total = blake2b(digest_size=DIGEST_BYTES)
        update(total, average)
        update(total, self.fragments[number].vector)
        return total.hexdigest()

    def saved(self) -> dict[str, Any]:
        """Return a copy of the state of this member, as tensors, numbers and text."""
        fragments = [each.state_dict() | {"start": None} for each in self.fragments]  # it goes on from the global copy
        for number, average in self.before.items():
            fragments[number]["average"] = average
        trained = {id(each) for fragment in self.fragments for each in fragment.fragment.parameters}
        named = named_tensors(self.model)
        others = {name: each.detach().clone() for name, each in named.items() if id(each) not in trained}
        inner = [copied(each.state_dict()) for each in self.inner]
        return {"step": self.step, "fragments": fragments, "tensors": others, "inner": inner}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `saved` returned, on this or another member; the parameters become the global ones."""
        named = named_tensors(self.model)
        with torch.no_grad():
            for name, value in state["tensors"].items():
                named[name].copy_(value)
        for fragment, saved in zip(self.fragments, state["fragments"], strict=True):
            fragment.load_state_dict(saved)
            fragment.set_parameters()
        for optimizer, saved in zip(self.inner, state["inner"], strict=True):
            optimizer.load_state_dict(copied(saved))
        self.step, self.before = state["step"], {}

    def hand_over(self, formation: Formation, name: str, transport: Transport) -> list[Tensor | None]:
        """Exchange what the formation moves. The ranks are its members and then its givers.

        Returns
        -------
        list of (Tensor, float32 [n], or None)
            For each fragment what this member takes over of those that leave, in units of the average.
        """
        if not formation.behind and not formation.givers:
            return [None] * len(self.fragments)
        ranks = [*formation.names, *(each[0] for each in formation.givers)]
        nothing, outgoing = torch.empty(0, dtype=torch.uint8), [torch.empty(0, dtype=torch.uint8)] * len(ranks)
        if name == formation.source and formation.behind:
            body = packed_state(self.saved())
            outgoing = [body if each in formation.behind else nothing for each in ranks]
        neighbours = {giver[0]: neighbour(giver[0], formation.names) for giver in formation.givers}
        if name in neighbours:
            to = ranks.index(neighbours[name])
            outgoing[to] = torch.cat([outgoing[to], packed_state(self._unsent())])
        bodies = exchange_all(transport, outgoing)
        received = [unpacked_states(each, source) for each, source in zip(bodies, ranks, strict=True)]
        if name in formation.behind:
            self.load(received[ranks.index(formation.source)][0])
            self.handovers += 1
        taken: list[Tensor | None] = [None] * len(self.fragments)
        for giver, to_name in neighbours.items():
            if to_name == name != giver:
                for number, part in enumerate(received[ranks.index(giver)][-1]["unsent"]):
                    before = taken[number]
                    taken[number] = part if before is None or part is None else before + part
        return taken

    @property
    def keeps_residuals(self) -> bool:
        """Whether a member has something that the others have not received, after the first round."""
        return any(part is not None for part in self._unsent()["unsent"])

    def _unsent(self) -> dict[str, Any]:
        """Return the residual of each fragment in units of the average; None without one."""
        parts: list[Tensor | None] = []
        for number, each in enumerate(self.fragments):
            average = each.average_state()
            residual = None if average is None else residual_of(self._compressor(number), average)
            parts.append(None if average is None or residual is None else residual / average["ranks"])
        return {"unsent": parts}

    def move(
        self,
        transport: Transport,
        is_new: bool,
        taken: Sequence[Tensor | None],
        runner: Callable[[Transport, int, Fragment], StepRunner],
    ) -> None:
        """Continue with the ranks of another generation.

        Parameters
        ----------
        transport : Transport
            Their connection.
        is_new : bool
            Whether the state is that of another member, which keeps its residuals itself.
        taken : sequence of (Tensor, float32 [n], or None)
            Residuals of members that leave, in units of the average.
        runner : callable
            Returns a `StepRunner` for a transport, a number and a fragment.
        """
        rank, ranks = transport.rank, transport.size
        for number, each in enumerate(self.fragments):
            average = self.before[number] if number in self.before else each.average_state()
            stays = average is not None and (average["rank"], average["ranks"]) == (rank, ranks)
            if average is not None and (is_new or not stays or taken[number] is not None):
                own = 0.0 if is_new else ranks / average["ranks"]
                part = taken[number]
                extra = None if part is None else part * ranks
                average = relocated(self._compressor(number), average, rank, ranks, own, extra)
            each.reconnect(partial(runner, transport, number, each.fragment), average)
        self.before = {}

    def _compressor(self, number: int) -> Compressor:
        return with_own_seed(self.compressor, number)


def neighbour(name: str, members: Sequence[str]) -> str:
    """Return the member that takes over from one that leaves: the next one in order, after the last the first."""
    return next((each for each in members if each > name), members[0])


def exchange_all(transport: Transport, outgoing: Sequence[Tensor]) -> list[Tensor]:
    """Send `outgoing[j]`, uint8 [any], to rank j, and return what each rank has sent."""
    lengths = [torch.tensor([len(each)]).view(torch.uint8) for each in outgoing]
    announced = transport.exchange(lengths, [8] * transport.size)
    return transport.exchange(outgoing, [int(each.view(torch.int64)) for each in announced])


def packed_state(state: Mapping[str, Any]) -> Tensor:
    """Return a state as bytes, uint8 [n]: their number, a digest and what `torch.save` writes."""
    file = io.BytesIO()
    torch.save(dict(state), file)
    body = file.getvalue()
    head = len(body).to_bytes(8, "little") + blake2b(body, digest_size=DIGEST_BYTES).digest()
    return torch.frombuffer(bytearray(head + body), dtype=torch.uint8)


def unpacked_states(data: Tensor, source: str) -> list[dict[str, Any]]:
    """Return the states in bytes that `packed_state` returned, joined; raise Unreached if a digest differs."""
    rest, states = data.numpy().tobytes(), []
    while rest:
        end = 8 + DIGEST_BYTES + int.from_bytes(rest[:8], "little")
        body, rest, expected = rest[8 + DIGEST_BYTES : end], rest[end:], rest[8 : 8 + DIGEST_BYTES]
        if blake2b(body, digest_size=DIGEST_BYTES).digest() != expected:
            raise Unreached(f"the state of {source} arrived with another digest", [source])
        states.append(torch.load(io.BytesIO(body), weights_only=True))
    return states


def update(total: Any, value: object) -> None:
    """Add nested dictionaries, lists, tensors and numbers to a digest."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            total.update(repr(name).encode())
            update(total, each)
    elif isinstance(value, list | tuple):
        for each in value:
            update(total, each)
    elif isinstance(value, Tensor):
        total.update(f"{value.dtype}{list(value.shape)}".encode())
        total.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    else:
        total.update(repr(value).encode())

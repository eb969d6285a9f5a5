"""How bytes go from rank to rank. One operation, and a count of what it sends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from bitlane.errors import BitlaneError

Result = TypeVar("Result")


class RankFailed(BitlaneError):
    """Another rank failed, ended, or did not answer in time."""


class Transport(Protocol):
    """All ranks together.

    Attributes
    ----------
    rank, size: this one's number, and how many there are.
    device: where the bytes have to lie.
    sent: bytes given to other ranks so far, which are all that this rank sends but the transport's own framing.
    """

    rank: int
    size: int
    device: torch.device
    sent: int

    def exchange(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        """Give part j to rank j, and take `lengths[i]` bytes from rank i; every rank calls it at the same point.

        Parts are uint8 [n]. What goes from a rank to itself is handed over as it is.
        """
        ...

    def abort(self) -> None:
        """Take no further part: ranks that wait for this one get an error."""
        ...


class TorchTransport:
    """The members of a `torch.distributed` process group, gloo or NCCL. Raises BitlaneError where there is none.

    They form a group of their own, so that a rank can leave it: all members have to make one at the same point.

    Parameters
    ----------
    group: None for the default group.
    patience: seconds that a rank waits for another.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, timeout: float = 600.0):
        if not dist.is_initialized():
            raise BitlaneError("no process group: call torch.distributed.init_process_group first, under torchrun")
        group = group if group is not None else dist.group.WORLD
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise BitlaneError("this process is no member of the process group that it was given")
        backend = dist.get_backend(group)
        self._on_gpu = "nccl" in backend
        self.device = torch.device("cuda", torch.cuda.current_device()) if self._on_gpu else torch.device("cpu")
        self.sent = 0
        members = dist.get_process_group_ranks(group)
        self._group = dist.new_group(
            members, timedelta(seconds=timeout), backend, use_local_synchronization=len(members) > 1
        )

    def abort(self) -> None:
        if self._group is not None:
            group, self._group = self._group, None
            dist.destroy_process_group(group)

    def exchange(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        if self._group is None:
            raise BitlaneError(f"rank {self.rank} has left the others after an error: go on from a checkpoint")
        found = self._all_to_all(parts, lengths) if self._on_gpu else self._by_pairs(parts, lengths)
        self.sent += sum(len(part) for rank, part in enumerate(parts) if rank != self.rank)
        found[self.rank] = parts[self.rank]
        return found

    def _all_to_all(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        outgoing = [0 if rank == self.rank else len(part) for rank, part in enumerate(parts)]
        incoming = [0 if rank == self.rank else length for rank, length in enumerate(lengths)]
        others = [part.to(self.device) for rank, part in enumerate(parts) if rank != self.rank]
        sent = torch.cat(others) if others else torch.empty(0, dtype=torch.uint8, device=self.device)
        received = torch.empty(sum(incoming), dtype=torch.uint8, device=self.device)
        with self._talking():
            dist.all_to_all_single(received, sent, incoming, outgoing, group=self._group)
        return list(received.split(incoming))

    def _by_pairs(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        """Gloo announces a receive in the stream that it sends in: posted late, it waits behind the rank's own data,
        and both directions of a link take turns. Posted first, they go at a time; its all-to-all does not see to that.
        """
        received = [torch.empty(length, dtype=torch.uint8) for length in lengths]
        outgoing = [part.cpu() for part in parts]
        others = [(self.rank + distance) % self.size for distance in range(1, self.size)]
        place = {rank: dist.get_global_rank(self._group, rank) for rank in others}
        with self._talking():
            waiting = [dist.irecv(received[rank], place[rank], self._group) for rank in others if lengths[rank]]
            waiting += [dist.isend(outgoing[rank], place[rank], self._group) for rank in others if len(parts[rank])]
            for each in waiting:
                each.wait()
        return received

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """What fails here is another rank's failure."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise RankFailed(
                f"rank {self.rank} waited in vain for another rank, which failed, ended or hangs: {reason}"
            ) from error


class ThreadTransport:
    """A rank of a `together` call: threads of one process, for tests and for many ranks on one machine."""

    device = torch.device("cpu")

    def __init__(self, rank: int, queues: list[list[queue.Queue[Tensor | None]]], timeout: float):
        self.rank, self.size, self.sent = rank, len(queues), 0
        self._boxes, self._patience = queues, timeout

    def exchange(self, parts: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        for rank, part in enumerate(parts):
            self._boxes[rank][self.rank].put(part.clone())
            self.sent += len(part) if rank != self.rank else 0
        return [self._taken(rank, length) for rank, length in enumerate(lengths)]

    def abort(self) -> None:
        for box in self._boxes:
            box[self.rank].put(None)

    def _taken(self, rank: int, length: int) -> Tensor:
        try:
            part = self._boxes[self.rank][rank].get(timeout=self._patience)
        except queue.Empty:
            part = None
        if part is None:
            raise RankFailed(f"rank {rank} sent nothing to rank {self.rank}")
        if len(part) != length:
            raise BitlaneError(f"rank {rank} sent {len(part)} bytes to rank {self.rank}, which expected {length}")
        return part


def run_ranks_in_threads(size: int, work: Callable[[ThreadTransport], Result], timeout: float = 60.0) -> list[Result]:
    """`work` as `size` ranks, each a thread of this process; their results in order of rank.

    The first error that a rank raised of itself is raised here; the others then get one, instead of waiting.
    patience: seconds that a rank waits for another.
    """
    boxes: list[list[queue.Queue[Tensor | None]]] = [[queue.Queue() for _ in range(size)] for _ in range(size)]
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        transport = ThreadTransport(rank, boxes, timeout)
        try:
            results[rank] = work(transport)
        except BaseException as error:
            errors.append(error)
            transport.abort()

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(size)]

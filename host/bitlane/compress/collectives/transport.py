"""Transports move bytes between ranks: one operation, `exchange`, and a count of the bytes sent."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from bitlane.errors import BitlaneError

RankResultT = TypeVar("RankResultT")
FRAME = 144  # bytes that gloo adds to a message: three records of 48 bytes, measured at the socket


class RankFailed(BitlaneError):
    """Another rank failed, ended or timed out. The message names the ranks that have not answered (not with NCCL)."""


class Transport(Protocol):
    """The connection of this rank to all ranks.

    Attributes
    ----------
    rank : int
        Number of this rank.
    size : int
        Number of ranks.
    device : torch.device
        The device of the bytes.
    sent : int
        Bytes sent to other ranks so far, without the framing of the transport.
    """

    rank: int
    size: int
    device: torch.device
    sent: int

    def exchange(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        """Send `buffers[j]`, uint8 [n], to rank j, and return `lengths[i]` bytes from each rank i.

        All ranks call it at the same point. The buffer of the own rank is returned without a copy.
        """
        ...

    def abort(self) -> None:
        """Leave the group: ranks that wait for this one get an error. A second call does nothing."""
        ...

    def close(self) -> None:
        """Free connections and threads, on all ranks after their last exchange. A second call does nothing."""
        ...


class TorchTransport:
    """The members of a `torch.distributed` process group, with gloo or NCCL.

    It creates a second group with the same members, so that `abort` can leave it and `close` can free its connections
    and threads. All members must therefore create their transport at the same point.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup or None, default: None
        The process group; None for the default group.
    timeout : float, default: 600
        Seconds that a rank waits for another.

    Raises
    ------
    BitlaneError
        If there is no process group, or this process is not a member.
    RankFailed
        If another member has not created its transport in time (gloo).
    """

    def __init__(self, group: dist.ProcessGroup | None = None, timeout: float = 600.0):
        if not dist.is_initialized():
            raise BitlaneError("no process group: call torch.distributed.init_process_group first, under torchrun")
        group = group if group is not None else dist.group.WORLD
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise BitlaneError("this process is not a member of the given process group")
        backend = dist.get_backend(group)
        self._on_gpu = "nccl" in backend
        self.device = torch.device("cuda", torch.cuda.current_device()) if self._on_gpu else torch.device("cpu")
        self.sent = 0
        self._left = ""  # why the group is no longer there
        members, wait = dist.get_process_group_ranks(group), timedelta(seconds=timeout)
        if self._on_gpu:
            self._group = dist.new_group(members, wait, backend, use_local_synchronization=len(members) > 1)
        else:
            self._group = self._connected(members, wait)

    def _connected(self, members: Sequence[int], wait: timedelta) -> dist.ProcessGroupGloo:
        try:
            return dist.ProcessGroupGloo(_unused_store(members), self.rank, self.size, wait)
        except RuntimeError as error:
            reason, all_ranks = str(error).splitlines()[0], ", ".join(map(str, members))
            raise RankFailed(
                f"rank {self.rank} could not connect to all of ranks {all_ranks} within {wait.total_seconds():g} "
                f"seconds: all of them must attach at the same point ({reason})"
            ) from error

    def abort(self) -> None:
        self._leave("after an error: restart from a checkpoint")

    def close(self) -> None:
        self._leave("when it was closed")

    def _leave(self, why: str) -> None:
        if self._group is None:
            return
        group, self._group, self._left = self._group, None, why
        if self._on_gpu:
            dist.destroy_process_group(group)
        else:
            group.abort()

    def exchange(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        if self._group is None:
            raise BitlaneError(f"rank {self.rank} has left the process group {self._left}")
        if self.size == 1:
            return list(buffers)
        received = self._all_to_all(buffers, lengths) if self._on_gpu else self._pairwise(buffers, lengths)
        self.sent += sum(len(buffer) for rank, buffer in enumerate(buffers) if rank != self.rank)
        received[self.rank] = buffers[self.rank]
        return received

    def _all_to_all(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        outgoing = [0 if rank == self.rank else len(buffer) for rank, buffer in enumerate(buffers)]
        incoming = [0 if rank == self.rank else length for rank, length in enumerate(lengths)]
        others = [buffer.to(self.device) for rank, buffer in enumerate(buffers) if rank != self.rank]
        sent = torch.cat(others) if others else torch.empty(0, dtype=torch.uint8, device=self.device)
        received = torch.empty(sum(incoming), dtype=torch.uint8, device=self.device)
        with self._rank_failures():
            dist.all_to_all_single(received, sent, incoming, outgoing, group=self._group)
        return list(received.split(incoming))

    def _pairwise(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        """Post all receives before the sends, so that both directions of a link are used at the same time.

        Gloo announces a receive in the same stream in which it sends. An announcement behind the data would delay the
        peer, and the directions would take turns, as they do in gloo's all-to-all.
        """
        received = [torch.empty(length, dtype=torch.uint8) for length in lengths]
        outgoing = [buffer.cpu() for buffer in buffers]
        others = [(self.rank + distance) % self.size for distance in range(1, self.size)]
        pending: list[tuple[int, dist.Work]] = []
        with self._rank_failures(pending):
            pending += [(rank, self._group.recv([received[rank]], rank, 0)) for rank in others if lengths[rank]]
            pending += [(rank, self._group.send([outgoing[rank]], rank, 0)) for rank in others if len(buffers[rank])]
            while pending:
                pending[0][1].wait()
                del pending[0]
        return received

    @contextmanager
    def _rank_failures(self, pending: Sequence[tuple[int, dist.Work]] = ()) -> Iterator[None]:
        """Convert RuntimeError, which torch raises when another rank fails, to RankFailed.

        `pending` has what the exchange still waits for, by rank; the first has failed.
        """
        try:
            yield
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            lost = sorted(
                {pending[0][0], *(rank for rank, each in pending[1:] if not _is_done(each))} if pending else ()
            )
            who = "another rank" if not lost else f"rank{'s' * (len(lost) > 1)} {', '.join(map(str, lost))}"
            raise RankFailed(
                f"rank {self.rank} got no answer from {who}, which failed, ended or hangs: {reason}"
            ) from error


def _is_done(work: dist.Work) -> bool:
    """Return whether data has been received or sent. A work of gloo only knows after it was waited for."""
    try:
        return bool(work.wait(timedelta(milliseconds=1)))
    except RuntimeError:
        return False


_default_group: object = None  # whose groups are counted
_groups: Counter[str] = Counter()  # so far, by their members


def _unused_store(members: Sequence[int]) -> dist.Store:
    """Return a store for a new group of these ranks, with keys that no group has used.

    A store keeps the addresses of groups that were left. With the same keys, a new group would connect to them.
    """
    global _default_group
    if _default_group is not dist.group.WORLD:
        _default_group = dist.group.WORLD
        _groups.clear()
    names = "_".join(map(str, members))
    _groups[names] += 1
    return dist.PrefixStore(f"bitlane/{names}/{_groups[names]}", dist.distributed_c10d._get_default_store())


class ThreadTransport:
    """A rank of `run_ranks_in_threads`: a thread of this process, for tests and studies."""

    device = torch.device("cpu")

    def __init__(self, rank: int, queues: list[list[queue.Queue[Tensor | None]]], timeout: float):
        self.rank = rank
        self.size = len(queues)
        self.sent = 0
        self._queues, self._timeout = queues, timeout

    def exchange(self, buffers: Sequence[Tensor], lengths: Sequence[int]) -> list[Tensor]:
        for rank, buffer in enumerate(buffers):
            self._queues[rank][self.rank].put(buffer.to(self.device, copy=True))  # waits for the stream of a GPU
            self.sent += len(buffer) if rank != self.rank else 0
        return [self._receive(rank, length) for rank, length in enumerate(lengths)]

    def abort(self) -> None:
        for incoming in self._queues:
            incoming[self.rank].put(None)

    def close(self) -> None:
        """Do nothing: a thread has no connection."""

    def _receive(self, rank: int, length: int) -> Tensor:
        try:
            buffer = self._queues[self.rank][rank].get(timeout=self._timeout)
        except queue.Empty:
            buffer = None
        if buffer is None:
            raise RankFailed(f"rank {rank} sent nothing to rank {self.rank}")
        if len(buffer) != length:
            raise BitlaneError(f"rank {rank} sent {len(buffer)} bytes to rank {self.rank}, which expected {length}")
        return buffer


def connect_threads(size: int, timeout: float) -> list[ThreadTransport]:
    """Return the transports of `size` ranks, each for a thread; a rank waits `timeout` seconds for another."""
    queues: list[list[queue.Queue[Tensor | None]]] = [[queue.Queue() for _ in range(size)] for _ in range(size)]
    return [ThreadTransport(rank, queues, timeout) for rank in range(size)]


def run_ranks_in_threads(
    size: int, work: Callable[[ThreadTransport], RankResultT], timeout: float = 60.0
) -> list[RankResultT]:
    """Run `work` on `size` ranks, each a thread of this process.

    If a rank raises, the others get an error instead of waiting, and this function raises the first error.

    Parameters
    ----------
    size : int
        Number of ranks.
    work : callable
        Called with the transport of each rank.
    timeout : float, default: 60
        Seconds that a rank waits for another.

    Returns
    -------
    list
        The result of each rank, in order.
    """
    transports = connect_threads(size, timeout)
    results: dict[int, RankResultT] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(transports[rank])
        except BaseException as error:
            errors.append(error)
            transports[rank].abort()

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(size)]

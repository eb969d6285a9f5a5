"""Ranks as processes of this machine, over gloo: what trains here, and what the tests of real processes run in."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
import torch.distributed as dist

from bitlane.errors import BitlaneError

from .transport import RankFailed

GRACE = 5.0  # seconds that the other ranks have for their errors, once one has failed

Work = Callable[..., Any]
Report = Callable[[Any], None]


def launch(
    work: Work,
    ranks: int,
    *arguments: Any,
    timeout: float | None = None,
    enter: Callable[[int], None] | None = None,
    on_report: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """What `work(report, *arguments)` returns in each of `ranks` processes, in order of rank.

    A process group is there when it is called. All processes have ended when this returns or raises.

    Parameters
    ----------
    work: a function of a module, since processes start afresh; so are `enter` and the arguments' types.
    patience: seconds that all of it may take; None for no limit.
    enter: called with its rank by each process before all else: it may change the network that the process sees.
    hear: called with rank and value for what a rank gives to its `report`.

    Raises
    ------
    BitlaneError: a rank failed, was killed, or took too long: which, and why, in one line; its traceback is the cause.
    """
    context = multiprocessing.get_context("spawn")
    crew: list[_RankProcess] = []
    with tempfile.TemporaryDirectory(prefix="bitlane-ranks.") as folder:
        try:
            for rank in range(ranks):
                here, there = context.Pipe()
                process = context.Process(
                    target=_rank, args=(there, enter, folder, rank, ranks, work, arguments), daemon=True
                )
                process.start()
                there.close()
                crew.append(_RankProcess(rank, process, here))
            return _results(crew, timeout, on_report)
        finally:
            for member in crew:
                member.end()


@dataclass
class _Failure:
    """Why a rank has no result."""

    text: str
    trace: str = ""
    blame: int = 0  # whose failure explains the others' best, the least: 0 ended, 1 raised, 2 was failed by another


@dataclass
class _RankProcess:
    """A rank, as the process sees it that started it."""

    rank: int
    process: BaseProcess
    connection: Connection
    result: Any = None
    finished: bool = False

    def receive(self, hear: Callable[[int, Any], None] | None) -> None:
        try:
            final, value = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(GRACE)
            final, value = True, _Failure(f"was ended by {_cause(self.process.exitcode)}")
        if final:
            self.result, self.finished = value, True
        elif hear is not None:
            hear(self.rank, value)

    def end(self) -> None:
        """A rank with a result goes by itself when its connection closes; any other is killed."""
        self.connection.close()
        if not self.finished or isinstance(self.result, _Failure):
            self.process.kill()
        self.process.join()


def _results(
    crew: Sequence[_RankProcess], patience: float | None, hear: Callable[[int, Any], None] | None
) -> list[Any]:
    limit = None if patience is None else time.monotonic() + patience
    failures: list[_RankProcess] = []
    while waiting := [member for member in crew if not member.finished]:
        left = None if limit is None else max(0.0, limit - time.monotonic())
        ready = wait([member.connection for member in waiting], left)
        if not ready:
            break
        for member in waiting:
            if member.connection in ready:
                member.receive(hear)
        if not failures and (failures := [member for member in crew if isinstance(member.result, _Failure)]):
            limit = time.monotonic() + GRACE
    _raise(crew, patience)
    return [member.result for member in crew]


def _raise(crew: Sequence[_RankProcess], patience: float | None) -> None:
    """The error of the rank that failed by itself, where there is one."""
    failed = [(member.rank, member.result) for member in crew if isinstance(member.result, _Failure)]
    if failed:
        rank, failure = min(failed, key=lambda each: each[1].blame)
        raise BitlaneError(f"rank {rank} {failure.text}") from (RuntimeError(failure.trace) if failure.trace else None)
    late = [str(member.rank) for member in crew if not member.finished]
    if late:
        raise BitlaneError(f"no end after {patience:g} seconds: ranks {', '.join(late)} were still at work")


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit status {code}"


def _rank(
    connection: Connection,
    enter: Callable[[int], None] | None,
    folder: str,
    rank: int,
    ranks: int,
    work: Work,
    arguments: Sequence[Any],
) -> None:
    """A rank's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the process that started it, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        if enter is not None:
            enter(rank)
        elif "lo" in [name for _, name in socket.if_nameindex()]:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // ranks))
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
        outcome = work(lambda value: connection.send((False, value)), *arguments)
    except BaseException as error:
        text = str(error) if isinstance(error, BitlaneError) else f"{type(error).__name__}: {error}"
        outcome = _Failure(f"failed: {text}", traceback.format_exc(), 2 if isinstance(error, RankFailed) else 1)
    connection.send((True, outcome))
    if not isinstance(outcome, _Failure):
        with suppress(EOFError, OSError):  # what others have yet to read goes with the connections: wait for all
            connection.recv()
    sys.stdout.flush()
    os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

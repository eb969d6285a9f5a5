"""Launch ranks as processes of this machine, connected by gloo."""

from __future__ import annotations

import logging
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
from bitlane.support.processors import processors

from .transport import RankFailed

LOG = logging.getLogger(__name__)
GRACE = 5.0  # seconds that the other ranks have to report their errors after one has failed

Work = Callable[..., Any]
Report = Callable[[Any], None]


def launch(
    work: Work,
    ranks: int,
    *arguments: object,
    timeout: float | None = None,
    enter: Callable[[int], None] | None = None,
    on_report: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """Run `work(report, *arguments)` in `ranks` processes that form a process group.

    All processes have ended when this function returns or raises.

    Parameters
    ----------
    work : callable
        A module-level function, because the processes are spawned. The same holds for `enter` and the types of
        the arguments. Its first parameter, `report`, sends a value to `on_report`.
    ranks : int
        Number of processes.
    *arguments
        Further arguments of `work`.
    timeout : float or None, default: None
        Time limit for everything, in seconds; None for no limit.
    enter : callable or None, default: None
        Called with the rank in each process before anything else, for example to enter a network namespace.
    on_report : callable or None, default: None
        Called in this process with the rank and each value that the rank reports.

    Returns
    -------
    list
        The result of each rank, in order.

    Raises
    ------
    BitlaneError
        If a rank failed, was killed or exceeded the time limit. The message names the rank and the reason; the
        traceback of the rank is the cause of the exception.
    """
    context = multiprocessing.get_context("spawn")
    processes: list[_RankProcess] = []
    LOG.debug("starting %d processes", ranks)
    with tempfile.TemporaryDirectory(prefix="bitlane-ranks.") as folder:
        try:
            for rank in range(ranks):
                here, there = context.Pipe()
                process = context.Process(
                    target=_rank, args=(there, enter, folder, rank, ranks, work, arguments), daemon=True
                )
                process.start()
                there.close()
                processes.append(_RankProcess(rank, process, here))
            return _results(processes, timeout, on_report)
        finally:
            for each in processes:
                each.end()


@dataclass
class _Failure:
    """Why a rank has no result."""

    text: str
    trace: str = ""
    priority: int = 0  # the lowest is the root cause: 0 the process ended, 1 it raised, 2 another rank failed


@dataclass
class _RankProcess:
    """The process of a rank, as its parent sees it."""

    rank: int
    process: BaseProcess
    connection: Connection
    result: Any = None
    finished: bool = False

    def receive(self, on_report: Callable[[int, Any], None] | None) -> None:
        try:
            final, value = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(GRACE)
            final, value = True, _Failure(f"was ended by {_exit_reason(self.process.exitcode)}")
        if final:
            self.result, self.finished = value, True
        elif on_report is not None:
            on_report(self.rank, value)

    def end(self) -> None:
        """Close the connection, upon which a process with a result exits; kill any other process."""
        self.connection.close()
        if not self.finished or isinstance(self.result, _Failure):
            self.process.kill()
        self.process.join()


def _results(
    processes: Sequence[_RankProcess], timeout: float | None, on_report: Callable[[int, Any], None] | None
) -> list[Any]:
    deadline = None if timeout is None else time.monotonic() + timeout
    failures: list[_RankProcess] = []
    while running := [each for each in processes if not each.finished]:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = wait([each.connection for each in running], left)
        if not ready:
            break
        for each in running:
            if each.connection in ready:
                each.receive(on_report)
        if not failures and (failures := [each for each in processes if isinstance(each.result, _Failure)]):
            deadline = time.monotonic() + GRACE
    _raise_failure(processes, timeout)
    return [each.result for each in processes]


def _raise_failure(processes: Sequence[_RankProcess], timeout: float | None) -> None:
    """Raise BitlaneError for the root cause if a rank failed, or for the ranks that exceeded the time limit."""
    failed = [(each.rank, each.result) for each in processes if isinstance(each.result, _Failure)]
    if failed:
        rank, failure = min(failed, key=lambda each: each[1].priority)
        raise BitlaneError(f"rank {rank} {failure.text}") from (RuntimeError(failure.trace) if failure.trace else None)
    late = [str(each.rank) for each in processes if not each.finished]
    if late:
        raise BitlaneError(f"time limit of {timeout:g} seconds exceeded: ranks {', '.join(late)} have not finished")


def _exit_reason(code: int | None) -> str:
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
    arguments: Sequence[object],
) -> None:
    """Run in the process of a rank."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this process
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        if enter is not None:
            enter(rank)
        elif "lo" in [name for _, name in socket.if_nameindex()]:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.set_num_threads(max(1, processors() // ranks))
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
        result = work(lambda value: connection.send((False, value)), *arguments)
    except BaseException as error:
        text = str(error) if isinstance(error, BitlaneError) else f"{type(error).__name__}: {error}"
        result = _Failure(f"failed: {text}", traceback.format_exc(), 2 if isinstance(error, RankFailed) else 1)
    connection.send((True, result))
    if not isinstance(result, _Failure):
        with suppress(EOFError, OSError):  # exiting now would drop data that other ranks have not read: wait for all
            connection.recv()
    sys.stdout.flush()
    os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

"""Ranks as processes of this machine, which talk through gloo: for times, and for what threads cannot show."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ..errors import BitlaneError
from .links import SlowLinks

Result = TypeVar("Result")

AFTERMATH = 0.5  # seconds in which the other ranks tell of a failure too: the first to fail is the one to blame


def spawned(
    ranks: int,
    work: Callable[..., Result],
    arguments: Sequence[Any] = (),
    links: SlowLinks | None = None,
    patience: float = 600.0,
) -> list[Result]:
    """`work(*arguments)` in `ranks` new processes with a default process group; results in order of rank.

    Parameters
    ----------
    work: a function of a module, so that a new process finds it; each has one thread for torch.
    links: where the ranks are; None for the machine's own loopback.
    patience: seconds that all of it may take, and that gloo waits for another rank.

    Raises
    ------
    BitlaneError: a rank raised, ended or took too long; the others are ended then.
    """
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="bitlane-") as folder:
        pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
        processes = [
            context.Process(
                target=_rank,
                args=(rank, ranks, Path(folder) / "store", links, patience, pipe[1], work, tuple(arguments)),
                name=f"rank {rank}",
                daemon=True,
            )
            for rank, pipe in enumerate(pipes)
        ]
        try:
            for process, (_, end) in zip(processes, pipes, strict=True):
                process.start()
                end.close()
            return _results([ours for ours, _ in pipes], patience)
        finally:
            for process in processes:
                if process.is_alive():
                    process.terminate()
                if process.pid is not None:
                    process.join()


def _results(pipes: Sequence[Connection], patience: float) -> list[Any]:
    told: dict[int, tuple[float, Any]] = {}  # when a rank failed, or 0; and its result, or why
    failed: dict[int, tuple[float, str]] = {}
    while len(told) + len(failed) < len(pipes):
        missing = {pipe: rank for rank, pipe in enumerate(pipes) if rank not in told and rank not in failed}
        ready = wait(list(missing), AFTERMATH if failed else patience)
        if failed and not ready:
            break
        if not ready:
            raise BitlaneError(f"a rank has not ended after {patience:g} seconds")
        for pipe, rank in missing.items():
            if pipe in ready:
                try:
                    when, what = pipe.recv()
                except EOFError:
                    when, what = 0.0, "it ended without a word: was it killed?"
                    failed[rank] = when, what
                else:
                    (failed if when else told)[rank] = when, what
    if failed:
        rank = min(failed, key=lambda each: failed[each][0])
        raise BitlaneError(f"rank {rank} failed: {failed[rank][1]}")
    return [told[rank][1] for rank in range(len(pipes))]


def _rank(
    rank: int,
    ranks: int,
    store: Path,
    links: SlowLinks | None,
    patience: float,
    pipe: Connection,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    try:
        if links is not None:
            links.enter(rank)
        else:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        torch.set_num_threads(1)
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=patience)
        )
        pipe.send((0.0, work(*arguments)))
        dist.destroy_process_group()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        why = f"{error} ({type(error).__name__}, {Path(last.filename).name} line {last.lineno})"
        pipe.send((time.time(), why))

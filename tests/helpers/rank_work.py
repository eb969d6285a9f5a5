"""The work of the processes of `test_launch.py`, `test_sockets.py` and `test_wire_bytes.py`."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist

from bitlane.compress.collectives.sockets import acknowledged_bytes
from bitlane.compress.collectives.transport import TorchTransport
from bitlane.errors import DataError
from bitlane_studies.compression.wire_bytes import run_rank


def numbers(report, factor):
    """Report once, and return the rank, the number of ranks and a sum over ranks."""
    report(("at work", factor))
    total = torch.tensor([dist.get_rank() * factor])
    dist.all_reduce(total)
    return dist.get_rank(), dist.get_world_size(), int(total)


def bad_data(report):
    """Rank 1 raises; the others wait for it."""
    if dist.get_rank() == 1:
        raise DataError("column 3 is empty")
    TorchTransport().exchange([torch.zeros(1, dtype=torch.uint8)] * 3, [1] * 3)


def bug(report):
    if dist.get_rank() == 0:
        raise KeyError("speed")


def killed(report):
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def endless(report, started):
    (started / str(os.getpid())).touch()
    if dist.get_rank() == 1:
        time.sleep(1000)


def sends(report, sizes):
    """Return the bytes of exchanges, counted by the kernel and by the transport; rank r sends (r + 1) * size."""
    transport = TorchTransport()
    counted, rank = [], dist.get_rank()
    for size in sizes:
        dist.barrier()
        time.sleep(0.3)
        before, sent = acknowledged_bytes(), transport.sent
        own = torch.zeros((rank + 1) * size, dtype=torch.uint8)
        transport.exchange([own] * transport.size, [(other + 1) * size for other in range(transport.size)])
        time.sleep(0.3)
        counted.append((acknowledged_bytes() - before, transport.sent - sent))
    dist.barrier()  # the kernel forgets the bytes of a rank that has ended
    return counted


def connections_around_trial(report, text):
    """Return the numbers of open sockets before and after a trial, without the garbage collector."""
    gc.disable()
    dist.barrier()
    before = _open_sockets()
    run_rank(report, [text], 1000, 1)
    dist.barrier()
    return before, _open_sockets()


def _open_sockets():
    return sum(os.readlink(link).startswith("socket:") for link in Path("/proc/self/fd").iterdir() if link.is_symlink())

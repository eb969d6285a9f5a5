"""One rank of a group that loses another: `python -m tests.helpers.lost_rank RANK SIZE ADDRESS LOST HOW`."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist

from bitlane.compress.collectives.transport import RankFailed, TorchTransport

TIMEOUT = 4.0
STEPS = 3  # before the loss


def main() -> None:
    """Exchange bytes; print the error that the loss of a rank raises, and the seconds until then.

    The lost rank ends (HOW is ``end``), hangs (``hang``), or goes on (``cut``: the caller cuts its link).
    """
    rank, size, lost = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    dist.init_process_group("gloo", init_method=sys.argv[3], rank=rank, world_size=size)
    transport = TorchTransport(timeout=TIMEOUT)
    buffers = [torch.full((1000,), rank, dtype=torch.uint8) for _ in range(size)]
    begin = time.monotonic()
    try:
        for step in range(10**6):
            if step == STEPS:
                print("ready", flush=True)
                if rank == lost and sys.argv[5] == "end":
                    os._exit(0)
                if rank == lost and sys.argv[5] == "hang":
                    time.sleep(3 * TIMEOUT)
                    os._exit(0)
            begin = time.monotonic()
            transport.exchange(buffers, [1000] * size)
            time.sleep(0.01)
    except RankFailed as error:
        print(f"{time.monotonic() - begin:.1f} {error}", flush=True)
    transport.abort()
    os._exit(0)


if __name__ == "__main__":
    main()

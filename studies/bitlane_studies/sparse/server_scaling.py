"""Measure several clients of several parameter servers: `python -m bitlane_studies.sparse.server_scaling`.

Servers and clients are processes of their own on this machine. Each client pulls a batch of random keys, pushes their
gradients, and goes on with the next. All clients begin together. The bytes are those that the system counted in the
clients' connections (`TCP_INFO` of Linux): all messages and their framing, without the headers of TCP and IP.

The traffic of a cluster is computed, with W workers that take r batches of K keys a second each, S servers, and u and d
bytes that a client sends and receives for a key pulled and pushed:

    a server receives W r K u / S bytes a second and sends W r K d / S.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bitlane.compress.collectives.sockets import acknowledged_bytes, received_bytes
from bitlane.sparse.servers.client import RemoteParameters
from bitlane.sparse.servers.shard import Shard
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.support.text import align_columns
from bitlane_studies.sparse.other_transports import Keys, block_of, create_rows
from bitlane_studies.sparse.servers import keys_of, start_server

SERVERS, CLIENTS = (1, 2, 4), (1, 2, 4, 8)
CLUSTER_WORKERS, CLUSTER_SERVERS = 100, 20
_BATCHES = 8  # different batches of a client, which take turns
_TIMEOUT = 120.0  # seconds until all clients are there


@dataclass(frozen=True)
class Load:
    """What clients did: of one, or of all.

    Attributes
    ----------
    rounds : float
        Pulls a second, and as many pushes.
    sent, received : float
        Bytes a second.
    """

    rounds: float
    sent: float
    received: float


def traffic(workers: int, servers: int, keys_per_second: float, bytes_per_key: float) -> float:
    """Return the bytes a second of one server; `keys_per_second` are those of one worker."""
    return workers * keys_per_second * bytes_per_key / servers


def socket_bytes(ports: set[int]) -> tuple[int, int]:
    """Return the bytes that this process has sent to and received from these ports, over open connections."""
    return acknowledged_bytes(ports), received_bytes(ports)


def measure(servers: int, clients: int, keys: Keys, batch: int, values: int, seconds: float) -> Load:
    """Start servers and clients; return what all clients did together."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spec = ShardSpec((block_of(values),))
        for server in range(servers):
            Shard.create(folder / str(server), spec.placed(server, servers))
        addresses = [start_server(folder / str(server), False, stack) for server in range(servers)]
        with RemoteParameters(addresses) as remote:
            create_rows(remote.pull, keys)
        context = get_context("spawn")
        barrier = context.Barrier(clients, timeout=_TIMEOUT)
        pool = stack.enter_context(ProcessPoolExecutor(clients, context, _set_barrier, (barrier,)))
        work = [pool.submit(_pull_and_push, addresses, keys, batch, seconds, seed) for seed in range(clients)]
        loads = [each.result() for each in work]
    return Load(*(sum(getattr(load, name) for load in loads) for name in ("rounds", "sent", "received")))


_barrier: list[Any] = []  # of the clients, in each of them


def _set_barrier(barrier: Any) -> None:
    _barrier.append(barrier)


def _pull_and_push(addresses: list[str], keys: Keys, batch: int, seconds: float, seed: int) -> Load:
    """Pull and push for some seconds, in a client."""
    draw = np.random.default_rng(seed)
    batches = [keys[draw.permutation(len(keys))[:batch]] for _ in range(_BATCHES)]
    ports = {int(address.rpartition(":")[2]) for address in addresses}
    rounds = 0
    with RemoteParameters(addresses) as remote:
        gradients = np.full((batch, remote.spec.parameters().layout.values), 1e-3, np.float32)
        for warm in batches:
            remote.pull(warm)
            remote.push(warm, gradients)
        _barrier[0].wait()
        before, begin = socket_bytes(ports), time.perf_counter()
        while time.perf_counter() < begin + seconds:
            remote.pull(batches[rounds % _BATCHES])
            remote.push(batches[rounds % _BATCHES], gradients)
            rounds += 1
        elapsed, after = time.perf_counter() - begin, socket_bytes(ports)
    return Load(rounds / elapsed, (after[0] - before[0]) / elapsed, (after[1] - before[1]) / elapsed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table and the traffic of a cluster."""
    parser = argparse.ArgumentParser(description="Measure several clients of several parameter servers.")
    parser.add_argument("--keys", type=int, default=1_000_000, metavar="N", help="of the model (default: 1,000,000)")
    parser.add_argument("--batch", type=int, default=50_000, metavar="N", help="keys of a call (default: 50,000)")
    parser.add_argument("--values", type=int, default=1, metavar="N", help="weights of a key (default: 1)")
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="of each measurement (default: 3)")
    parser.add_argument("--servers", type=int, nargs="+", default=SERVERS, metavar="N", help="default: 1 2 4")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, metavar="N", help="default: 1 2 4 8")
    options = parser.parse_args(arguments)
    if not 1 <= options.batch <= options.keys or min(options.values, *options.servers, *options.clients) < 1:
        parser.error("--batch must be 1 to --keys, --values, --servers and --clients at least 1")
    keys = keys_of(options.keys)
    cells: list[tuple[str, ...]] = [
        ("servers", "clients", "keys pulled and pushed a second", "MB sent a second", "MB received a second")
    ]
    per_key = (0.0, 0.0)
    for servers in options.servers:
        for clients in options.clients:
            load = measure(servers, clients, keys, options.batch, options.values, options.seconds)
            pairs = load.rounds * options.batch
            per_key = (load.sent / pairs, load.received / pairs)
            rates = (f"{pairs / 1e6:.1f} million", f"{load.sent / 1e6:.0f}", f"{load.received / 1e6:.0f}")
            cells.append((f"{servers}", f"{clients}", *rates))
    print(f"{options.batch:,} of {options.keys:,} keys, {options.values} float32 each; {os.cpu_count()} virtual cores")
    print(align_columns(cells))
    each = [traffic(CLUSTER_WORKERS, CLUSTER_SERVERS, options.batch, size) / 1e6 for size in per_key]
    print(
        f"\nA key pulled and pushed takes u = {per_key[0]:.2f} bytes to the server and d = {per_key[1]:.2f} back.\n"
        f"W = {CLUSTER_WORKERS} workers that take r = 1 batch of K = {options.batch:,} keys a second each, "
        f"S = {CLUSTER_SERVERS} servers:\n"
        f"each server receives W r K u / S = {each[0]:.1f} MB a second and sends W r K d / S = {each[1]:.1f}."
    )


if __name__ == "__main__":
    main()

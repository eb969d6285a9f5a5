"""Measure a scoring service over loopback: `python -m bitlane_studies.sparse.serving`.

The service runs in a process of its own, over Arrow Flight, with a model of random weights. A request has 200 rows of
500 features, as a list of articles for one reader. Its time is what passes in the client from the arrays of keys to
the predictions. One client asks again as soon as an answer has come (closed loop), alone and while the service loads
its table from a file, checks it and swaps to it, every half second; and four clients in processes of their own ask at
random times (open loop), where a request's time begins when it is due, so that a wait behind another request counts.

A p99.9 needs thousands of requests: with fewer it is the time of the slowest ones.

The second table has the bytes of a request as Arrow sends it, as JSON of the Open Inference Protocol, and as protobuf
would have it, computed from its wire format.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from bitlane.sparse.serving import messages
from bitlane.sparse.serving.protocol import KEY_TENSORS
from bitlane.support.optional import require_extra
from bitlane.support.text import align_columns
from bitlane_studies.sparse.serving_load import (
    Load,
    LoadedService,
    Times,
    closed_loop,
    open_loop,
    percentiles,
    varint_bytes,
    varint_bytes_of,
)

CLIENTS = 4
MODELS = ("lr", "fm")


def measure(load: Load, rate: float, seconds: float) -> Iterator[tuple[str, ...]]:
    """Yield the lines of one model: the way, requests, p50, p99 and p99.9 in milliseconds."""
    often = f"  {CLIENTS} clients, {rate:g} requests/s"
    with LoadedService(load) as service:

        def one() -> tuple[Times, Times]:
            return closed_loop(service.address, load, seconds)

        def several() -> Times:
            return open_loop(service.address, load, CLIENTS, rate, seconds)

        times, inside = one()
        yield _line(f"{load.kind}, {service.nbytes / load.keys:.1f} bytes a key: one client", times)
        yield _line("  of it in the server", inside)
        with service.swapping():
            times, _ = one()
        yield _line("  one client, during swaps", times)
        yield _line(often, several())
        with service.swapping():
            times = several()
        yield _line(f"{often}, during swaps", times)


def _line(name: str, times: Times) -> tuple[str, ...]:
    line = name, str(len(times)), *(f"{each:.2f}" for each in percentiles(times))
    print(*line, file=sys.stderr, flush=True)
    return line


def request_sizes(load: Load) -> dict[str, int]:
    """Return the bytes of a request, by encoding."""
    ipc = require_extra("pyarrow.ipc", "Arrow's messages", "'bitlane[sparse]'")
    requests, offsets = load.requests(0)
    keys = requests[0]
    tensors = {"keys": keys, "offsets": offsets}
    inputs = [
        {"name": name, "datatype": KEY_TENSORS[name], "shape": [len(each)], "data": each.tolist()}
        for name, each in tensors.items()
    ]
    fixed = 8 * len(keys) + varint_bytes_of(8 * len(keys)) + 1
    return {
        "Arrow": ipc.get_record_batch_size(messages.request_batch(keys, offsets, None, None)),
        "JSON": len(json.dumps({"inputs": inputs}, separators=(",", ":"))),
        "protobuf, keys as uint64": varint_bytes(keys) + varint_bytes(np.diff(offsets)),
        "protobuf, keys as fixed64": fixed + varint_bytes(np.diff(offsets)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Start services, measure, and print tables."""
    parser = argparse.ArgumentParser(description="Measure a scoring service over loopback.")
    add = parser.add_argument
    add("--keys", type=int, default=1_000_000, metavar="N", help="of the model (default: 1,000,000)")
    add("--rows", type=int, default=200, metavar="N", help="of a request (default: 200)")
    add("--features", type=int, default=500, metavar="N", help="of a row (default: 500)")
    add("--models", nargs="+", choices=MODELS, default=MODELS, help="default: both; factors have 8 values")
    add("--rate", type=float, default=40.0, metavar="X", help="requests a second of the open loop (default: 40)")
    add("--seconds", type=float, default=10.0, metavar="S", help="of each measurement (default: 10)")
    add("--seed", type=int, default=0, metavar="N", help="of keys, weights and times (default: 0)")
    options = parser.parse_args(arguments)
    if min(options.keys, options.rows, options.features) < 1 or options.rate <= 0 or options.seconds <= 0:
        parser.error("--keys, --rows and --features must be at least 1, --rate and --seconds above 0")
    shape = f"{options.rows} x {options.features} features, {options.keys:,} keys"
    cells: list[tuple[str, ...]] = [(shape, "requests", "p50, ms", "p99, ms", "p99.9, ms")]
    for kind in options.models:
        load = Load(kind, options.keys, options.rows, options.features, options.seed)
        cells += measure(load, options.rate, options.seconds)
    print(align_columns(cells))
    sizes = request_sizes(load)
    print()
    print(align_columns([("request", "bytes"), *((name, f"{size:,}") for name, size in sizes.items())]))


if __name__ == "__main__":
    main()

"""A front on one host, weight servers on a Ray cluster: `python -m tests.helpers.host_serving ...`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from tests.helpers.sparse_registry import batch_of

from bitlane.sparse.engines.access import TLS_FILES
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.serving.shards.fan_out import FrontOptions
from bitlane.sparse.serving.shards.placement import Placement, RayAddress, sharded

SHARDS, REPLICAS, DEADLINE = 2, 2, 0.5


def main() -> None:
    """Ask for predictions until a file appears; print how many there were, partial and wrong ones, and the slowest."""
    uri, address, token, stop, *tls = sys.argv[1:]
    keys = np.random.default_rng(1).integers(0, 2**64, 300, dtype=np.uint64)
    batch = batch_of(np.random.default_rng(2), keys, 40)
    expected = ModelRegistry(uri).load(1).predict(batch).tobytes()
    ray = RayAddress(address, dict(zip(TLS_FILES, map(Path, tls), strict=True)), Path(token))
    options = FrontOptions(deadline=DEADLINE)
    with sharded(Placement(uri, SHARDS, REPLICAS, ray=ray), options) as source:
        model = source.load(1)
        replicas = source._front.state()["replicas"]
        print(json.dumps([(each["shard"], each["address"]) for each in replicas]), flush=True)
        answers = partial = wrong = 0
        slowest = 0.0
        while not Path(stop).exists():
            begin = time.monotonic()
            predictions, _, missing = model.predict_partial(batch)
            slowest = max(slowest, time.monotonic() - begin)
            answers += 1
            partial += bool(missing)
            wrong += not missing and predictions.tobytes() != expected
            time.sleep(0.01)
        print(json.dumps({"answers": answers, "partial": partial, "wrong": wrong, "slowest": slowest}), flush=True)


if __name__ == "__main__":
    main()

"""A worker's process that was given up and comes back is refused; the one that does its work goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import StepClient, addresses_of, make_shards, served

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers.spec import ShardSpec

SPEC = ShardSpec((ParameterBlock(1, SGD(0.25)),))
KEYS = np.arange(50, dtype=np.uint64)
ONES = np.ones((50, 1), np.float32)


def test_the_earlier_process_is_refused_and_the_later_one_goes_on(seed: int, tmp_path: Path) -> None:
    draw, steps = np.random.default_rng(seed), 0
    with served(make_shards(tmp_path, SPEC, 2)) as services:
        addresses = addresses_of(services)
        with StepClient(addresses, worker="worker-0", generation=0, deadline=20) as old:
            for _ in range(draw.integers(1, 4)):
                old.send(KEYS, ONES)
                steps += 1
            with StepClient(addresses, worker="worker-0", generation=1, deadline=20) as new:
                for _ in range(draw.integers(0, 4)):
                    new.send(KEYS, ONES)
                    steps += 1
                if draw.random() < 0.5:  # it connects again
                    for connection in old._updaters:
                        connection.close()
                with pytest.raises(DataError, match=r"another (process|client)"):
                    old.send(KEYS, ONES)
                new.send(KEYS, ONES)
                assert (new.weights(KEYS) == -0.25 * (steps + 1)).all()

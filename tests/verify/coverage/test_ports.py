"""The coverpoints of shards and ports: which bins a build has, and which of them a run fills."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.verify.coverage.test_functional import registers

from bitlane.contract.config import AcceleratorConfig
from bitlane_sim.rtl.disturbance import CHANNELS, Disturbance
from bitlane_sim.rtl.harness import Moment, Monitor
from bitlane_verify.coverage import functional, ports
from bitlane_verify.coverage.covergroup import Covergroup
from bitlane_verify.coverage.watched_device import first_port_bursts, write_bursts
from bitlane_verify.equivalence.random_jobs import random_job

BOTH = AcceleratorConfig(256, max_features=512, row_buffer_beats=512, shards=2, ports=4)
NEVER = Moment(None, 0, 0)
QUIET = Monitor((0,) * 17, (0,) * 17, 0, 0, dict.fromkeys(CHANNELS, 0), NEVER, NEVER, NEVER)
STALLED = replace(QUIET, stalls={**QUIET.stalls, "r": 5, "aw": 1, "lite": 7})


def declared(config: AcceleratorConfig = BOTH) -> Covergroup:
    group = Covergroup()
    ports.declare(group, config)
    return group


def filled(group: Covergroup) -> set[str]:
    return set(declared().missed()) - set(group.missed())


def test_only_builds_with_shards_and_ports_have_bins() -> None:
    names = {
        config: [name for name, *_ in declared(config).table()]
        for config in (BOTH, replace(BOTH, shards=1), replace(BOTH, ports=1))
    }
    assert len(names[BOTH]) == 5
    assert names[replace(BOTH, shards=1)] == names[BOTH][1:]
    assert names[replace(BOTH, ports=1)] == names[BOTH][:1]
    assert not declared(replace(BOTH, shards=1, ports=1, width=64)).table()


@pytest.mark.parametrize(("features", "shard"), [(1, 0), (32, 0), (33, 1), (64, 1), (65, 0), (512, 1)])
def test_the_shard_of_the_last_feature(features: int, shard: int) -> None:
    group = declared()
    ports.sample_registers(group, registers(1, features=features), BOTH)
    assert filled(group) == {f"shard of the last feature: {shard}"}


def test_stalls_are_those_of_the_port_that_stalls_alone() -> None:
    group = declared()
    ports.sample_stalls(group, BOTH, Disturbance(alone=6, skew=40), QUIET, STALLED)
    assert filled(group) == {
        "stalls of one port: 2 x r", "stalls of one port: 2 x aw", "answers of further ports: 40 cycles later",
    }  # fmt: skip
    group = declared()
    ports.sample_stalls(group, BOTH, Disturbance(), QUIET, STALLED)
    ports.sample_stalls(group, BOTH, Disturbance(alone=1), STALLED, STALLED)
    assert filled(group) == {
        "stalls of all ports, apart: r", "stalls of all ports, apart: aw", "answers of further ports: with the first",
    }  # fmt: skip


def test_an_error_of_all_ports_is_none_of_one() -> None:
    group = declared()
    ports.sample_error(group, BOTH, Disturbance(), "READ_SLAVE")
    assert filled(group) == set()
    ports.sample_error(group, BOTH, Disturbance(alone=3), "READ_SLAVE")
    assert filled(group) == {"error at one port: 3 x READ_SLAVE"}


def test_a_chunk_has_the_features_of_all_shards() -> None:
    group = functional.declare(BOTH)
    empty = set(group.missed())
    functional.sample_registers(group, registers(1, features=129), BOTH)
    assert {name for name in empty - set(group.missed()) if name.startswith("chunks")} == {"chunks: 3 to 7"}
    assert sorted(name for name in empty if name.startswith("chunks")) == [
        "chunks: 1", "chunks: 2", "chunks: 3 to 7", "chunks: 8",
    ]  # fmt: skip


def test_each_port_writes_its_part_of_a_model(seed: int) -> None:
    job = random_job(np.random.default_rng(seed), BOTH)
    models = job.epochs if job.snapshots else 1
    assert first_port_bursts(job) == models * job.geometry.chunks + job.epochs
    assert write_bursts(job) == 4 * models * job.geometry.chunks + job.epochs

"""The upkeep of a server: its log stays short, and its loops are compiled."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_servers import make_shards, payload

from bitlane.errors import BitlaneError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.servers import upkeep
from bitlane.sparse.servers.shard import ParameterShard
from bitlane.sparse.servers.spec import ShardSpec

SPEC = ShardSpec((ParameterBlock(1, SGD(0.1)),))
KEYS = np.arange(5, dtype=np.uint64)


def test_a_long_log_makes_a_checkpoint_and_a_full_disk_does_not_end_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shard = ParameterShard.open(make_shards(tmp_path, SPEC, 1)[0])
    assert upkeep._checkpoint(shard, 10) == 10
    empty = shard.log_bytes
    shard.step("w", 1, payload(KEYS, np.zeros((5, 1))))
    with monkeypatch.context() as patch:
        patch.setattr(ParameterShard, "checkpoint", lambda self: (_ for _ in ()).throw(BitlaneError("no room")))
        assert upkeep._checkpoint(shard, 10) == shard.log_bytes + 10
    assert capfd.readouterr().err == "error: no room\n" and shard.log_bytes > empty
    assert upkeep._checkpoint(shard, 10) == 10 and shard.log_bytes == empty
    shard.close()


def test_the_upkeep_ends_when_the_parent_has(tmp_path: Path) -> None:
    shard = ParameterShard.open(make_shards(tmp_path, SPEC, 1)[0])
    upkeep.keep_log_short(shard, threading.Event(), 1 << 30, ended=lambda: True)
    shard.close()

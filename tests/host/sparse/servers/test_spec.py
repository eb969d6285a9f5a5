"""The description of a shard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bitlane.errors import DataError
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad
from bitlane.sparse.servers.spec import MatrixSpec, ShardSpec
from bitlane.sparse.tables.sketch import Admission

SPEC = ShardSpec(
    (ParameterBlock(1, FTRL(0.2, l1=0.1)), ParameterBlock(4, AdaGrad(), 0.5, "uniform")),
    5,
    Admission(3, 1024, 100),
    True,
    {"layer": MatrixSpec((2, 3), SGD(0.5))},
    1,
    3,
    64,
)


def test_the_description_goes_through_json() -> None:
    assert ShardSpec.from_json(json.loads(json.dumps(SPEC.to_json()))) == SPEC
    plain = ShardSpec((ParameterBlock(1, SGD()),))
    assert ShardSpec.from_json(json.loads(json.dumps(plain.to_json()))) == plain


def test_shards_of_one_model_differ_in_their_place_only() -> None:
    assert SPEC.same_model(SPEC.placed(0, 4))
    assert not SPEC.same_model(ShardSpec(SPEC.blocks, 6))
    with pytest.raises(DataError, match="server must be 0 to 2; got 3"):
        SPEC.placed(3, 3)


def test_a_matrix_lies_on_one_server() -> None:
    owners = [server for server in range(3) if SPEC.placed(server, 3).own_matrices()]
    assert len(owners) == 1


def test_bad_descriptions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shard.json"
    with pytest.raises(DataError, match=r"it has no shard\.json"):
        ShardSpec.read(path)
    for text, message in (
        ("{", "is damaged"),
        ('{"format": 2}', "format 2; this version reads format 1"),
        ('{"format": 1}', "not the description of a shard"),
        (json.dumps({**SPEC.to_json(), "colour": 1}), "not the description of a shard"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            ShardSpec.read(path)

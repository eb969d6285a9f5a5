"""The shards of a training's folder: made, moved to another number of servers, at once or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_workers import Rows, train

from bitlane.errors import BitlaneError
from bitlane.sparse.engines import shard_folders as module
from bitlane.sparse.engines.shard_folders import prepare_shards, shard_folders
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.workers.shards import model_of, new_model
from bitlane.sparse.workers.worker import WorkerOptions
from bitlane_studies.sparse.distributed import same_bits


def test_shards_are_made_once_and_move(seed: int, tmp_path: Path) -> None:
    spec = ModelSpec("fm", batch_rows=16, seed=seed % 1000)
    assert shard_folders(tmp_path) == []
    folders = prepare_shards(tmp_path, lambda: SparseModel(spec), 11)
    assert folders == [tmp_path / "servers" / f"shard-{server}" for server in range(11)]
    model, _, _ = train(folders, spec, [planted_rows(seed, 100)], WorkerOptions(1))
    assert prepare_shards(tmp_path, lambda: SparseModel(spec), 11) == folders
    moved = prepare_shards(tmp_path, lambda: SparseModel(spec), 2)
    assert len(moved) == 2 and same_bits(model_of(spec, moved), model)
    assert [path.name for path in tmp_path.iterdir()] == ["servers"]


def test_new_shards_have_the_intercept_of_the_first_rows(seed: int, tmp_path: Path) -> None:
    spec, batch = ModelSpec("fm", batch_rows=16, seed=seed % 1000), planted_rows(seed, 300)
    folders = prepare_shards(tmp_path, lambda: new_model(spec, Rows(batch)), 3)
    begun = SparseModel(spec)
    begun.begin(batch)
    assert model_of(spec, folders).pull_dense()["intercept"] == begun.pull_dense()["intercept"] != 0


def test_a_move_that_fails_changes_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModelSpec("lr", seed=seed % 1000)
    folders = prepare_shards(tmp_path, lambda: SparseModel(spec), 2)

    def fails(sources: list[Path], targets: list[Path]) -> None:
        targets[0].mkdir()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "reshard", fails)
    with pytest.raises(BitlaneError, match=r"servers cannot be written: No space left on device$"):
        prepare_shards(tmp_path, lambda: SparseModel(spec), 3)
    assert shard_folders(tmp_path) == folders and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("moment", ["before the new ones came", "before the old ones went"])
def test_a_kill_between_two_renames_loses_no_shard(moment: str, tmp_path: Path) -> None:
    folders = prepare_shards(tmp_path, lambda: SparseModel(ModelSpec("lr")), 2)
    if moment == "before the new ones came":
        (tmp_path / "servers").rename(tmp_path / ".servers-old")
    else:
        (tmp_path / ".servers-old").mkdir()
    assert shard_folders(tmp_path) == folders
    assert [path.name for path in tmp_path.iterdir()] == ["servers"]

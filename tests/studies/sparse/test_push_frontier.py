"""The study of pushes: bytes are those of messages, runs repeat, tuning ends inside the grid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.optimizers import AdaGrad
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.row_codecs import Part
from bitlane.sparse.workers.pushing import PushSettings
from bitlane_studies.sparse import push_frontier as study
from bitlane_studies.sparse.push_simulation import Cluster, Point, Trajectory, message_bytes, simulate

FULL = PushSettings("full", pack_keys=False)


def clicks(seed: int, rows: int = 3000) -> Batch:
    """Rows of two keys each whose weights decide the label."""
    rng = np.random.default_rng(seed)
    keys = np.stack([rng.integers(0, 40, rows), 100 + rng.integers(0, 40, rows)], 1)
    weights = np.random.default_rng(1).normal(size=140) * 2
    labels = rng.random(rows) < 1 / (1 + np.exp(-weights[keys].sum(axis=1)))
    return Batch(
        keys.astype(np.uint64).ravel(),
        np.tile(np.array([0, 1], np.uint16), rows),
        np.ones(2 * rows, np.float32),
        np.arange(0, 2 * rows + 1, 2),
        labels.astype(np.float32),
    )


def test_bytes_of_messages() -> None:
    keys = np.arange(100, dtype=np.uint64)
    part = Part("float32", keys, np.zeros((100, 3), np.float32))
    assert message_bytes([part], Partition(2), False) == 100 * (8 + 12) + 2 * (1 + 14)


def test_one_worker_without_compression_is_a_minibatch_training(seed: int) -> None:
    batch = clicks(seed)
    spec = ModelSpec("lr", linear=AdaGrad(0.3), intercept=False, seed=seed, batch_rows=100)
    found = simulate(spec, FULL, (batch, batch), epochs=1, cluster=Cluster(1, 2, 100))
    model = SparseModel(spec)
    model.learn(batch.take(np.random.default_rng((seed, 0)).permutation(batch.rows)))
    from bitlane.sparse.training.windows import auc

    assert found.points[-1].auc == auc(model.scores(batch), batch.labels)
    assert found.clocks == 30 and [point.epochs for point in found.points] == [0.5, 1.0]
    assert found.sent_share == 1 and found.residual_rows == 0


def test_a_run_ends_at_the_wanted_auc_and_repeats(seed: int) -> None:
    batch, spec = clicks(seed), ModelSpec("lr", linear=AdaGrad(0.3))
    settings = PushSettings("topk", 0.2, residual_rows=20, values="fixed", entry_bits=3, debug=True)
    runs = [simulate(spec, settings, (batch, batch), epochs=3, cluster=Cluster(2, 2, 100)) for _ in range(2)]
    assert runs[0] == runs[1] and runs[0].residual_rows == 20
    first = runs[0].points[0]
    early = simulate(spec, settings, (batch, batch), epochs=3, wanted=first.auc, cluster=Cluster(2, 2, 100))
    assert early.points == (first,) and early.reach(first.auc) == first


def test_tuning_ends_where_both_neighbours_are_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(way: study.Way, kind: str, rate: float, data: object, **limits: float) -> Trajectory:
        size = int(1000 * (1 + abs(np.log(rate / 1.0))))  # the best rate is 1
        return Trajectory((Point(1.0, size, 0.9),), 10, 0, 0.0, 1.0)

    monkeypatch.setattr(study, "train", train)
    found = study.tune(study.Way("any", FULL, lr=0.1), "lr", (clicks(0), clicks(1)), 1, 0.9, lambda line: None, {})
    assert 1 / study.STEP**0.5 <= found.rate <= study.STEP**0.5


def test_the_command_prints_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in ("matplotlib", "pyarrow"):
        pytest.importorskip(library)
    both = clicks(3, 9000), clicks(4, 1000)
    monkeypatch.setattr(study, "parts", lambda name: both)
    monkeypatch.setattr(study, "WAYS", (study.WAYS[0], replace(study.WAYS[4], kept=0.5)))
    path = tmp_path / "push.png"
    assert study.main(["--models", "lr", "--epochs", "2", "--out", str(path)]) == 0
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert table[0].startswith("lr, equal AUC: 0.") and table[-1].startswith("3 bits, top 10 %, rest kept: 10 %")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_missing_data_set_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("BITLANE_DATA", raising=False)
    assert study.main(["goodbooks"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("push_frontier: no file matches 'goodbooks'")

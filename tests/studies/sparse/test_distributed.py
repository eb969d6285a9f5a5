"""The study of servers and workers against one machine, and the one that kills them: references, and small runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_models import planted_rows
from tests.helpers.sparse_workers import train_alone

from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.batches.source import open_source
from bitlane.sparse.models.spec import ModelSpec
from bitlane_studies.sparse import distributed, kills


def test_the_reference_takes_the_steps_of_workers_in_order(seed: int, tmp_path: Path) -> None:
    """Against another implementation of the same, on the same shares."""
    rows, path = planted_rows(seed, 20_000, keys=400), tmp_path / "rows.npz"
    np.savez(path, keys=rows.keys, fields=rows.fields, values=rows.values, offsets=rows.offsets, labels=rows.labels)
    spec = ModelSpec("fm", batch_rows=256, seed=seed % 100)
    share = (range(distributed.WORKERS), distributed.WORKERS)
    shares = [Batch.concatenate(list(open_source(str(path), share=(i, share[1])).batches(0))) for i in share[0]]
    found = distributed.in_order(spec, str(path), 2).model
    expected, _ = train_alone(spec, shares, 2, shares[0])
    assert distributed.same_bits(found, expected)
    expected.matrices["intercept"].row[0] += 1
    assert not distributed.same_bits(found, expected)


@pytest.mark.slow
def test_servers_and_workers_have_the_bits_of_the_reference(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(distributed, "GENERATED_ROWS", 40_000)
    distributed.main(["--seeds", "3", "--epochs", "1"])
    assert "staleness 0: same bits" in capsys.readouterr().out


@pytest.mark.slow
def test_a_training_that_is_killed_learns_all_rows(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray")
    kills.main(["--kills", "4", "--rows", "80000", "--seed", "2"])
    assert "80,000, 80,000" in capsys.readouterr().out

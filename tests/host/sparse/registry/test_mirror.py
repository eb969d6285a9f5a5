"""MLflow shows what the registry has, however often and after whatever it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.sparse_registry import ChangingModel

from bitlane.errors import BitlaneError
from bitlane.sparse.registry.mirror import mirror
from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.upkeep import collect

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    found = f"file://{tmp_path}/mlruns"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", found)  # its store of files opens this too
    return found


def shown(uri: str) -> tuple[dict[int, dict[str, str]], dict[str, int]]:
    """The tags of each version of the model "ctr", and the version of each alias, by our numbers."""
    client = mlflow.MlflowClient(uri, uri)
    found = {each.version: each.tags for each in client.search_model_versions("name='ctr'")}
    aliases = client.get_registered_model("ctr").aliases
    return (
        {int(tags["bitlane.version"]): tags for tags in found.values()},
        {
            name: int(client.get_model_version("ctr", version).tags["bitlane.version"])
            for name, version in aliases.items()
        },
    )


@pytest.mark.slow
def test_mlflow_shows_versions_labels_and_metrics(tmp_path: Path, uri: str) -> None:
    registry, changing = ModelRegistry(tmp_path / "models/ctr"), ChangingModel(1)
    publisher = Publisher(registry, changing.model, longest_chain=1)
    for auc in (0.6, 0.7, 0.8):
        changing.change()
        publisher.publish({"auc": auc})
        registry.move_label("candidate", len(registry.numbers()))
    registry.move_label("production", 1)
    for _ in range(2):
        mirror(registry, uri)
        versions, aliases = shown(uri)
        assert sorted(versions) == [1, 2, 3] and aliases == {"candidate": 3, "production": 1}
    assert [versions[number]["bitlane.kind"] for number in (1, 2, 3)] == ["base", "delta", "base"]
    assert versions[2]["bitlane.rows"] == str(registry.manifest(2).rows)
    client = mlflow.MlflowClient(uri, uri)
    (second,) = (each for each in client.search_model_versions("name='ctr'") if each.tags["bitlane.version"] == "2")
    assert client.get_run(second.run_id).data.metrics == {"auc": 0.7}
    assert second.source == f"bitlane://{tmp_path}/models/ctr/versions/0000002"

    registry.move_label("production", 3)
    changing.change()
    publisher.publish()
    collect(registry, 1)
    mirror(registry, uri)
    versions, aliases = shown(uri)
    assert sorted(versions) == registry.numbers() and aliases == registry.labels() == {"candidate": 3, "production": 3}


def test_a_server_that_is_away_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    registry = ModelRegistry(tmp_path / "models/ctr")
    with pytest.raises(
        BitlaneError, match=r"^MLflow at http://127\.0\.0\.1:9 was not updated [^\n]*; try again later$"
    ):
        mirror(registry, "http://127.0.0.1:9")

"""Versions and labels of a registry in MLflow's model registry, for its page and its users. Files are not moved."""

# mlflow has no types: mypy takes its classes as Any.

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bitlane.errors import BitlaneError
from bitlane.sparse.registry.manifest import Manifest
from bitlane.sparse.registry.registry import ModelRegistry, folder_of
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    from mlflow import MlflowClient

VERSION = "bitlane.version"  # the tag with our number: MLflow counts its own
_PREFIX = "bitlane."


def mirror(registry: ModelRegistry, uri: str, name: str | None = None) -> None:
    """Let MLflow's registry show what this registry has: versions with tags and metrics, and labels as aliases.

    It may be repeated at any time: what MLflow has already stays, and what is gone here goes there.

    Parameters
    ----------
    registry : ModelRegistry
    uri : str
        Of MLflow's tracking server.
    name : str, optional
        Of the registered model. Default: the last component of the registry's address.

    Raises
    ------
    BitlaneError
        MLflow is not installed, or cannot be reached.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # else MLflow reports its use
    mlflow = require_extra("mlflow", "the mirror in MLflow's registry", "'bitlane[mlflow]'")
    name = name or registry.uri.rpartition("/")[2]
    try:
        _update(mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri), registry, name)
    except (mlflow.exceptions.MlflowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise BitlaneError(f"MLflow at {uri} was not updated with {registry.uri}: {reason}; try again later") from error


def _update(client: MlflowClient, registry: ModelRegistry, name: str) -> None:
    if not client.search_registered_models(f"name='{name}'"):
        client.create_registered_model(name, tags={_PREFIX + "registry": registry.store.address})
    shown = {
        int(each.tags[VERSION]): each.version
        for each in client.search_model_versions(f"name='{name}'")
        if VERSION in each.tags
    }
    versions, labels = registry.versions(), registry.labels()
    for manifest in versions:
        if manifest.version not in shown:
            shown[manifest.version] = _create(client, registry, name, manifest)
    aliases = client.get_registered_model(name).aliases
    for label in set(aliases) - set(labels):
        client.delete_registered_model_alias(name, label)
    for label, version in labels.items():
        if str(aliases.get(label)) != str(shown[version]):
            client.set_registered_model_alias(name, label, shown[version])
    for gone in set(shown) - {manifest.version for manifest in versions}:
        client.delete_model_version(name, shown[gone])


def _create(client: MlflowClient, registry: ModelRegistry, name: str, manifest: Manifest) -> str:
    """Make a version, with a run that has its metrics; return MLflow's number."""
    experiment = client.get_experiment_by_name(name)
    experiment_id = client.create_experiment(name) if experiment is None else experiment.experiment_id
    run = client.create_run(experiment_id, run_name=f"version {manifest.version}")
    for metric, value in manifest.description.metrics.items():
        if value is not None:
            client.log_metric(run.info.run_id, metric, value)
    client.set_terminated(run.info.run_id)
    facts = ("kind", "parent", "base", "created", "rows", "changed", "deleted", "nbytes", "shards")
    tags = {_PREFIX + each: str(getattr(manifest, each)) for each in facts}
    tags |= {VERSION: str(manifest.version), _PREFIX + "model": manifest.description.spec.kind}
    address = registry.store.address
    source = f"{'bitlane://' if registry.store.is_local else ''}{address}/{folder_of(manifest.version)}"
    return str(client.create_model_version(name, source, run.info.run_id, tags=tags).version)

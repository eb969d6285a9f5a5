"""`import bitlane` loads what its user needs, and nothing of gradient compression or the studies."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import pytest

import bitlane


def loaded(code: str) -> list[str]:
    """Modules that a fresh Python has loaded after `code`."""
    program = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("name", ["SGDRegressor", "SGDClassifier"])
def test_an_estimator_loads_neither_compression_nor_studies(name: str) -> None:
    modules = loaded(f"import bitlane; bitlane.{name}")
    assert "bitlane.estimators.sgd" in modules
    foreign = ("bitlane.compress", "bitlane.cli", "bitlane_", "torch", "amaranth")
    assert [module for module in modules if module.startswith(foreign)] == []


def test_nothing_is_loaded_before_its_name_is_used() -> None:
    assert [module for module in loaded("import bitlane") if module.startswith("bitlane.")] == []


def test_every_public_name_exists() -> None:
    assert [name for name in bitlane.__all__ if not hasattr(bitlane, name)] == []


def test_the_version_is_that_of_the_installed_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", {"bitlane": "1.2.3"}.__getitem__)
    assert bitlane.__version__ == "1.2.3"


def test_sources_that_are_not_installed_have_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert bitlane.__version__ == "0+unknown"

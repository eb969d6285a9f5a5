"""A file that is cut off or overwritten in place under a loaded model: a copy goes on, a map ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.places import ROOT
from tests.helpers.sparse_registry import ChangingModel, batch_of

from bitlane.sparse.registry.publisher import Publisher
from bitlane.sparse.registry.registry import ModelRegistry

# Loads the newest version, damages its base in place at random, and prints whether the predictions stay.
PROGRAM = """
import os, sys
import numpy as np
from tests.helpers.sparse_registry import batch_of
from bitlane.sparse.registry.registry import ModelRegistry

uri, mapped, seed = sys.argv[1], sys.argv[2] == "mapped", int(sys.argv[3])
rng = np.random.default_rng(seed)
model = ModelRegistry(uri, mapped=mapped).load(2)
keys = rng.integers(0, 2**64, 500, dtype=np.uint64)
batch = batch_of(rng, np.concatenate([keys, np.load(uri + "/keys.npy")]), 200)
before = model.predict(batch)
path = f"{uri}/versions/0000001/rows-00000.frozen"
if mapped or rng.random() < 0.5:
    os.truncate(path, 0 if mapped else int(rng.integers(os.path.getsize(path))))
else:
    with open(path, "r+b") as file:
        file.write(rng.bytes(os.path.getsize(path)))
print((model.predict(batch) == before).all())
"""


@pytest.fixture
def registry(tmp_path: Path, seed: int) -> ModelRegistry:
    registry, changing = ModelRegistry(tmp_path / "model"), ChangingModel(seed, 20_000)
    publisher = Publisher(registry, changing.model)
    for _ in range(2):
        changing.model.learn(batch_of(changing.rng, changing.keys, 4000))
        publisher.publish()
    np.save(tmp_path / "model/keys.npy", changing.keys)
    return registry


def run(registry: ModelRegistry, way: str, seed: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, registry.uri, way, str(seed)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, env=dict(os.environ))


def test_a_loaded_model_outlives_its_files(registry: ModelRegistry, seed: int) -> None:
    found = run(registry, "copied", seed)
    assert (found.returncode, found.stdout) == (0, "True\n"), found.stderr


def test_a_mapped_model_does_not(registry: ModelRegistry, seed: int) -> None:
    """What the documentation says of `mapped`."""
    assert run(registry, "mapped", seed).returncode == -signal.SIGBUS

"""PyTorch's own tests of DDP that run on CPUs pass with a compressor on each model; the others need GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.places import ROOT

pytestmark = pytest.mark.torch


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "DistributedDataParallelCPU",
        "DistributedDataParallelCPU_grad_is_view",
        "DistributedDataParallel_requires_grad",
        "ddp_create_graph",
        "ddp_logging_data_cpu",
        "grads_same_across_ranks_with_no_sync",
        "static_graph_api_cpu",
    ],
)
def test_of_torch(name: str, tmp_path: Path) -> None:
    pytest.importorskip("expecttest", reason="expecttest is not installed")
    for folder in ("barrier", "init_dir"):
        (tmp_path / folder).mkdir()
    settings = {"BACKEND": "gloo", "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo", "TEMP_DIR": str(tmp_path)}
    command = [sys.executable, str(ROOT / "tests" / "helpers" / "torch_ddp_tests.py"), f"Tests.test_{name}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **settings})
    assert done.returncode == 0 and "OK" in done.stderr.splitlines()[-1], done.stderr

"""The code blocks of the guides that need torch."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.helpers.pages import PAGES, ROOT, blocks, inside, run_python

pytestmark = pytest.mark.torch

GUIDE = ROOT / "docs" / "guides" / "several-machines.md"


def test_all_of_them_are_in_one_guide() -> None:
    assert {block.page for page in PAGES for block in blocks(page) if block.mark == "torch"} == {GUIDE}


def test_the_hook_trains_saves_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank, which `torchrun` would start; a rank that is alone sends nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for variable, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(variable, str(value))
    space = {"__name__": "__main__"}
    with inside(tmp_path):
        python = [block for block in blocks(GUIDE) if block.language == "python" and block.mark == "torch"]
        hook, saved, advice, network = [run_python(block, space) for block in python]
    assert (hook, saved, network) == ("5 steps, 0 bytes sent by this rank\n", "\n", "\n")
    assert "\nUse " in advice
    assert (tmp_path / "rank0.pt").is_file()


def test_the_network_of_a_user(tmp_path: Path) -> None:
    from bitlane.compress.training.networks import network

    (block,) = (block for block in blocks(GUIDE) if "def small(channels, side)" in block.text)
    (tmp_path / "networks.py").write_text(block.text)
    assert len(list(network(f"{tmp_path}/networks.py:small", 3, 32, 0).parameters())) == 4

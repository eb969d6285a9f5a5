"""Networks of users: taken from a file by function, and refused with one line that says why."""

from __future__ import annotations

import sys

import pytest
import torch

from bitlane.cli.main import main
from bitlane.compress.training.networks import network
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

FILE = """
from torch import nn
from neighbour_of_networks import WIDTH

def small(channels, side):
    first = nn.Linear(channels * side * side, WIDTH)
    return nn.Sequential(nn.Flatten(), first, nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 10))

def eleven(channels, side):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * side * side, 11))

def pair(channels, side):
    return nn.LSTM(side, 10)

def text(channels, side):
    return "a network"

def broken(channels, side):
    return nn.Linear(channels, -1)

number = 3
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "neighbour_of_networks.py").write_text("WIDTH = 12\n")
    (tmp_path / "networks.py").write_text(FILE)
    (tmp_path / "wrong.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path / "networks.py"


def test_a_network_depends_only_on_its_seed(file):
    first, again, other = (network(f"{file}:small", 1, 28, seed) for seed in (5, 5, 6))
    vectors = [torch.nn.utils.parameters_to_vector(each.parameters()) for each in (first, again, other)]
    assert torch.equal(vectors[0], vectors[1]) and not torch.equal(vectors[0], vectors[2])
    assert len(vectors[0]) == 784 * 12 + 12 + 2 * 12 + 12 * 10 + 10
    assert first.training and not first[2].running_mean.any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("networks.py:large", r"networks\.py has no function large"),
        ("networks.py:number", r"networks\.py has no function number"),
        ("networks.py:", r"networks\.py:' is not FILE\.py:FUNCTION"),
        ("networks.txt:small", r"networks\.txt:small' is not FILE\.py:FUNCTION"),
        ("nothing.py:small", r"there is no network file .*nothing\.py"),
        ("wrong.py:small", r"wrong\.py raised ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("networks.py:eleven", r"eleven: the network gives \[2, 11\] for 2 images; it must give \[2, 10\]"),
        ("networks.py:pair", r"pair raised \w+ for images \[1, 28, 28\]: "),
        ("networks.py:text", r"text returned str; it must return a torch\.nn\.Module"),
        ("networks.py:broken", r"broken raised RuntimeError for images \[1, 28, 28\]: "),
    ],
)
def test_what_is_no_network_is_refused(file, name, message):
    with pytest.raises(DataError, match=message):
        network(str(file.parent / name), 1, 28, 0)


def test_it_is_trained_on_processes(file, data_dir, tmp_path, capsys):
    small = ["--workers", "2", "--batch-size", "3000", "--compress", "qsgd"]
    assert main(["train-ddp", *small, "--network", f"{file}:small", "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.startswith(f"mnist, {file}:small, 2 workers, qsgd\nsteps 1 to 10, final loss ")
    for name, rank in (("eleven", "rank "), ("large", "")):
        assert main(["train-ddp", *small, "--network", f"{file}:{name}", "--out", str(tmp_path / name)]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert error.startswith(f"bitlane: error: {rank}") and not (tmp_path / name).exists()


def test_it_is_advised(file, capsys):
    assert main(["advise", "--network", f"{file}:small", "--ranks", "2", "--link", "1gbit"]) == 0
    assert "\nUse " in capsys.readouterr().out

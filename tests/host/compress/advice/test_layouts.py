"""Layouts: the published numbers of parameters, files of shapes, functions of users, and errors of one line."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from bitlane.cli.main import main
from bitlane.compress.advice.layouts import SHAPES, call_factory, file_layout, known_layout, module_layout
from bitlane.compress.advice.models import load_model
from bitlane.compress.advice.trial import MeasuredTraining
from bitlane.compress.compressor import vector_length
from bitlane.errors import DataError

pytestmark = pytest.mark.torch

# Of the models of Hugging Face (gpt2, gpt2-medium), of torchvision, and of torch's own layers for the LSTM.
PUBLISHED = {"gpt2": 124_439_808, "gpt2-medium": 354_823_168, "resnet18": 11_689_512, "resnet50": 25_557_032}


def test_known_models_have_the_published_numbers_of_parameters():
    lstm = nn.ModuleList([nn.Embedding(10_000, 650), nn.LSTM(650, 650, 2), nn.Linear(650, 10_000)])
    assert [tuple(each.shape) for each in lstm.parameters()] == list(SHAPES["lstm"])
    published = {**PUBLISHED, "lstm": sum(each.numel() for each in lstm.parameters())}
    assert {name: vector_length(known_layout(name)) for name in SHAPES} == published


def test_a_module_has_the_layout_of_its_gradients():
    """The last parameter first, without frozen ones, and tied ones once."""
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5), nn.Linear(4, 5))
    module[0].bias.requires_grad_(False)
    module[2].weight = module[1].weight
    assert [(each.begin, each.shape) for each in module_layout(module)] == [
        (0, (5,)),
        (5, (5,)),
        (10, (5, 4)),
        (30, (4, 3)),
    ]


def test_a_file_of_shapes(tmp_path):
    path = tmp_path / "shapes.txt"
    path.write_text("# embedding\n768 2304\n\n64x3x7x7  # first convolution\n10\n")
    assert [each.shape for each in file_layout(path)] == [(10,), (64, 3, 7, 7), (768, 2304)]
    assert load_model(None, str(path)) == (file_layout(path), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"shapes\.txt has no shapes: write one a line, such as 768 2304"),
        ("3 4\n5 -6\n", r"shapes\.txt, line 2: '5 -6' is not a shape, such as 768 2304 or 64x3x7x7"),
        ("(3, 4)\n", r"line 1: '\(3, 4\)' is not a shape"),
        ("3 0\n", r"line 1: '3 0' is not a shape"),
    ],
)
def test_a_wrong_file_is_refused(text, message, tmp_path):
    (tmp_path / "shapes.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        file_layout(tmp_path / "shapes.txt")


FACTORIES = """
import torch
from bitlane.compress.advice.trial import MeasuredTraining

def module():
    return torch.nn.Linear(3, 2)

def training():
    batches = [torch.full((4, 3), float(number)) for number in range(20)]
    loss = lambda module, batch: module(batch).square().mean()
    return MeasuredTraining(module(), loss, batches, lambda parameters: torch.optim.SGD(parameters, 1e-4))

def number():
    return 3

def broken():
    raise KeyError("width")
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "factories_of_a_user.py").write_text(FACTORIES)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path / "factories_of_a_user.py"


@pytest.mark.parametrize("by_path", [True, False])
def test_a_function_returns_a_module_or_a_training(by_path, file):
    place = file if by_path else file.stem
    layout, compute = load_model(None, f"{place}:module")
    assert [each.shape for each in layout] == [(2,), (2, 3)] and compute is None
    training, compute = load_model(None, f"{place}:training")
    assert type(training).__name__ == MeasuredTraining.__name__ and compute is None


def test_a_training_is_advised(file, capsys):
    assert main(["advise", "--model", f"{file}:training", "--ranks", "2", "--link", "1gbit"]) == 0
    told = capsys.readouterr().out
    assert "error/noise" in told and "\nUse " in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet19", "unknown model 'resnet19': choose one of gpt2, "),
        ("nothing.of.this:name", "cannot import 'nothing.of.this' for nothing.of.this:name: ModuleNotFoundError"),
        ("nothing.py:name", "there is no network file nothing.py"),
        ("{file}:other", "{file} has no function other"),
        ("{file}:", "{file} has no function (no name)"),
        ("{file}:broken", "{file}:broken raised KeyError: 'width'"),
        ("{file}:number", "{file}:number returned int; it must return a torch.nn.Module or a MeasuredTraining"),
    ],
)
def test_what_is_no_model_is_one_line(text, message, file, capsys):
    assert main(["advise", "--model", text.format(file=file), "--link", "1gbit"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"bitlane: error: {message.format(file=file)}") and error.count("\n") == 1


def test_what_a_function_returns_is_passed_on(file):
    assert call_factory(f"{file}:number") == 3
    assert isinstance(call_factory("torch.nn:Identity"), torch.nn.Identity)

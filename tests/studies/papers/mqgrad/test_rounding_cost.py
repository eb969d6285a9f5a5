"""What rounding costs: that of a quadratic, and the table."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bitlane.compress.training.experiment import NetworkTraining
from bitlane_studies.papers.mqgrad import bit_widths
from bitlane_studies.papers.mqgrad.bit_widths import Setting
from bitlane_studies.papers.mqgrad.rounding_cost import Watch, main

pytestmark = pytest.mark.torch


def test_the_cost_on_a_quadratic_is_half_its_curvature_along_the_errors(seed):
    """With gradients of batches that are far noisier than the answers to the errors."""
    rng = np.random.default_rng(seed)
    curvatures = rng.uniform(0, 0.02, 50_000)
    scales = rng.uniform(0, 0.2, 50_000)
    training, steps = NetworkTraining(rate=0.1, momentum=0.9), 200
    weights, velocity = rng.normal(size=50_000) / 10, np.zeros(50_000)
    watch = Watch(training, steps)
    for step in range(steps):
        gradient = curvatures * weights + rng.normal(size=50_000) / 100
        error = scales * rng.choice([-1, 1], 50_000)
        watch.add(torch.from_numpy(error).float(), torch.from_numpy(gradient).float(), step)
        velocity = 0.9 * velocity + gradient + error
        weights -= training.rate * (1 - step / steps) * velocity
    rates = training.rate / (1 - training.momentum) * (1 - np.arange(20, 100) / steps)
    exact = (curvatures * scales**2).sum() / 2 * np.mean(rates**2)
    assert watch.cost(slice(20, 100)) == pytest.approx(exact, rel=0.1)


def test_few_bits_cost_more(data_dir, monkeypatch, capsys):
    small = Setting("mnist", "perceptron", 8, 0.05, 100, True)
    wild = Setting("mnist", "perceptron", 8, 100.0, 100, False)
    monkeypatch.setattr(bit_widths, "SETTINGS", (small, wild))
    assert main(["--only", "1", "--seeds", "2", "--bits", "2", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mnist, perceptron, batch 8, rate 0.05, 100 steps, groups of 512"
    two, four = (line.split() for line in lines[3:5])
    assert two[0] == "2" and four[0] == "4" and float(two[2]) > 5 * abs(float(four[2])) and float(two[5]) > 0.1
    assert main(["--only", "2", "--seeds", "1", "--bits", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[3].split() == ["2", "diverges"]


def test_bad_arguments(capsys):
    with pytest.raises(Exception, match="--only 1 to 6; got 3 and 7"):
        main(["--only", "7"])

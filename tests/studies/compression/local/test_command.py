"""The study of DiLoCo: a tiny run of each task, bytes at the socket, identical ranks, one-line errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.helpers import local_study
from torch import nn

from bitlane.compress.collectives.launch import launch
from bitlane.errors import BitlaneError
from bitlane_studies.compression.local.__main__ import main
from bitlane_studies.compression.local.recipe import LocalRecipe
from bitlane_studies.compression.local.tasks import load_task
from bitlane_studies.compression.local.ways import ALONE, FLOAT32, FOUR_BITS, LONGER, PLAIN, TORCHFT, WAYS

pytestmark = pytest.mark.torch

VALUES = {"images": 78_042, "text": 43_136}
RECIPE = LocalRecipe(batch=2, rate=1e-3, local_rate=1e-3, outer_rate=0.7, outer_momentum=0.5, steps=6, every=3)


@pytest.mark.parametrize("task", ["images", "text"])
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
def test_a_tiny_run_of_each_task(task):
    found = launch(local_study.play, 2, task, RECIPE, [0, 5], timeout=240)
    start, values = 4 * VALUES[task], VALUES[task]
    for number in (0, 1):
        first, second = ({way: trials[number] for way, trials in rank.items()} for rank in found)
        assert all(trial.loss > 0.5 for trial in first.values())
        assert all(first[way].loss == second[way].loss for way in (PLAIN, FLOAT32, FOUR_BITS, LONGER))
        assert len({trial.loss for trial in first.values()}) == len(first)
        assert first[ALONE].loss != second[ALONE].loss
        assert first[PLAIN].declared_bytes == 6 * 4 * values
        assert first[ALONE].declared_bytes == first[ALONE].socket_bytes == 0
        for way, body in ((FLOAT32, 4 * values), (FOUR_BITS, 0.508 * values), (LONGER, 0.508 * values)):
            assert all(0 <= trials[way].declared_bytes - 2 * body < 2000 for trials in (first, second))
        for trial in (first[PLAIN], first[FLOAT32], first[FOUR_BITS], first[LONGER]):
            begin = start if trial is first[PLAIN] else 0
            assert 0 <= trial.socket_bytes - trial.declared_bytes - begin < 40_000
    assert found[0][PLAIN][0].loss != found[0][PLAIN][1].loss


def test_the_command_prints_the_table_and_the_verdict(capsys):
    settings = ["--steps", "6", "--every", "3", "--batch", "1", "--rate", "1e-9", "--local-rate", "1e-9", "--alone"]
    assert main(["--task", "text", "--seeds", "3", *settings]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    ways = local_study.OWN_WAYS
    assert len(lines) == 2 + len(ways) + 2
    assert all(f"  {way}  " in line for way, line in zip(ways, lines[2:], strict=False))
    for way, line in ((FOUR_BITS, lines[-2]), (LONGER, lines[-1])):
        assert f"text, {way}: the goal of 200 times fewer bytes" in line and " is missed: " in line
    results = [line for line in err.splitlines() if line.startswith("text, seed 3, ")]
    assert [re.sub(r"\d\.\d{4}", "L", line) for line in results] == [
        f"text, seed 3, {way}: loss L after {8 if way == LONGER else 6} steps" for way in ways
    ]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
def test_torchft_trains_beside_ours():
    pytest.importorskip("torchft", reason="pip install torchft")
    found = launch(local_study.play, 2, "text", RECIPE, [0], [FLOAT32, TORCHFT], timeout=240)
    first, second = ({way: trial for way, (trial,) in rank.items()} for rank in found)
    assert first[TORCHFT].loss == second[TORCHFT].loss == pytest.approx(first[FLOAT32].loss, rel=0.02)
    assert second[TORCHFT].socket_bytes >= 2 * 4 * VALUES["text"]


def test_without_torchft_the_way_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchft", None)
    with pytest.raises(BitlaneError, match="no module 'torchft': pip install torchft"):
        WAYS[TORCHFT](nn.Linear(1, 1), RECIPE).scope(None).__enter__()


def test_a_wrong_setting_is_one_line():
    with pytest.raises(BitlaneError, match="--ranks must be 2 or more; got 1"):
        main(["--ranks", "1"])
    with pytest.raises(BitlaneError, match="got 100 and 30"):
        main(["--steps", "100", "--every", "30"])
    with pytest.raises(BitlaneError, match="unknown task 'cats': choose one of images, text"):
        load_task("cats")

"""The study of inner and outer optimizers: a tiny run of each way, its bytes, the table, the verdict, the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bitlane.compress.codecs import linear, sign
from bitlane.compress.codecs.groups import Groups, shard_groups
from bitlane.errors import BitlaneError
from bitlane_studies.compression.outer import __main__ as command
from bitlane_studies.compression.outer.demo import Chunks
from bitlane_studies.compression.outer.rates import OUTER, best, candidates
from bitlane_studies.compression.outer.report import OuterRow, rows_of, table, verdict
from bitlane_studies.compression.outer.trial import OuterJob, OuterTrial, Size
from bitlane_studies.compression.outer.ways import (
    BFLOAT16,
    DDP,
    DEMO_WAYS,
    DION_WAYS,
    FACTORS,
    FLOAT32,
    LONG_WAYS,
    ROUNDS,
    SPARSE,
    TUNED_BY,
    WAYS,
    Rates,
    ways_of,
)

pytestmark = pytest.mark.torch

TINY = ["--width", "8", "--depth", "1", "--length", "8", "--batch", "2", "--steps", "60"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
def test_a_tiny_run_of_each_way(tmp_path, capsys):
    assert command.main(["--inner", "adamw", "--seeds", "3", *TINY, "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(WAYS) + 1 and "adamw: the goal of 500 times fewer bytes" in lines[-1]
    assert "</svg>" in (tmp_path / "outer.svg").read_text()
    found = json.loads((tmp_path / "outer.json").read_text())
    trials = {each["way"]["name"]: each["ranks"] for each in found["trials"]}
    model = Size(8, 1, 8).task().build_model(0)
    values = sum(each.numel() for each in model.parameters())
    assert trials[FLOAT32.name][0]["declared_bytes"] == 60 * 4 * values
    assert trials[BFLOAT16.name][0]["declared_bytes"] == 60 * 2 * values
    first, second = shard_groups(Groups.of(values), 2)
    for bits in (8, 4, 2):
        both = [linear.body_bytes(each.groups, bits) for each in (first, second)]
        for rank in trials[f"DiLoCo, {bits} bits"]:
            assert rank["declared_bytes"] == 2 * (32 + sum(both))
    for rank in (*trials["DiLoCo, 1 bit"], *trials["DiLoCo, 1 bit, ahead"]):
        assert rank["declared_bytes"] == 2 * (32 + sum(sign.body_bytes(each.groups) for each in (first, second)))
    for percent, least in ((3, 0.027), (2, 0.018), (1, 0.009)):
        for rank in (*trials[f"SparseLoCo, {percent} %"], *(trials["SparseLoCo, 2 %, ahead"] if percent == 2 else ())):
            assert least * values < rank["declared_bytes"] / 6 < 2 * percent / 100 * values + 60
    for ranks in trials.values():
        assert ranks[0]["loss"] == ranks[1]["loss"] > 1
        assert all(0 < rank["socket_bytes"] - rank["declared_bytes"] < 4 * values + 40_000 for rank in ranks)
    assert len({ranks[0]["loss"] for ranks in trials.values()}) == len(WAYS)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon needs torch 2.9")
def test_a_tiny_run_of_dion(tmp_path, capsys, monkeypatch):
    """Beside DDP with Muon; and bytes that follow the rank and the bits."""
    monkeypatch.setattr(command, "ways_of", lambda inner: DION_WAYS if inner == "dion" else (BFLOAT16, WAYS[2]))
    assert command.main(["--inner", "muon", "dion", "--seeds", "3", *TINY, "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 2 + len(DION_WAYS) + 2 and lines[-1].startswith("dion: the goal of 500 times fewer bytes")
    trials = json.loads((tmp_path / "outer.json").read_text())["trials"][2:]
    sent = {(each["way"]["rank_fraction"], each["way"]["bits"]): each["ranks"][0]["declared_bytes"] for each in trials}
    assert sent[1 / 2, 8] > sent[1 / 4, 8] > sent[1 / 4, 4] > sent[1 / 8, 4]
    for each in trials:
        first, second = each["ranks"]
        assert first["loss"] == second["loss"] > 1
        assert 0 < first["socket_bytes"] - first["declared_bytes"] < 60_000


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
def test_a_tiny_run_of_demo(tmp_path, capsys, monkeypatch):
    """Beside DDP with AdamW; 4 bytes a component, and one component at least of each chunk."""
    monkeypatch.setattr(command, "ways_of", lambda inner: DEMO_WAYS if inner == "demo" else (BFLOAT16, WAYS[2]))
    assert command.main(["--inner", "adamw", "demo", "--seeds", "3", *TINY, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("demo: the goal of 500 times fewer bytes")
    trials = json.loads((tmp_path / "outer.json").read_text())["trials"][2:]
    shapes = [each.shape for each in Size(8, 1, 8).task().build_model(0).parameters()]
    for trial in trials:
        first, second = trial["ranks"]
        assert first["loss"] == second["loss"] > 1
        chunks = [(shape.numel() // size, size) for shape in shapes for size in [Chunks(shape).size]]
        sent = sum(count * max(1, round(trial["way"]["density"] * size)) for count, size in chunks)
        assert first["declared_bytes"] == 60 * 4 * sent
        assert 0 < first["socket_bytes"] - first["declared_bytes"] < 60_000


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the socket's count needs Linux")
@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch.optim.Muon needs torch 2.9")
def test_a_tiny_run_of_the_long_ways(tmp_path, capsys):
    """Two rounds of 36 steps, with the rates of long trainings."""
    assert command.main(["--long", "--seeds", "3", *TINY, "--steps", "72", "--out", str(tmp_path)]) == 0
    assert "muon: the goal of 500 times fewer bytes" in capsys.readouterr().out
    plain, ahead = json.loads((tmp_path / "outer.json").read_text())["trials"]
    assert ahead["way"]["step_ahead"] == 0.5 and ahead["rates"] == {"inner": 0.012, "outer": 0.8, "momentum": 0.4}
    values = plain["ranks"][0]["declared_bytes"] // (72 * 2)
    assert ahead["ranks"][0]["declared_bytes"] == 2 * (32 + sign.body_bytes(Groups.of(values)))


def test_the_grid_is_alike_for_each_way_and_the_least_loss_wins():
    jobs = candidates("adamw", WAYS)
    inner = {family: {job.rates.inner for job in jobs if job.way.family == family} for family in (DDP, ROUNDS, SPARSE)}
    assert inner[DDP] == inner[ROUNDS] == inner[SPARSE] and len(OUTER[ROUNDS]) == len(OUTER[SPARSE])
    assert {
        job.way.name for inner in ("adamw", "dion", "demo") for job in candidates(inner, (*ways_of(inner), *LONG_WAYS))
    } == set(TUNED_BY)
    assert len(candidates("dion", DION_WAYS)) == len(inner[DDP]) * len(OUTER[FACTORS])
    losses = [2.0 + (number - 4) ** 2 for number in range(len(jobs))]
    found = best(jobs, losses)
    assert found["adamw", ROUNDS] == jobs[4].rates and len(found) == 5


def rows(loss, sent):
    plain = OuterRow([2.0, 2.0], 1_000_000, 990_000, "muon", BFLOAT16.name, 1)
    return [plain, OuterRow([loss - 0.5, loss + 0.5], sent, sent, "muon", "SparseLoCo, 1 %", 10)]


@pytest.mark.parametrize(
    ("loss", "sent", "met"), [(2.02, 2000, True), (2.021, 2000, False), (2.0, 2001, False), (1.0, 10, True)]
)
def test_the_goal_needs_both(loss, sent, met):
    assert ("is met: " if met else "is missed: ") in verdict(rows(loss, sent), "muon")


def test_the_table_has_means_and_ratios():
    job = OuterJob("muon", WAYS[-1], Rates(0.1), 0)
    trials = [[OuterTrial(1.0, 10, 4), OuterTrial(2.0, 20, 2)], [OuterTrial(3.0, 50, 1), OuterTrial(2.0, 30, 3)]]
    assert rows_of([job, job], trials) == [OuterRow([2.0, 2.0], 50, 4, "muon", WAYS[-1].name, WAYS[-1].every)]
    last = table(rows(2.1, 2000)).splitlines()[-1].split("  ")
    assert [cell.strip() for cell in last if cell.strip()] == [
        *("muon", "SparseLoCo, 1 %", "10", "2.1000 +- 0.7071", "+5.0%", "0.002", "0.002", "500.0")
    ]


def test_a_wrong_setting_is_one_line():
    with pytest.raises(BitlaneError, match="--ranks must be 2 or more; got 1"):
        command.main(["--ranks", "1"])
    with pytest.raises(BitlaneError, match="--steps must be a multiple of 30, the steps of a round of DiLoCo, 8 bits"):
        command.main(["--steps", "100"])
    with pytest.raises(BitlaneError, match="no tuned rates of sgd: find them with --tune"):
        command.main(["--inner", "sgd"])
    with pytest.raises(BitlaneError, match="no tuned rates of adamw: find them with --tune"):
        command.main(["--long", "--inner", "adamw"])
    with pytest.raises(BitlaneError, match="dion is compared with DDP with muon: add that to --inner"):
        command.main(["--inner", "adamw", "dion"])

"""The table and the verdict of the study."""

from __future__ import annotations

import pytest

from bitlane_studies.compression.local.report import WaySummary, reaches_goal, summarize, table, verdict
from bitlane_studies.compression.local.trial import LocalTrial
from bitlane_studies.compression.local.ways import ALONE, FLOAT32, FOUR_BITS, PLAIN

pytestmark = pytest.mark.torch

PLAIN_DDP = WaySummary([1.0, 2.0, 3.0], 4_000_000, 3_900_000)


def ways(loss=2.02, sent=20_000):
    return {PLAIN: PLAIN_DDP, FOUR_BITS: WaySummary([loss - 1, loss, loss + 1], sent, 19_000)}


def test_a_summary_has_means_over_ranks_for_each_seed_and_the_rank_that_sends_most():
    ranks = [
        {"a": [LocalTrial(1.0, 10, 1), LocalTrial(2.0, 20, 2)]},
        {"a": [LocalTrial(3.0, 50, 4), LocalTrial(2.0, 30, 3)]},
    ]
    summary = summarize(ranks)["a"]
    assert summary == WaySummary([2.0, 2.0], 50, 4)
    assert summary.loss == 2 and summary.deviation == 0
    assert PLAIN_DDP.loss == 2 and PLAIN_DDP.deviation == 1
    assert WaySummary([5.0], 1, 1).deviation == 0


@pytest.mark.parametrize(
    "loss, sent, met",
    [(2.02, 20_000, True), (2.021, 20_000, False), (2.02, 20_001, False), (1.0, 20_000, True), (2.0, 10, True)],
)
def test_the_goal_needs_both(loss, sent, met):
    assert reaches_goal(ways(loss, sent), FOUR_BITS) is met


def test_the_verdict_names_the_numbers():
    assert verdict("text", ways(), FOUR_BITS) == (
        "text, DiLoCo, 4 bits: the goal of 200 times fewer bytes at a loss within 1% is met: 200.0 times fewer, "
        "loss +1.0% (+2.0%, +1.0%, +0.7% for each seed)"
    )
    assert " is missed: 100.0 times fewer, " in verdict("text", ways(sent=40_000), FOUR_BITS)


def test_the_table_has_a_row_for_each_task_and_way():
    found = {**ways(), FLOAT32: WaySummary([2.5], 1_000_000, 1_000_000), ALONE: WaySummary([4.0], 0, 0)}
    lines = [line.split("  ") for line in table({"text": found, "images": found}).splitlines()[2:]]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[:4] == [
        ["text", PLAIN, "2.0000 +- 1.0000", "1.0000", "4.000", "3.900", "1.0"],
        ["text", FOUR_BITS, "2.0200 +- 1.0000", "1.0100", "0.020", "0.019", "200.0"],
        ["text", FLOAT32, "2.5000 +- 0.0000", "1.2500", "1.000", "1.000", "4.0"],
        ["text", ALONE, "4.0000 +- 0.0000", "2.0000", "0.000", "0.000", "inf"],
    ]
    assert [line[:2] for line in cells[4:]] == [["images", way] for way in found]

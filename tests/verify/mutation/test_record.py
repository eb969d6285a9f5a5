"""The record: the log gives back what was written, and the page counts."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from tests.helpers.mutated_block import SUM

import bitlane_hw
from bitlane_verify.mutation import record
from bitlane_verify.mutation.campaign import TrialResult
from bitlane_verify.mutation.operators import mutants
from bitlane_verify.mutation.trial import MutantVerdict, sources


def test_record(tmp_path: Path) -> None:
    """The log gives back the last result of each mutant; the page counts, and lists equivalent mutants apart."""
    made = mutants("block", SUM)[:5]
    results = ("killed", "survived", "survived", "invalid", "identical")
    verdicts = [MutantVerdict(result, seed=5 if result == "killed" else None) for result in results]
    done = [TrialResult(mutant, verdict, 1.5) for mutant, verdict in zip(made, verdicts, strict=True)]
    log = tmp_path / "log"
    campaign = record.Campaign.of(7, 2, {"block": SUM})
    record.begin(log, campaign)
    record.append(log, TrialResult(done[0].mutant, MutantVerdict("survived")))  # before it was tried again
    for result in done:
        record.append(log, result)
    found = record.logged(log)
    assert (found.campaign, found.results, found.killed_later) == (campaign, done, 1)
    assert found.trials == [TrialResult(done[0].mutant, MutantVerdict("survived")), *done]
    found = record.summarize(record.logged(log), record.equivalents(made, {made[2].key: "it goes nowhere"}))
    assert (found.killed, len(found.survivors), found.score) == (1, 1, 0.5)
    page = record.markdown(found, ["block"], date(2026, 1, 2))
    assert (found.invalid, found.identical) == (1, 1)
    assert "2026-01-02, seed 7: 1 of 2 mutants killed (50.0 %), of a sample of 2." in page
    assert "\n1 of the killed mutants survived at first" in page
    assert "| block | 2 | 1 | 1 |" in page
    assert f"- {record.describe(done[1].mutant)}\n" in page
    assert f"- {record.describe(done[2].mutant)}: it goes nowhere\n" in page


def test_a_module_that_has_changed_is_tried_again(tmp_path: Path) -> None:
    log, texts = tmp_path / "log", {"block": SUM, "other": SUM}
    record.begin(log, record.Campaign.of(7, 20, texts))
    tried = [TrialResult(mutants(name, SUM)[0], MutantVerdict("killed", seed=5), 1.5) for name in texts]
    for result in tried:
        record.append(log, result)
    assert record.resume(log, texts).trials == tried
    changed = texts | {"other": SUM + "\n"}
    found = record.resume(log, changed)
    assert (found.trials, found.campaign) == (tried[:1], record.Campaign.of(7, 20, changed))
    assert record.logged(log) == found


def test_known_equivalents_are_mutants() -> None:
    """Every entry of the file is a mutant of the RTL."""
    folder = Path(bitlane_hw.__file__).parent
    keys = {mutant.key for name, source in sources(folder).items() for mutant in mutants(name, source)}
    assert record.known_equivalents().keys() <= keys
    assert all(record.known_equivalents().values())

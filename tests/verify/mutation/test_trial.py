"""The trial of a mutant: what tests notice is killed, the rest survives, and every trial ends."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.helpers.mutated_block import SUM
from tests.helpers.places import ROOT

from bitlane_verify.mutation import trial
from bitlane_verify.mutation.campaign import run_campaign
from bitlane_verify.mutation.operators import Mutant, mutants
from bitlane_verify.mutation.trial import MutantVerdict, Sandbox, Stage, baseline, run_tests

TEST = "tests/hw/test_block.py"
ENDLESS = "`number - 2` became `number + 2`"


def verdicts(sandbox: Sandbox, wanted: list[str], seconds: float = 0.0) -> dict[str, MutantVerdict]:
    """How the trials of some changes of the block end, two at a time, whose only stage takes so many seconds else."""

    def stages(mutant: Mutant, folder: Path) -> Sequence[Stage]:
        def run() -> MutantVerdict | None:
            failed = run_tests(sandbox.root, [TEST], seconds={f"{TEST}::test_sums": 0.0}).failed
            return MutantVerdict("killed", failed) if failed else None

        return [Stage("unit", run, seconds, seed=11)]

    found = [mutant for mutant in mutants("block", SUM) if mutant.change in wanted]
    assert len(found) == len(wanted)
    done = run_campaign(sandbox, [(mutant, iter(())) for mutant in found], stages, 2, lambda result: None)
    return {result.mutant.change: result.verdict for result in done}


@pytest.mark.slow
def test_verdicts(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MIN_SECONDS", 2.0)
    shows, hidden, endless = (
        "`self.a + self.b` became `self.a - self.b`",
        "`self.a & self.b` became `self.a | self.b`",
        ENDLESS,
    )
    found = verdicts(sandbox, [shows, hidden, endless])
    assert found[shows] == MutantVerdict("killed", f"{TEST}::test_sums", seed=11)
    assert found[hidden] == MutantVerdict("survived")
    assert found[endless] == MutantVerdict("killed", "unit: timeout", seed=11)
    assert sandbox.sources()["block"] == SUM


def test_a_test_that_hangs_ends_before_the_stage(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TEST_SECONDS", 2.0)
    begin = time.monotonic()
    assert verdicts(sandbox, [ENDLESS], seconds=1e6)[ENDLESS] == MutantVerdict("killed", "unit: timeout", seed=11)
    assert time.monotonic() - begin < 200


def test_a_seed_reaches_the_tests(sandbox: Sandbox) -> None:
    """The one that is given, so that a kill by a random test can be repeated."""
    (sandbox.root / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    seeded = "tests/hw/test_seeded.py"  # a module of its own: tests in this process keep what they import
    (sandbox.root / seeded).write_text("def test_random(seed):\n    assert seed != 123\n")
    assert run_tests(sandbox.root, [seeded], seed=124).failed == ""
    assert run_tests(sandbox.root, [seeded], seed=123).failed == f"{seeded}::test_random"


def test_baseline(sandbox: Sandbox) -> None:
    """Without a mutant the tests pass; a keyword that chooses no test is an error, not a pass."""
    seconds, each = baseline(sandbox, [TEST])
    assert seconds > 0
    assert each.keys() == {f"{TEST}::test_sums"}
    with pytest.raises(RuntimeError, match="NO_TESTS_COLLECTED fails without a mutant"):
        baseline(sandbox, [TEST], keyword="no_such_test")
    (sandbox.root / TEST).write_text("def test_wrong():\n    assert False\n")
    with pytest.raises(RuntimeError, match=f"{TEST}::test_wrong fails without a mutant"):
        baseline(sandbox, [TEST])


def test_cheap_tests_run_first(sandbox: Sandbox) -> None:
    two = "tests/hw/test_two.py"  # a module of its own, as above
    (sandbox.root / two).write_text("def test_a():\n    assert False\n\n\ndef test_b():\n    assert False\n")
    names, limit = [f"{two}::test_{name}" for name in "ab"], resource.getrlimit(resource.RLIMIT_CPU)
    assert run_tests(sandbox.root, [two]).failed == names[0]
    assert run_tests(sandbox.root, [two], seconds={names[0]: 2.0, names[1]: 1.0}).failed == names[1]
    assert resource.getrlimit(resource.RLIMIT_CPU) == limit  # this process lives on

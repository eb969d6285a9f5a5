"""The trials of a small block's mutants, and the sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.helpers.mutated_block import SUM

from bitlane_verify.mutation.campaign import MIN_PER_MODULE, REPLACED, TrialResult, quotas, run_campaign, sample_mutants
from bitlane_verify.mutation.operators import Mutant, mutants
from bitlane_verify.mutation.trial import MutantVerdict, Sandbox, Stage


def test_a_failed_trial_is_no_verdict(sandbox: Sandbox) -> None:
    (mutant, *_) = mutants("block", SUM)

    def broken(mutant: Mutant, folder: Path) -> Sequence[Stage]:
        raise OSError("no space left")

    with pytest.raises(RuntimeError, match=r"a trial failed: OSError\('no space left'\)"):
        run_campaign(sandbox, [(mutant, iter(()))], broken, 1, lambda result: None)


@pytest.mark.parametrize("result", ["invalid", "identical"])
def test_what_is_no_mutant_is_replaced(sandbox: Sandbox, result: str) -> None:
    first, second, third, *_ = mutants("block", SUM)

    def stages(mutant: Mutant, folder: Path) -> Sequence[Stage]:
        return [Stage("only", lambda: MutantVerdict(result if mutant != third else "killed"))]

    done = run_campaign(sandbox, [(first, iter([second, third]))], stages, 1, lambda result: None)
    assert [each.mutant for each in done] == [first, second, third]
    assert all(each.seconds > 0 for each in done)


@pytest.mark.parametrize("count", [20, 57, 200, 10_000])
def test_quotas(count: int) -> None:
    sizes = {"small": 3, "middle": 40, "large": 300}
    found = quotas(sizes, count)
    assert sum(found.values()) == min(count, 343)
    assert all(min(size, MIN_PER_MODULE) <= found[name] <= size for name, size in sizes.items())
    assert found["large"] >= found["middle"] >= found["small"]


def test_sample(seed: int) -> None:
    """The same for a seed, without repetition, another for another seed."""
    found = {name: mutants(name, SUM) for name in ("a", "b")}
    first, again, other = ([m for m, _ in sample_mutants(found, 20, s)] for s in (seed, seed, seed + 1))
    assert first == again != other
    assert len(set(first)) == 20


def test_a_campaign_goes_on(seed: int) -> None:
    """Mutants that count are not tried again, others are replaced: at the end each module has its share."""
    found = {name: mutants(name, SUM) for name in ("a", "b")}
    sample = [mutant for mutant, _ in sample_mutants(found, 20, seed)]
    results = ["killed", "survived", "invalid", "identical", "equivalent"] * 2
    tried = [TrialResult(mutant, MutantVerdict(result)) for mutant, result in zip(sample, results, strict=False)]
    rest = [mutant for mutant, _ in sample_mutants(found, 20, seed, tried)]
    counted = [each.mutant for each in tried if each.verdict.result not in REPLACED]
    assert not {*rest} & {each.mutant for each in tried}
    assert Counter(mutant.module for mutant in rest + counted) == Counter(mutant.module for mutant in sample)
    assert {*sample} - {each.mutant for each in tried} <= {*rest}

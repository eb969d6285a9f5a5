"""The command of all checks: what it prints, and its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane.errors import DataError
from bitlane_sim.cocotb.runner import BenchSimulator
from bitlane_verify.foreign import __main__ as command
from bitlane_verify.foreign.axi_checks import PROOFS
from bitlane_verify.foreign.shared_memory import SharedRun
from bitlane_verify.foreign.sources import ForeignSources
from bitlane_verify.formal.runner import ProofTools

UNAVAILABLE = BenchSimulator().unavailable_reason()


@pytest.mark.slow
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
@pytest.mark.usefixtures("wb2axip", "verilog_axi")
def test_all_checks_succeed(
    tools: ProofTools, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.main(["--seed", str(seed), "--keep", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name} " in shown for name in PROOFS)
    assert f"seed {seed}" in shown and shown.endswith("bit for bit\n")

    def wrong_bits(folder: Path, seed: int, rounds: object) -> SharedRun:
        raise AssertionError("1 of 1 cocotb tests failed")

    monkeypatch.setattr(command, "train_on_shared_memories", wrong_bits)
    monkeypatch.setattr(command, "prove_all", lambda *given: True)
    assert command.main(["--seed", "7"]) == 1
    assert capsys.readouterr().err == "1 of 1 cocotb tests failed; repeat the run with --seed 7\n"


def test_without_network_the_command_says_where_to_put_the_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(sources: ForeignSources, *names: str) -> str:
        raise DataError("a.v cannot be downloaded: no network; put a.v into the cache")

    monkeypatch.setattr(ForeignSources, "text", unreachable)
    with pytest.raises(SystemExit) as caught:
        command.main([])
    assert caught.value.code
    shown = capsys.readouterr()
    assert shown.err.endswith("a.v cannot be downloaded: no network; put a.v into the cache\n") and not shown.out

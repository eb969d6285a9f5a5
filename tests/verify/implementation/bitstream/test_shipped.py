"""The bitstreams in the package are complete, and contain the accelerator of these sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitlane import overlays
from bitlane_verify.implementation.bitstream.chips import CHIPS
from bitlane_verify.implementation.bitstream.verify import check_circuit, check_files

SHIPPED = sorted(path.parent for path in overlays.FOLDER.glob("*/manifest.json"))


def test_the_package_has_one_bitstream_for_three_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(overlays.VARIABLE, raising=False)
    assert [path.name for path in SHIPPED] == ["xc7z020"]
    assert sorted(overlays.overlays()) == ["Arty-Z7-20", "Pynq-Z1", "Pynq-Z2"]


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_files_handoffs_and_clock_match_the_manifest(folder: Path) -> None:
    assert not [each for each in check_files(folder, CHIPS[folder.name]) if not each.equal]


@pytest.mark.slow
@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_the_rtl_matches_the_manifest(folder: Path) -> None:
    """The sources make the same circuit, except for names and the build number."""
    assert not [each for each in check_circuit(folder, CHIPS[folder.name]) if each.needed and not each.equal]

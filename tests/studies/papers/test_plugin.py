"""`bitlane reproduce`: missing requirements are reported first, then every claim is measured."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.papers import PAPER

from bitlane.cli import main as cli
from bitlane.errors import DataError
from bitlane_studies.papers import plugin

pytest.importorskip("matplotlib")


@pytest.fixture
def ready(monkeypatch, tmp_path):
    """Replace the paper by a fictitious one that measures nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugin, "load_paper", lambda name: replace(PAPER, name=name))


@pytest.mark.parametrize(("arguments", "size"), [(["--quick"], "quick size, 5 seeds"), ([], "full size, 7 seeds")])
def test_all_claims_are_measured(ready, tmp_path, capsys, arguments, size):
    assert cli.main(["reproduce", "micro", "--out", "p.md", *arguments]) == 0
    out, err = capsys.readouterr()
    assert out.split() == ["p/one.png", "p/two.png", "p/three.png", "p.md"]
    assert [line for line in err.splitlines() if re.match(r"bitlane: claim \d of 3, 0 minutes elapsed", line)]
    text = (tmp_path / "p.md").read_text()
    assert size in text and "bitlane reproduce micro" in text


def test_a_page_goes_to_the_docs(ready, capsys):
    Path("docs").mkdir()
    assert cli.main(["reproduce", "lqsgd", "--quick"]) == 0
    assert capsys.readouterr().out.split()[-1] == "docs/lqsgd.md"
    assert "(lqsgd/one.png)" in Path("docs/lqsgd.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "p.txt"], "the page is Markdown"),
        (["--out", "none/p.md"], "in an existing folder"),
        ([], "--out docs/zipml.md: not a file name in an existing folder"),
        (["--out", "taken.md"], "which is not a folder"),
    ],
)
def test_unwritable_outputs_are_rejected_first(ready, tmp_path, capsys, arguments, message):
    (tmp_path / "taken").write_text("a file")
    assert cli.main(["reproduce", "zipml", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_missing_data_are_reported_before_any_measurement(monkeypatch, tmp_path, capsys):
    def fail() -> None:
        raise DataError("no images")

    monkeypatch.chdir(tmp_path)
    unready = replace(PAPER, check_needs=fail, measures=[lambda *_: pytest.fail("measured")])
    monkeypatch.setattr(plugin, "load_paper", lambda _: unready)
    assert cli.main(["reproduce", "zipml", "--out", "p.md"]) == 2
    assert "no images" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("paper", ["zipml", "lqsgd"])
def test_a_missing_torch_is_reported(monkeypatch, tmp_path, capsys, paper):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cli.main(["reproduce", paper, "--out", "p.md"]) == 2
    assert f"bitlane reproduce {paper} needs torch: pip install 'bitlane[torch]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

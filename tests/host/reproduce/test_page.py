"""The page and the command: every claim on it, a failed one as such, and nothing half done."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from bitlane import cli
from bitlane.errors import BitlaneError, DataError
from bitlane.reproduce import command
from bitlane.reproduce.claim import QUICK, Claim, Verdict, markdown_table, spread
from bitlane.reproduce.page import anchor, page, write_page

pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"


def claim(name: str, verdict: Verdict = Verdict.HELD) -> Claim:
    return Claim(
        name=name,
        title=f"The {name}'s claim, 5 or 6",
        paper=f"{name} says so.",
        measured=markdown_table(["", "a"], [[name, "1"]]),
        verdict=verdict,
        reason=f"{name} is 1.",
        differs=(f"{name} is other.", "so is all."),
        draw=lambda figure: figure.subplots().plot([0, 1]),
    )


CLAIMS = [claim("one"), claim("two", Verdict.FAILED), claim("three", Verdict.PARTLY)]


def test_every_claim_is_on_the_page_with_its_verdict():
    text = page(CLAIMS, "plots", "so and so.")
    for each in CLAIMS:
        row = f"| [{each.title}](#{anchor(each.title)}) | {each.verdict.value} | {each.reason} |"
        assert text.count(row) == 1
        section = text.partition(f"## {each.title}\n")[2].partition("\n## ")[0]
        parts = (each.paper, each.measured, each.reason, *each.differs, f"(plots/{each.name}.png)")
        assert all(part in section for part in parts)
        assert f"**{each.verdict.value.capitalize()}.**" in section
    assert text.count("did not hold") == 1 and "**Did not hold.** two is 1." in text
    assert "bitlane reproduce zipml`: so and so." in text


def test_links_lead_to_sections():
    assert anchor("The gradient's variance, and 5 or 6") == "the-gradients-variance-and-5-or-6"


def test_the_page_and_its_plots_are_written(tmp_path):
    paths = write_page(CLAIMS, tmp_path / "zipml.md", "now.")
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        *("zipml/one.png", "zipml/two.png", "zipml/three.png"),
        "zipml.md",
    ]
    assert all(path.read_bytes().startswith(PNG) for path in paths[:-1])
    assert paths[-1].read_text() == page(CLAIMS, "zipml", "now.")
    assert sorted(path.name for path in tmp_path.rglob(".*")) == []


def test_a_plot_that_fails_leaves_the_old_page(tmp_path):
    def fail(_: object) -> None:
        raise ValueError("no")

    out = tmp_path / "zipml.md"
    out.write_text("old")
    with pytest.raises(ValueError, match="no"):
        write_page([CLAIMS[0], replace(CLAIMS[1], draw=fail)], out, "now.")
    assert out.read_text() == "old"
    assert [path.name for path in (tmp_path / "zipml").iterdir()] == ["one.png"]


def test_spreads():
    assert spread([1.0, 1.2]) == "1.1 ± 0.1" and spread([10.0, 40.0]) == "25 ± 20"
    assert spread([1.0, np.inf]) == spread([np.nan, 1.0]) == "diverges"


# --- the command ---------------------------------------------------------------------------------
@pytest.fixture
def ready(monkeypatch, tmp_path):
    """A command that has all it needs, and measures nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "check_needs", lambda: None)
    monkeypatch.setattr(command, "MEASURES", [lambda *_, each=each: each for each in CLAIMS])


def test_all_claims_are_measured(ready, tmp_path, capsys):
    assert cli.main(["reproduce", "zipml", "--quick", "--out", "p.md"]) == 0
    out, err = capsys.readouterr()
    assert out.split() == ["p/one.png", "p/two.png", "p/three.png", "p.md"]
    assert [line for line in err.splitlines() if re.match(r"bitlane: claim \d of 3, 0 minutes so far", line)]
    assert f"quick size, {QUICK.seeds} seeds" in (tmp_path / "p.md").read_text()


def test_seven_claims_of_the_paper():
    names = [measure.__module__.rpartition(".")[2] for measure in command.MEASURES]
    assert names == ["convergence", "fewest", "batches", "speed", "variance", "network", "tomography"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "p.txt"], "the page is Markdown"),
        (["--out", "none/p.md"], "in a folder that there is"),
        (["--out", "taken.md"], "which is not a folder"),
    ],
)
def test_places_that_cannot_be_written_are_refused_first(ready, tmp_path, capsys, arguments, message):
    (tmp_path / "taken").write_text("a file")
    assert cli.main(["reproduce", "zipml", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("missing", "error"), [("torch_or_error", BitlaneError("no torch")), ("load_cifar10", DataError("no images"))]
)
def test_what_is_missing_is_told_before_anything_is_measured(monkeypatch, tmp_path, capsys, missing, error):
    def fail() -> None:
        raise error

    monkeypatch.chdir(tmp_path)
    for name in ("torch_or_error", "load_cifar10"):
        monkeypatch.setattr(command, name, lambda: None)
    monkeypatch.setattr(command, "load_dataset", lambda _: None)
    monkeypatch.setattr(command, missing, fail)
    monkeypatch.setattr(command, "MEASURES", [lambda *_: pytest.fail("measured")])
    assert cli.main(["reproduce", "zipml"]) == 2
    assert str(error) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

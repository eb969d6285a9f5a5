"""The page: it has every claim with its verdict, and is written atomically."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.papers import CLAIMS, PAPER

from bitlane_studies.papers.claim import spread
from bitlane_studies.papers.page import anchor, render_page, write_page

pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"


def test_every_claim_is_on_the_page_with_its_verdict():
    text = render_page(PAPER, CLAIMS, "plots", "so and so.")
    for each in CLAIMS:
        row = f"| [{each.title}](#{anchor(each.title)}) | {each.verdict.value} | {each.reason} |"
        assert text.count(row) == 1
        section = text.partition(f"## {each.title}\n")[2].partition("\n## ")[0]
        parts = (each.paper, each.measured, each.reason, *each.differs, f"(plots/{each.name}.png)")
        assert all(part in section for part in parts)
        assert f"**{each.verdict.value.capitalize()}.**" in section
    assert text.count("did not hold") == 1 and "**Did not hold.** two is 1." in text
    assert (
        "The claims of Somebody (2026), measured on available data" in text
        and "`bitlane reproduce made-up`: so and so." in text
    )


def test_anchor():
    assert anchor("The gradient's variance, and 5 or 6") == "the-gradients-variance-and-5-or-6"


def test_the_page_and_its_plots_are_written(tmp_path):
    paths = write_page(PAPER, CLAIMS, tmp_path / "zipml.md", "now.")
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        *("zipml/one.png", "zipml/two.png", "zipml/three.png"),
        "zipml.md",
    ]
    assert all(path.read_bytes().startswith(PNG) for path in paths[:-1])
    assert paths[-1].read_text() == render_page(PAPER, CLAIMS, "zipml", "now.")
    assert sorted(path.name for path in tmp_path.rglob(".*")) == []


def test_a_plot_that_fails_leaves_the_old_page(tmp_path):
    def fail(_: object) -> None:
        raise ValueError("no")

    out = tmp_path / "zipml.md"
    out.write_text("old")
    with pytest.raises(ValueError, match="no"):
        write_page(PAPER, [CLAIMS[0], replace(CLAIMS[1], plot=fail)], out, "now.")
    assert out.read_text() == "old"
    assert [path.name for path in (tmp_path / "zipml").iterdir()] == ["one.png"]


def test_spreads():
    assert spread([1.0, 1.2]) == "1.1 ± 0.1" and spread([10.0, 40.0]) == "25 ± 20"
    assert spread([1.0, np.inf]) == spread([np.nan, 1.0]) == "diverges"

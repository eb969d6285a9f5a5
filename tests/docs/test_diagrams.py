"""The drawings of the documentation: each committed picture is what its script draws from the code."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.helpers.browsers import NEEDS_BROWSER, browser_page, resize
from tests.helpers.places import ROOT

from bitlane.contract.config import AcceleratorConfig

FOLDER = ROOT / "docs" / "_drawings"
PICTURES = {  # what each script draws
    "architecture": "architecture.svg",
    "datapath": "datapath.svg",
    "double_sampling": "double-sampling.svg",
    "logo": "_static/logo.svg",
}
# Pairs of texts of a drawing that overlap, and texts outside of it.
TEXTS = """() => {
    const texts = [...document.querySelectorAll("text")].map(each => [each.textContent, each.getBoundingClientRect()]);
    const page = document.documentElement.getBoundingClientRect();
    const found = texts.filter(([_, a]) => a.left < 0 || a.top < 0 || a.right > page.right || a.bottom > page.bottom)
        .map(([text, _]) => `${text} is outside`);
    texts.forEach(([one, a], i) => texts.slice(i + 1).forEach(([two, b]) => {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 3) found.push(`${one} / ${two}`);
    }));
    return found;
}"""


@pytest.mark.parametrize("script", PICTURES)
def test_the_committed_picture_is_what_the_script_draws(script: str, tmp_path: Path) -> None:
    drawn = tmp_path / "drawn.svg"
    subprocess.run([sys.executable, FOLDER / f"{script}.py", drawn], check=True)
    picture = ROOT / "docs" / PICTURES[script]
    assert drawn.read_text() == picture.read_text(), f"renew it with `python docs/_drawings/{script}.py`"
    root = ElementTree.fromstring(drawn.read_text())
    assert root.find("{http://www.w3.org/2000/svg}title").text


def words_of(config: AcceleratorConfig, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.syspath_prepend(str(FOLDER))
    drawing = runpy.run_path(str(FOLDER / "datapath.py"))["draw"](config)
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def test_the_block_diagram_has_the_widths_of_its_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths by hand: 2**10 features are 32 chunks of 32 weights, 32 bits each and 24 published."""
    config = AcceleratorConfig(
        width=256, outputs=3, max_features=1024, row_buffer_beats=777, fifo_beats=99, address_bits=36
    )
    words = words_of(config, monkeypatch)
    for word in (
        "256 bits: 4 rows of 32 digits of 2 bits",
        "address, 36",
        "99 beats",
        "777",
        "Model core: one for each output, 3 here",
        "32 x 1,024",
        "32 x 768",
        "2 x 66",  # 32 bits of a sample, 23 and a sign of a weight, 10 for the sum of 1024 products
        "5 cycles",  # of the update lanes: 3, and 2 levels of adders for 4 rows
    ):
        assert word in words


@pytest.mark.slow
@NEEDS_BROWSER
@pytest.mark.parametrize("name", PICTURES.values())
def test_texts_do_not_overlap(name: str) -> None:
    with browser_page() as (page, _):
        resize(page, 720)
        page.goto((ROOT / "docs" / name).as_uri())
        assert page.evaluate(TEXTS) == []

"""The README stays short, and its links lead somewhere."""

from __future__ import annotations

import re

from tests.helpers.places import ROOT

README = ROOT / "README.md"
MOST_LINES, MOST_BYTES = 150, 8_000


def test_it_is_short() -> None:
    text = README.read_bytes()
    assert len(text.splitlines()) <= MOST_LINES
    assert len(text) <= MOST_BYTES


def test_its_links_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README.read_text())
    local = [link for link in links if "://" not in link]
    assert len(local) > 15
    assert [link for link in local if not (ROOT / link).is_file()] == []

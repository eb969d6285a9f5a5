"""The built documentation in a browser: `make check` builds it first, and so does `make docs`."""

from __future__ import annotations

import functools
import http.server
import json
import runpy
import threading
from collections.abc import Iterator

import pytest
from tests.helpers.browsers import NEEDS_BROWSER, WIDTHS, browser_page, overflows, resize
from tests.helpers.places import ROOT

SITE = ROOT / "build" / "docs"
PARTS = 4  # of the pages: for several processes
IN_ONE_ROW = (1024, 1280, 1920)

pytestmark = [
    pytest.mark.slow,
    NEEDS_BROWSER,
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="needs the built documentation: make docs"),
]

# The visible parts of the header that are not in the row of the first one, need two lines, or cover another one.
HEADER = """() => {
    const items = [...document.querySelectorAll(".bd-header a, .bd-header button, .bd-header summary")]
        .filter(each => each.checkVisibility() && each.getBoundingClientRect().width);
    const boxes = items.map(each => each.getBoundingClientRect());
    const middle = (boxes[0].top + boxes[0].bottom) / 2;
    return items.filter((each, i) => boxes[i].top > middle || boxes[i].bottom < middle
        || boxes[i].height > 1.5 * boxes[0].height
        || boxes.some((box, k) => k < i && !items[k].contains(each)
            && Math.min(box.right, boxes[i].right) - Math.max(box.left, boxes[i].left) > 1)
    ).map(each => each.outerHTML);
}"""
# Sidebars that take room and have no link.
EMPTY = """() => [...document.querySelectorAll(".bd-sidebar")]
    .filter(each => each.offsetWidth > 0 && !each.querySelector("a[href]"))
    .map(each => each.className)"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the site on this machine: in a folder, as it is published."""
    handler = functools.partial(QuietHandler, directory=SITE.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{SITE.name}"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def page_names() -> list[str]:
    """All pages; `_static` has parts of the theme."""
    names = (path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    return sorted(name for name in names if not name.startswith("_static/"))


@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_is_wider_than_the_window(site: str, part: int) -> None:
    """At the widths of a telephone, a tablet, a laptop and a desk; no page has an error or an empty sidebar."""
    names = page_names()
    assert len(names) > 50
    found = []
    with browser_page() as (page, problems):
        for name in names[part::PARTS]:
            resize(page, WIDTHS[-1])
            page.goto(f"{site}/{name}", wait_until="load")
            found += [f"{name}: empty sidebar {each}" for each in page.evaluate(EMPTY)]
            found += overflows(page)
    assert found + problems == []


def test_the_header_is_one_row(site: str) -> None:
    with browser_page() as (page, _):
        for name in ("index.html", "tutorial.html", "reference/api/bitlane.html"):
            page.goto(f"{site}/{name}")
            for width in IN_ONE_ROW:
                resize(page, width)
                assert page.evaluate(HEADER) == [], (name, width)
            assert overflows(page, IN_ONE_ROW) == []


def test_the_header_links_to_the_repository_if_its_address_is_known(site: str) -> None:
    url = runpy.run_path(str(ROOT / "docs" / "_extensions" / "repository.py"))["repository_url"](ROOT)
    with browser_page() as (page, _):
        page.goto(f"{site}/tutorial.html")
        links = page.locator(".bd-header .navbar-icon-links a")
        assert set(links.evaluate_all("all => all.map(each => each.getAttribute('href'))")) == ({url} if url else set())


def test_code_can_be_copied_and_its_output_cannot(site: str) -> None:
    with browser_page() as (page, _):
        page.goto(f"{site}/tutorial.html")
        assert page.locator("div.highlight-python button.copybtn").count() == 2
        assert page.locator("div.highlight-sh button.copybtn").count() > 3
        assert page.locator("div.highlight-text button.copybtn").count() == 0


def test_the_version_switch_lists_the_versions(site: str) -> None:
    entries = json.loads((SITE / "switcher.json").read_text())
    with browser_page() as (page, problems):
        page.goto(f"{site}/guides/laptop.html", wait_until="networkidle")
        lines = page.locator(".bd-header .versions li")
        assert lines.all_text_contents() == [entry["version"] for entry in entries]
        assert page.locator(".bd-header .versions li[aria-current]").count() == 1
        for entry, link in zip(entries[1:], page.locator(".bd-header .versions li a").all(), strict=True):
            assert link.evaluate("each => each.href") == site.replace("/docs", entry["url"].removeprefix(".."))
        assert problems == []


def test_the_version_switch_shows_a_list_that_is_newer_than_the_page(site: str) -> None:
    """A publisher copies the newest list into the folders of all versions."""
    built = json.loads((SITE / "switcher.json").read_text())[0]
    newer = [{"version": "9.1.0", "url": "../v9.1.0/"}, built, {"version": "0.0.1", "url": "../v0.0.1/"}]
    with browser_page() as (page, _):
        page.route("**/switcher.json", lambda route: route.fulfill(json=newer))
        page.goto(f"{site}/guides/laptop.html", wait_until="networkidle")
        page.locator(".bd-header .versions summary").click()
        links = page.locator(".bd-header .versions li a")
        found = links.evaluate_all("all => all.map(each => each.href)")
        assert found == [site.replace("/docs", "/v9.1.0/"), site.replace("/docs", "/v0.0.1/")]
        assert page.locator(".bd-header .versions li[aria-current]").all_inner_texts() == [built["version"]]
        assert overflows(page, (1280,)) == []


def test_errors_come_last_in_the_api(site: str) -> None:
    with browser_page() as (page, _):
        page.goto(f"{site}/reference/api/bitlane.html")
        kinds = page.locator("dl.py > dt").evaluate_all("all => all.map(each => each.parentElement.classList[1])")
        kinds = [kind for kind in kinds if kind in ("class", "exception", "function")]
        assert kinds[0] == "class" and kinds == sorted(kinds, key=lambda kind: kind == "exception")


def test_a_page_opened_as_a_file_has_no_error() -> None:
    with browser_page() as (page, problems):
        page.goto((SITE / "index.html").as_uri(), wait_until="networkidle")
        assert page.locator(".bd-header .versions li").count() == 1
        assert problems == []

"""A browser for the tests of pages, and what they check on every page."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
NEEDS_BROWSER = pytest.mark.skipif(BROWSER is None, reason="needs a browser: apt-get install chromium")
WIDTHS = (400, 768, 1280, 1920)  # pixels: a telephone, a tablet, a laptop, a desk

# What makes the page wider than the window, and what sticks out of a part that cuts it off. A part may scroll sideways
# if it is a table or a line of code, but not if it is the page itself, which has the title in it.
OVERFLOW = """() => {
    const found = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} pixels wide`);
    for (const each of document.querySelectorAll("p, pre, table, img, svg, li, dt, dd, h1, h2, h3, .math")) {
        const right = each.getBoundingClientRect().right;
        if (!each.checkVisibility() || !right) continue;
        for (let box = each.parentElement; box; box = box.parentElement) {
            const overflow = getComputedStyle(box).overflowX;
            const scrolls = ["auto", "scroll"].includes(overflow);
            if (scrolls && !box.querySelector("h1")) break;
            const excess = right - (box === document.body ? root.clientWidth : box.getBoundingClientRect().right);
            if (excess > 1 && (scrolls || box === document.body || ["hidden", "clip"].includes(overflow))) {
                found.push(`${each.tagName} "${each.textContent.slice(0, 40)}" sticks out by ${Math.round(excess)}`);
                break;
            }
        }
    }
    return found.slice(0, 4);
}"""


@contextlib.contextmanager
def browser_page() -> Iterator[tuple[Any, list[str]]]:
    """An empty page of a browser without a window, and the errors that its console will have."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = window.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda message: message.type == "error" and problems.append(f"{page.url}: {message.text}"),
        )
        yield page, problems
        window.close()


def resize(page: Any, width: int) -> None:
    """Give the page another width."""
    page.set_viewport_size({"width": width, "height": 900})


def overflows(page: Any, widths: tuple[int, ...] = WIDTHS) -> list[str]:
    """What sticks out of the open page at some width, or is cut."""
    found = []
    for width in widths:
        resize(page, width)
        found += [f"{page.url} at {width}: {each}" for each in page.evaluate(OVERFLOW)]
    return found

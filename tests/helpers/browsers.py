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

# What sticks out of the window, and tables that are cut: text, and pixels too many.
OVERFLOW = """() => {
    const found = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) {
        for (const each of document.body.querySelectorAll("*")) {
            const excess = Math.round(each.getBoundingClientRect().right - root.clientWidth);
            if (excess > 0 && !each.closest("[hidden], dialog")) {
                found.push(`${each.tagName}.${each.className}: ${excess} pixels outside`);
            }
        }
        found.splice(3);
        found.unshift(`the page is ${root.scrollWidth} wide`);
    }
    for (const table of document.querySelectorAll("table")) {
        for (let box = table.parentElement; box && box !== document.body; box = box.parentElement) {
            const cut = Math.round(table.getBoundingClientRect().right - box.getBoundingClientRect().right);
            const style = getComputedStyle(box).overflowX;
            if (["auto", "scroll"].includes(style)) break;
            if (cut > 1 && ["hidden", "clip"].includes(style)) {
                found.push(`a table is cut by ${cut} pixels: ${table.innerText.slice(0, 40)}`);
                break;
            }
        }
    }
    return found;
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

"""The page: without a browser, that it asks for nothing elsewhere; in a browser, what it shows."""

from __future__ import annotations

import re

import pytest
from tests.helpers.browsers import NEEDS_BROWSER, browser_page, overflows
from tests.helpers.sparse_serving import MemoryRegistry, constant_model, whole_service

from bitlane.errors import BitlaneError

REASON = '<img src=x onerror="document.title=1"> better AUC'
ROWS = {"keys": ("UINT64", [1, 2, 3]), "offsets": ("INT64", [0, 2, 3])}


@pytest.fixture
def source() -> MemoryRegistry:
    found = MemoryRegistry(constant_model(1), constant_model(2))
    found.move_label("candidate", 1, REASON)
    return found


def test_the_page_is_one_file(source: MemoryRegistry) -> None:
    with whole_service(source) as (_, browser):
        status, text = browser.ask("/")
        assert status == 200 and text.startswith("<!doctype html>")
        assert browser.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in browser.headers["content-security-policy"]
        assert not re.search(r"""(src|href)=|https?://|innerHTML|import\b""", text)
        identifiers = set(re.findall(r'\bid="(\w+)"', text))
        assert set(re.findall(r'(?:at|table)\("(\w+)"', text)) <= identifiers


@pytest.mark.slow
@NEEDS_BROWSER
def test_what_a_browser_shows(source: MemoryRegistry) -> None:
    expect = pytest.importorskip("playwright.sync_api", reason="needs playwright").expect
    with whole_service(source) as (server, browser), browser_page() as (page, problems):
        for _ in range(3):
            browser.infer(**ROWS)
        browser.infer(keys=("UINT64", [1]))
        page.goto(f"http://{server.http_address}/")
        page.wait_for_selector("#versions tbody tr")
        assert page.title() == "ctr - bitlane service"
        assert page.inner_text("#state") == "Version 2 answers"
        assert page.inner_text("#traffic tbody tr:nth-child(2)").split() == ["HTTP", "3", "6"]
        assert page.locator("#latency tbody td").count() == 4
        assert page.inner_text("#errors tbody tr").split() == ["http", "request", "1"]
        assert "tensor 'offsets' is missing" in page.inner_text("#newest")
        assert page.inner_text("#versions tbody tr.now").split()[:2] == ["2", "production"]
        assert [each.split()[5] for each in page.locator("#versions tbody tr").all_inner_texts()] == [
            "0.7520",
            "0.7510",
        ]
        assert page.locator("#labels tbody tr").all_inner_texts() == ["candidate\t1", "production\t2"]
        assert REASON in page.inner_text("#moves")  # as text
        assert overflows(page) == []
        source.models[3] = BitlaneError("damaged")
        source.move_label("production", 3)
        expect(page.locator("#problem")).to_have_text("version 3 cannot be loaded: damaged", timeout=20_000)
        assert page.get_attribute("#state", "class") == "bad"
        server.close()
        expect(page.locator("#state")).to_have_text("The service does not answer", timeout=20_000)
        assert all("status" in each or "Failed to load" in each for each in problems), problems

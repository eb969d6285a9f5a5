"""Other people's files come from the cache or the network; a wrong or missing one is an error that says what to do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.file_server import FileServer

from bitlane.data.downloads import RemoteFile
from bitlane.errors import DataError
from bitlane_verify.foreign.sources import VERILOG_AXI, WB2AXIP, ForeignSources

pytest.importorskip("pooch")

FILES = {"a.v": "module a;\nendmodule\n", "b.v": "module b;\nendmodule\n"}
DIGESTS = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in FILES.items()}


@pytest.fixture
def server() -> Iterator[FileServer]:
    server = FileServer()
    yield server
    server.close()


@pytest.fixture
def sources(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ForeignSources:
    monkeypatch.setenv("BITLANE_CACHE", str(tmp_path))

    class Served(ForeignSources):
        def remote(self, name: str) -> RemoteFile:
            return replace(super().remote(name), url=f"{server.url}/{name}")

    return Served("owner/name", "0" * 40, "rtl", DIGESTS)


def test_files_are_downloaded_once(sources: ForeignSources, server: FileServer, tmp_path: Path) -> None:
    server.files = {name: text.encode() for name, text in FILES.items()}
    assert sources.text("b.v") == FILES["b.v"]
    assert sources.text() == f"{FILES['a.v']}\n{FILES['b.v']}"
    assert server.requests == ["b.v", "a.v"]
    assert sources.cache == tmp_path / "foreign" / sources.commit


def test_files_in_the_cache_need_no_network(sources: ForeignSources, server: FileServer) -> None:
    sources.cache.mkdir(parents=True)
    for name, text in FILES.items():
        (sources.cache / name).write_text(text)
    assert sources.text() == f"{FILES['a.v']}\n{FILES['b.v']}"
    assert server.requests == []


def test_a_missing_file_says_where_to_put_it(sources: ForeignSources) -> None:
    with pytest.raises(DataError) as caught:
        sources.text("a.v")
    assert str(caught.value).endswith(
        f"404 Not Found; put rtl/a.v of owner/name at commit {sources.commit} into {sources.cache}"
    )


def test_another_file_of_this_name_is_refused(sources: ForeignSources, server: FileServer) -> None:
    server.files = {"a.v": b"module a2;\nendmodule\n"}
    with pytest.raises(DataError, match=r"a\.v has SHA-256 .*, expected .*; put rtl/a\.v"):
        sources.text("a.v")


@pytest.mark.parametrize("sources", [WB2AXIP, VERILOG_AXI], ids=lambda sources: sources.repository)
def test_an_address_has_the_commit(sources: ForeignSources) -> None:
    name = next(iter(sources.digests))
    start = f"https://raw.githubusercontent.com/{sources.repository}/{sources.commit}/"
    assert sources.remote(name).url == f"{start}{sources.folder}/{name}"
    assert len(sources.commit) == 40 and all(len(digest) == 64 for digest in sources.digests.values())

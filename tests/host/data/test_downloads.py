"""Downloads over HTTP from a local server."""

from __future__ import annotations

import hashlib
import io
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.file_server import FileServer

from bitlane.data.downloads import RemoteFile, download
from bitlane.errors import BitlaneError, DataError

pytest.importorskip("pooch")

CONTENT = bytes(range(256)) * 2000


@pytest.fixture
def server() -> Iterator[FileServer]:
    server = FileServer()
    yield server
    server.close()


def served(server: FileServer, content: bytes = CONTENT, name: str = "f.bin") -> RemoteFile:
    server.files[name] = content
    return RemoteFile(f"{server.url}/{name}", hashlib.sha256(content).hexdigest())


def test_a_file_is_downloaded_once_and_then_read_without_network(server: FileServer, tmp_path: Path) -> None:
    file = served(server)
    path = download(file, tmp_path / "cache")
    assert path == tmp_path / "cache" / "f.bin" and path.read_bytes() == CONTENT
    server.files.clear()
    assert download(file, tmp_path / "cache") == path
    assert server.requests == ["f.bin"]
    assert [each.name for each in path.parent.iterdir()] == ["f.bin"]


def test_a_wrong_digest_is_an_error_with_both_digests_and_leaves_no_file(server: FileServer, tmp_path: Path) -> None:
    expected = served(server)
    server.files["f.bin"] = CONTENT + b"!"
    with pytest.raises(DataError) as caught:
        download(expected, tmp_path)
    found = hashlib.sha256(CONTENT + b"!").hexdigest()
    assert str(caught.value) == (
        f"{expected.url} has SHA-256 {found}, expected {expected.sha256}: the file is damaged or was replaced; "
        "try again, or set BITLANE_DATA to a folder with the data"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_in_the_cache_is_downloaded_again(server: FileServer, tmp_path: Path) -> None:
    file = served(server)
    download(file, tmp_path).write_bytes(CONTENT[:-1])
    assert download(file, tmp_path).read_bytes() == CONTENT
    assert server.requests == ["f.bin"] * 2


def test_an_interrupted_download_leaves_no_file(server: FileServer, tmp_path: Path) -> None:
    file = served(server)
    server.cut.add("f.bin")
    with pytest.raises(DataError, match=rf"^{file.url} cannot be downloaded: .*; try again, or set BITLANE_DATA"):
        download(file, tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.cut.clear()
    assert download(file, tmp_path).read_bytes() == CONTENT


def test_a_damaged_file_stays_until_its_replacement_is_complete(server: FileServer, tmp_path: Path) -> None:
    file = served(server)
    download(file, tmp_path).write_bytes(b"old")
    server.cut.add("f.bin")
    with pytest.raises(DataError, match="cannot be downloaded"):
        download(file, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["f.bin"]
    assert (tmp_path / "f.bin").read_bytes() == b"old"


def test_a_failed_download_is_a_one_line_error(server: FileServer, tmp_path: Path) -> None:
    missing = RemoteFile(f"{server.url}/none", "0" * 64)
    with pytest.raises(DataError, match="cannot be downloaded: the server answers 404 Not Found; try again"):
        download(missing, tmp_path)
    server.close()
    with pytest.raises(DataError, match=r"cannot be downloaded: .*Connection refused; try again") as caught:
        download(missing, tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_not_reported_as_a_download_error(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file, not a folder")
    with pytest.raises(BitlaneError, match=r"cannot be stored in .*: set BITLANE_CACHE to a folder"):
        download(served(server), tmp_path / "cache")
    assert server.requests == []


def test_parallel_downloads_of_one_file(server: FileServer, tmp_path: Path) -> None:
    file = served(server)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(download(file, tmp_path).read_bytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 4
    assert [each.name for each in tmp_path.iterdir()] == ["f.bin"]


class Terminal(io.StringIO):
    """A text file that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_only_a_terminal_shows_a_progress_bar(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    download(served(server), tmp_path)
    assert capfd.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    download(served(server, name="g.bin"), tmp_path)
    assert "100%" in terminal.getvalue()


def test_downloads_are_logged_and_cache_hits_are_not(
    server: FileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = served(server)
    with caplog.at_level(logging.INFO, logger="bitlane"):
        download(file, tmp_path)
        download(file, tmp_path)
    assert caplog.messages == [f"downloading {file.url} to {tmp_path}"]


def test_other_files_have_errors_of_their_own(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = RemoteFile(f"{server.url}/none", "0" * 64)
    with pytest.raises(DataError, match=r"404 Not Found; ask the author$"):
        download(missing, tmp_path, "checking", "ask the author")
    wrong = RemoteFile(served(server).url, "0" * 64)
    with pytest.raises(DataError, match=r"was replaced; ask the author$"):
        download(wrong, tmp_path, "checking", "ask the author")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(BitlaneError, match=r"^checking needs pooch: pip install 'bitlane\[datasets\]'"):
        download(missing, tmp_path, "checking", "ask the author")


def test_without_pooch_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(BitlaneError, match=r"downloading data sets needs pooch: pip install 'bitlane\[datasets\]'"):
        download(RemoteFile("http://127.0.0.1/f", "0" * 64), tmp_path)

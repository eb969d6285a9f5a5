"""Files in folders by URI: written once and wholly, held against their checksums; local and elsewhere."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

fs = pytest.importorskip("pyarrow.fs")

from bitlane.errors import BitlaneError, DataError  # noqa: E402
from bitlane.support.stores import FileTaken, Store  # noqa: E402

CONTENT = b"some" * 1000


@pytest.fixture(params=["path", "uri", "elsewhere"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "elsewhere":
        return Store("a/store", fs._MockFileSystem())
    return Store(tmp_path / "a/store" if request.param == "path" else f"file://{tmp_path}/a/store")


def test_a_file_is_written_once_and_read(store: Store, tmp_path: Path) -> None:
    file = store.write("one/two.bin", [CONTENT[:10], memoryview(CONTENT)[10:]], rows=7)
    assert (file.name, file.bytes, file.rows) == ("one/two.bin", len(CONTENT), 7)
    assert file.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert store.read("one/two.bin") == CONTENT == bytes(store.open(file))
    assert store.exists("one/two.bin") and not store.exists("one") and not store.exists("two")
    assert (store.names(), store.names("one"), store.names("absent")) == (["one"], ["two.bin"], [])
    with pytest.raises(FileTaken, match=r"two\.bin exists"):
        store.write("one/two.bin", [b"other"])
    assert store.read("one/two.bin") == CONTENT
    store.replace("one/two.bin", b"other")
    assert store.folder("one").read("two.bin") == b"other"
    store.remove("one/two.bin")
    store.remove("one/two.bin")
    store.remove_folder("one")
    store.remove_folder("one")
    with pytest.raises(DataError, match=r"two.bin is missing$"):
        store.read("one/two.bin")


def test_an_empty_file(store: Store) -> None:
    assert bytes(store.open(store.write("none", []))) == b""


def test_each_flipped_bit_and_each_lost_byte_is_found(store: Store) -> None:
    file = store.write("a", [CONTENT[:8]])
    for bit in range(64):
        data = bytearray(CONTENT[:8])
        data[bit // 8] ^= 1 << bit % 8
        store.replace("a", bytes(data))
        with pytest.raises(DataError, match=r"store/a is damaged: its SHA-256 is [0-9a-f]{64}, not " + file.sha256):
            store.open(file)
    store.replace("a", CONTENT[:7])
    with pytest.raises(DataError, match="damaged: it has 7 bytes, not 8"):
        store.open(file)
    store.remove("a")
    with pytest.raises(DataError, match="is missing"):
        store.open(file)


def test_a_cache_has_copies_and_mends_damaged_ones(tmp_path: Path) -> None:
    store = Store("a/store", fs._MockFileSystem())
    file = store.write("a", [CONTENT])
    cache = tmp_path / "cache"
    assert bytes(store.open(file, cache)) == CONTENT
    (copy,) = cache.iterdir()
    store.remove("a")
    assert bytes(store.open(file, cache)) == CONTENT  # by the copy
    copy.write_bytes(b"x" * len(CONTENT))
    store.write("a", [CONTENT])
    assert bytes(store.open(file, cache)) == CONTENT
    assert copy.read_bytes() == CONTENT


def test_of_several_writers_one_wins(tmp_path: Path) -> None:
    store, won = Store(tmp_path), []
    gate = threading.Barrier(8)

    def write(me: int) -> None:
        gate.wait()
        try:
            store.write("label", [bytes([me]) * 100])
            won.append(me)
        except FileTaken:
            pass

    run_all([lambda me=me: write(me) for me in range(8)])
    assert len(won) == 1 and store.read("label") == bytes(won) * 100
    assert [path.name for path in tmp_path.iterdir()] == ["label"]


def test_a_local_lock_lets_one_in(tmp_path: Path) -> None:
    inside, most = [0], [0]

    def enter() -> None:
        for _ in range(20):
            with Store(tmp_path).locked():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                threading.Event().wait(0.0005)
                inside[0] -= 1

    run_all([enter] * 4)
    assert most == [1]


def test_errors_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BitlaneError, match=r"file/x cannot be written: [^\n]*$"):
        Store(tmp_path / "file").write("x", [b""])
    with pytest.raises(DataError, match="nothing://x: cannot be reached"):
        Store("nothing://x")


def run_all(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

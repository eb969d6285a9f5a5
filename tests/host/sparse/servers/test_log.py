"""The write-ahead log against lists of payloads: torn, damaged, and on a full disk."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import log as log_module
from bitlane.sparse.servers.log import WriteAheadLog
from bitlane.sparse.servers.segment import RECORD_HEADER, SEGMENT_HEADER, AppendFile

FIRST = "000000000001.log"


def payloads_of(seed: int, count: int) -> list[bytes]:
    draw = random.Random(seed)
    return [draw.randbytes(draw.randrange(0, 40)) for _ in range(count)]


def written(folder: Path, payloads: list[bytes]) -> Path:
    """A log with these records; its only segment."""
    folder.mkdir()
    log = WriteAheadLog.create(folder)
    for payload in payloads:
        log.append([[payload[:3], payload[3:]]])
    log.close()
    return folder / FIRST


def read(folder: Path, first: int = 1, **options) -> list[bytes]:
    found: list[bytes] = []
    WriteAheadLog.open(folder, first, lambda record: found.append(bytes(record)), **options).close()
    return found


def offsets_of(payloads: list[bytes]) -> list[int]:
    """Where each record begins, and where the last one ends."""
    found = [SEGMENT_HEADER]
    for payload in payloads:
        found.append(found[-1] + RECORD_HEADER + len(payload))
    return found


class LimitedDisk:
    """Files that take `room` bytes more, then raise ENOSPC."""

    def __init__(self, room: float, truncates: bool = True):
        self.room, self.truncates = room, truncates

    def __call__(self, path: Path) -> AppendFile:
        disk = self

        class File(AppendFile):
            def write(self, buffers):
                fits = b"".join(buffers)[: int(min(disk.room, 1 << 30))]
                if not fits:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                disk.room -= len(fits)
                return super().write([memoryview(fits)])

            def truncate(self, size):
                if not disk.truncates:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                super().truncate(size)

        return File(path)


def test_records_are_read_back_in_order_and_go_on(seed: int, tmp_path: Path) -> None:
    payloads = payloads_of(seed, 30)
    path = written(tmp_path / "log", payloads[:20])
    assert path.stat().st_size == offsets_of(payloads[:20])[-1]
    found: list[bytes] = []
    log = WriteAheadLog.open(tmp_path / "log", 1, lambda record: found.append(bytes(record)))
    log.append([[payload] for payload in payloads[20:]])
    log.sync()
    assert log.nbytes == path.stat().st_size and log.dropped == 0
    log.close()
    assert found == payloads[:20] and read(tmp_path / "log") == payloads


def test_a_tail_torn_at_any_byte_is_cut_off_and_the_log_goes_on(seed: int, tmp_path: Path) -> None:
    payloads = [*payloads_of(seed, 4), b"the last record"]
    path = written(tmp_path / "log", payloads)
    content, begin = path.read_bytes(), offsets_of(payloads)[-2]
    for size in range(begin, len(content)):
        path.write_bytes(content[:size])
        log = WriteAheadLog.open(tmp_path / "log", 1, lambda record: None)
        assert log.dropped == size - begin and path.stat().st_size == begin
        log.append([[b"after"]])
        log.close()
        assert read(tmp_path / "log") == [*payloads[:-1], b"after"]


def test_a_damaged_last_record_is_cut_off(seed: int, tmp_path: Path) -> None:
    payloads = [*payloads_of(seed, 4), b"the last record"]
    path = written(tmp_path / "log", payloads)
    content = path.read_bytes()
    for at in range(offsets_of(payloads)[-2], len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 64]) + content[at + 1 :])
        assert read(tmp_path / "log") == payloads[:-1]


def test_damage_before_the_end_is_an_error_with_file_and_byte(seed: int, tmp_path: Path) -> None:
    payloads = [payload + b"x" for payload in payloads_of(seed, 5)]
    path = written(tmp_path / "log", payloads)
    content, offsets = path.read_bytes(), offsets_of(payloads)
    for number in range(4):
        for at in range(offsets[number], offsets[number + 1]):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(DataError, match=rf"{FIRST} is damaged at byte {offsets[number]}, "):
                read(tmp_path / "log")
            assert path.stat().st_size == len(content)  # nothing is cut off


def test_segments_follow_each_other_and_are_deleted(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "SEGMENT_BYTES", 200)
    payloads = payloads_of(seed, 40)
    written(tmp_path / "log", payloads)
    paths = sorted((tmp_path / "log").iterdir())
    assert len(paths) > 3 and read(tmp_path / "log") == payloads
    log = WriteAheadLog.open(tmp_path / "log", 1, lambda record: None)
    covered = log.rotate()
    log.append([[b"new"]])
    assert log.nbytes == sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
    log.delete_before(covered)
    assert log.nbytes == sum(path.stat().st_size for path in (tmp_path / "log").iterdir())
    log.close()
    assert len(list((tmp_path / "log").iterdir())) == 1 and read(tmp_path / "log", covered) == [b"new"]


def test_segments_that_a_checkpoint_covers_are_deleted_by_open(tmp_path: Path) -> None:
    written(tmp_path / "log", [b"old"])
    log = WriteAheadLog.open(tmp_path / "log", 1, lambda record: None)
    assert log.rotate() == 2
    log.append([[b"new"]])
    log.close()
    assert read(tmp_path / "log", 2) == [b"new"] and not (tmp_path / "log" / FIRST).exists()


@pytest.mark.parametrize("harm", ["torn", "damaged", "header", "missing", "first missing"])
def test_harm_in_an_older_segment_is_an_error(tmp_path: Path, harm: str) -> None:
    path = written(tmp_path / "log", [b"one", b"two"])
    log = WriteAheadLog.open(tmp_path / "log", 1, lambda record: None)
    for payload in (b"three", b"four"):
        log.rotate()
        log.append([[payload]])
    log.close()
    content = path.read_bytes()
    if harm == "torn":
        path.write_bytes(content[:-1])
    elif harm == "damaged":
        path.write_bytes(content[:-1] + b"O")
    elif harm == "header":
        path.write_bytes(b"?" + content[1:])
    else:
        (path if harm == "first missing" else path.with_name("000000000002.log")).unlink()
    message = r"must continue from 1" if "missing" in harm else rf"{FIRST} is damaged at byte"
    with pytest.raises(DataError, match=message):
        read(tmp_path / "log")


def test_a_kill_while_a_segment_begins_loses_nothing(tmp_path: Path) -> None:
    written(tmp_path / "log", [b"one", b"two"])
    log = WriteAheadLog.open(tmp_path / "log", 1, lambda record: None)
    log.rotate()
    log.close()
    newest = tmp_path / "log" / "000000000002.log"
    header = newest.read_bytes()
    for size in range(SEGMENT_HEADER):
        newest.write_bytes(header[:size])
        assert read(tmp_path / "log") == [b"one", b"two"]
        assert newest.read_bytes() == header


@pytest.mark.parametrize("truncates", [True, False])
def test_a_full_disk_at_any_byte_leaves_no_half_record(tmp_path: Path, truncates: bool) -> None:
    """With `truncates` False the system cannot even cut off what was written; before the next append it can."""
    group = [[b"first", b"!"], [b"second"]]
    size = sum(RECORD_HEADER + sum(map(len, payload)) for payload in group)
    for room in range(size):
        folder = tmp_path / f"log{room}"
        written(folder, [b"before"])
        disk = LimitedDisk(room, truncates)
        log = WriteAheadLog.open(folder, 1, lambda record: None, disk)
        with pytest.raises(BitlaneError, match=rf"{FIRST} cannot be written: No space left on device"):
            log.append(group)
        copy = tmp_path / f"copy{room}"
        copy.mkdir()
        (copy / FIRST).write_bytes((folder / FIRST).read_bytes())  # what a kill now would leave
        kept = read(copy)
        assert kept[0] == b"before" and kept in ([b"before"], [b"before", b"first!"][: 1 + (not truncates)])
        disk.room, disk.truncates = float("inf"), True
        log.append([[b"after"]])
        log.close()
        assert read(folder) == [b"before", b"after"]


def test_a_full_disk_stops_a_new_segment_and_the_old_one_goes_on(tmp_path: Path) -> None:
    written(tmp_path / "log", [b"before"])
    disk = LimitedDisk(SEGMENT_HEADER - 1)
    log = WriteAheadLog.open(tmp_path / "log", 1, lambda record: None, disk)
    with pytest.raises(BitlaneError, match="No space left"):
        log.rotate()
    disk.room = float("inf")
    log.append([[b"after"]])
    assert log.segment == 1 and log.rotate() == 2
    log.close()
    assert read(tmp_path / "log") == [b"before", b"after"]

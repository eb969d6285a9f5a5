"""Held-out rows against learned ones: random files, orders and fractions against sets of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.files import find_files
from bitlane.sparse.batches.identity import FileIdentity, identify
from bitlane.sparse.batches.left_out import is_held_out
from bitlane.sparse.registry.learned import HeldOutRows, LearnedRows, NewRowsCheck

Rows = set[tuple[str, int]]
FRACTIONS = (None, 0.1, 0.3)


def rows_of(files: list[FileIdentity], rows: dict[str, int], fraction: float | None, held_out: bool) -> Rows:
    """Rows as the digest of their file and their number in it, by a loop over the rows of all files."""
    places = [(file.digest, number) for file in files for number in range(rows[file.digest])]
    if fraction is None:
        return set(places)
    mine = is_held_out(np.arange(len(places)), fraction) == held_out
    return {place for place, chosen in zip(places, mine, strict=True) if chosen}


def told(settings: dict[str, object] | None, rows: HeldOutRows, what: str) -> str:
    return NewRowsCheck(settings, rows, what).text


def test_no_learned_row_passes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    passed = 0
    for _ in range(400):
        files = [FileIdentity(f"{name}.csv", 10, name * 8) for name in "abcde"]
        rows = {file.digest: int(rng.integers(30, 60)) for file in files}
        trained = [files[at] for at in rng.permutation(5)[: rng.integers(1, 4)]]
        given = trained[:] if rng.random() < 0.4 else [files[at] for at in rng.permutation(5)[: rng.integers(1, 4)]]
        if rng.random() < 0.3:  # the same bytes under other names
            given = [FileIdentity(f"copy of {file.name}", file.bytes, file.digest) for file in given]
        one, other = (FRACTIONS[at] for at in rng.integers(0, 3, 2))
        learned = rows_of(trained, rows, one, held_out=False)
        measured = rows_of(given, rows, other, held_out=True)
        problem = LearnedRows(tuple(trained), one).overlap(HeldOutRows(tuple(given), other))
        if problem is None:
            passed += 1
            assert not learned & measured
        else:
            assert {file.digest for file in trained} & {file.digest for file in given}
        if trained == given and one == other is not None:
            assert problem is None
    assert 40 < passed < 360


def test_messages_name_the_file_and_the_remedy() -> None:
    a, b = FileIdentity("/data/a.csv", 10, "aa"), FileIdentity("/data/b.csv", 10, "bb")
    changed = FileIdentity("/data/a.csv", 12, "cc")
    record = {"files": [a.as_json(), b.as_json()], "test_fraction": 0.1, "follow": False, "paths": ["/data"]}
    for rows, message in (
        (HeldOutRows((a, b)), "all rows of /data/a.csv were learned but for those of --test-fraction 0.1"),
        (HeldOutRows((b, a), 0.1), "/data/b.csv was learned among other files: give all of them in the same order"),
        (HeldOutRows((changed,), 0.1), "/data/a.csv has changed since the training read it"),
    ):
        with pytest.raises(DataError, match=f"^version 3 has learned held-out rows: {message}.*add --allow-learned$"):
            told(record, rows, "version 3")
    with pytest.raises(DataError, match=r"all rows of /data/a.csv were learned; give other rows"):
        told({**record, "test_fraction": None}, HeldOutRows((a,)), "version 3")
    allowed = told(record, HeldOutRows((a,), allowed=True), "version 3")
    assert allowed.startswith("allowed by --allow-learned: all rows of /data/a.csv were learned but")
    assert told(record, HeldOutRows((a, b), 0.1), "m") == told(record, HeldOutRows(), "m")
    for record_ in (None, {}, {"schema": None}):
        assert told(record_, HeldOutRows((a,)), "version 3").startswith("unknown: version 3 has no record")
    followed = {"files": [], "follow": True, "paths": ["/stream"]}
    segment = FileIdentity("/stream/7.arrow", 10, "dd")
    with pytest.raises(DataError, match=r"/stream/7.arrow is a segment of /stream, which the training followed"):
        told(followed, HeldOutRows((segment,)), "version 3")
    text = told(followed, HeldOutRows((a,)), "m")
    assert text == "m has learned none of them, by the record of its files"
    with pytest.raises(DataError, match="the record of the files that a training has read is damaged"):
        told({"files": [{"colour": 1}]}, HeldOutRows(), "m")


def test_a_file_is_its_bytes(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for size in (5, 1 << 16, (1 << 20) - 1, 3_000_001):
        data = rng.bytes(size)
        for name in ("a.csv", "b.csv", "c.csv"):
            (tmp_path / name).write_bytes(data if name != "c.csv" else data + b"\n")
        changed = bytearray(data)
        changed[int(rng.choice([0, size - 1]))] ^= 1
        (tmp_path / "d.csv").write_bytes(changed)
        found = {
            path.name: identify(file)
            for path, file in zip(sorted(tmp_path.iterdir()), find_files(tmp_path), strict=True)
        }
        digests = {name: each.digest for name, each in found.items()}
        assert digests["a.csv"] == digests["b.csv"]
        assert len(set(digests.values())) == 3
        assert found["a.csv"].bytes == size and found["a.csv"].name.endswith("a.csv")

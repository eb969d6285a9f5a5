"""Text that xz has packed: the rows of the plain file, and damage in one line."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.source import open_source

pytest.importorskip("pyarrow")

TEXTS = {
    "csv": "label,item\n" + "1,a\n0,b\n" * 20_000,
    "tsv": "label\titem\n" + "1\ta\n0\tb\n" * 20_000,
    "jsonl": '{"label": 1, "item": "a"}\n{"label": 0, "item": "b"}\n' * 20_000,
    "libsvm": "1 3:1\n0 4:0.5\n" * 20_000,
    "ffm": "1 0:3:1\n0 1:4:0.5\n" * 20_000,
}


def rows_of(path: Path) -> list[tuple[float, int]]:
    batches = open_source(path, block_bytes=50_000).batches(0)
    return [pair for batch in batches for pair in zip(batch.labels.tolist(), batch.keys.tolist(), strict=True)]


@pytest.mark.parametrize("suffix", TEXTS)
def test_packed_text_has_the_same_rows(suffix: str, tmp_path: Path) -> None:
    plain, packed = tmp_path / f"a.{suffix}", tmp_path / f"a.{suffix}.xz"
    plain.write_text(TEXTS[suffix])
    packed.write_bytes(lzma.compress(TEXTS[suffix].encode()))
    assert rows_of(packed) == rows_of(plain)
    packed.write_bytes(b"".join(lzma.compress(part.encode()) for part in (TEXTS[suffix], TEXTS["libsvm"][:0])))
    assert len(rows_of(packed)) == 40_000


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("damage", ["cut", "changed", "other"])
def test_damage_is_one_line(suffix: str, damage: str, tmp_path: Path) -> None:
    packed = lzma.compress(TEXTS[suffix].encode())
    middle = len(packed) // 2
    content = {
        "cut": packed[:middle],
        "changed": packed[:middle] + b"\xff" * 8 + packed[middle + 8 :],
        "other": b"x" * 9,
    }
    path = tmp_path / f"a.{suffix}.xz"
    path.write_bytes(content[damage])
    with pytest.raises(DataError) as error:
        rows_of(path)
    message = str(error.value)
    assert message.startswith(f"{path}: cannot be read; it may be damaged or incomplete: ") and "\n" not in message

"""Text of any encoding and with comments: as if it were UTF-8 without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from tests.helpers.sparse_text import rows_of  # noqa: E402

from bitlane.errors import DataError  # noqa: E402
from bitlane.sparse.batches.decoding import decoded  # noqa: E402
from bitlane.sparse.batches.source import open_source  # noqa: E402


@pytest.mark.parametrize("drop", [True, False])
def test_comments_are_left_out_or_empty(drop: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        mark = str(rng.choice(["#", "//", "%", ".", "ä"]))
        words = [mark, mark[0], "a", " ", f"a{mark}", "é" * 30_000 if rng.random() < 0.1 else "é", "\r"]
        lines = ["".join(rng.choice(words, rng.integers(0, 5))) for _ in range(rng.integers(0, 20))]
        text = "\n".join(lines) + ("\n" if rng.random() < 0.5 else "")
        encoding = str(rng.choice(["utf-8", "latin1", "utf-16"]))
        stream = decoded(pa.BufferReader(text.encode(encoding)), encoding, mark, drop)
        found, step = b"", int(rng.integers(1, 100_000))
        while block := stream.read(step):
            found += block
        kept = [line + "\n" for line in lines[:-1]] + [text[sum(len(line) + 1 for line in lines[:-1]) :]]
        empty = ["" if drop or not line.endswith("\n") else "\n" for line in kept]
        wanted = "".join(no if line.startswith(mark) else line for line, no in zip(kept, empty, strict=True))
        assert found.decode() == wanted, (text, mark)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "vw", "libsvm"])
def test_every_text_may_have_an_encoding_and_comments(suffix: str, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    between = "\t" if suffix == "tsv" else ","
    head = {"csv": ["label,käse"], "tsv": ["label\tkäse"]}.get(suffix, [])
    form = {"jsonl": '{{"label": {0}, "käse": "ü{1}"}}', "vw": "{0} |käse ü{1}", "libsvm": "{0} {1}:1"}
    lines = [form.get(suffix, f"{{0}}{between}ü{{1}}").format(*pair) for pair in rng.integers(0, 2, (40, 2)).tolist()]
    (tmp_path / f"plain.{suffix}").write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    mixed = [*head, *lines]
    for _ in range(5):
        mixed.insert(int(rng.integers(0, len(mixed) + 1)), f'%% "{between} é')
    encoding = str(rng.choice(["latin1", "cp1252", "utf-16"]))
    (tmp_path / f"mixed.{suffix}").write_text("\n".join(mixed) + "\n", encoding=encoding)
    plain, other = (
        [row for batch in source.batches(0) for row in rows_of(batch)]
        for source in (
            open_source(tmp_path / f"plain.{suffix}", block_bytes=50),
            open_source(tmp_path / f"mixed.{suffix}", encoding=encoding, comment="%%", block_bytes=50),
        )
    )
    assert plain == other and len(plain) == 40


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.vw").write_text("# one\n1 |a b\n# two\n1 |a b:x\n")
    with pytest.raises(DataError, match=r"a.vw, line 4: feature 'b' has the value 'x'"):
        list(open_source(tmp_path / "a.vw", comment="#").batches(0))


def test_a_cell_that_an_encoding_has_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"label,c\n1,a\n" * 1 + b"1,\x81\n")
    with pytest.raises(DataError, match=r"a.csv is not (cp1252|charmap) text: say its encoding, such as --encoding"):
        list(open_source(tmp_path / "a.csv", encoding="cp1252").batches(0))

"""Vowpal Wabbit's text, against a plain parser and the same rows as CSV."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("pyarrow")
xxhash = pytest.importorskip("xxhash")

from tests.helpers.sparse_text import Row, rows_of  # noqa: E402

from bitlane.errors import DataError  # noqa: E402
from bitlane.sparse.batches.checks import RowLocation  # noqa: E402
from bitlane.sparse.batches.schema import Schema  # noqa: E402
from bitlane.sparse.batches.source import open_source  # noqa: E402
from bitlane.sparse.batches.vw import count_vw_rows, namespaces_of, parse_vw  # noqa: E402

LOCATION = RowLocation("a.vw", 1, "line")
NAMES = ["user", "item", "ä", "price_eur", "7", "a=b", "x#", "'q", "-1.5"]


def random_lines(rng: np.random.Generator, rows: int) -> tuple[str, list[str]]:
    """Return lines of text, and the namespaces in them."""
    spaces = [str(each) for each in rng.permutation(NAMES)[: rng.integers(0, 5)]]
    lines = []
    for _ in range(rows):
        if rng.random() < 0.1:
            lines.append(str(rng.choice(["", "  ", "\t"])))
            continue
        blank = str(rng.choice([" ", "  ", "\t"]))
        words = [str(rng.choice(["1", "-1", "0", "1.0", "+1", "-1e0"]))]
        words += [str(rng.choice(["1", "1.0", "2.5", "0", "1e3"]))] if rng.random() < 0.3 else []
        words += [str(rng.choice(["0", "0.0"]))] if len(words) == 2 and rng.random() < 0.3 else []
        tag = str(rng.choice(["", " ", " 'tag ", " 'tag", " tag", " 'ta'g"]))
        text = blank.join(words) + (tag or " ")
        for _ in range(rng.integers(1, 4)):
            space = str(rng.choice([*spaces, ""]))
            text += f"|{space}" + (f":{rng.choice(['2', '0.5', '-1e1'])}" if space and rng.random() < 0.2 else "")
            for _ in range(rng.integers(0, 4)):
                text += f"{blank}{rng.choice([*NAMES, '0', 'u7'])}"
                text += f":{rng.choice(['1', '0.25', '-3', '1e-3', '0'])}" if rng.random() < 0.4 else ""
            text += blank if rng.random() < 0.5 else ""
        lines.append(text + ("\r" if rng.random() < 0.1 else ""))
    return "\n".join(lines) + ("\n" if rng.random() < 0.7 else ""), spaces


def words_of(head: str) -> list[str]:
    """Label, importance weight and initial prediction before the first bar, as far as they are there."""
    words = head.split()
    return words[:-1] if words and (words[-1].startswith("'") or not head.endswith(" ")) else words


def plain_rows(text: str, namespaces: list[str]) -> list[Row]:
    """Parse lines as the description of the format says."""
    rows: list[Row] = []
    for line in text.replace("\r", " ").replace("\t", " ").split("\n"):
        if not line.strip():
            continue
        head, *sections = line.split("|")
        words = words_of(head)
        features = []
        for section in sections:
            name, _, rest = section.partition(" ")
            name, _, scale = name.partition(":")
            field = namespaces.index(name) if name in namespaces else len(namespaces)
            for word in rest.split():
                feature, _, number = word.partition(":")
                key = xxhash.xxh64_intdigest((f"{name}={feature}" if name else feature).encode())
                features.append((field, key, float(np.float32(float(number or 1) * float(scale or 1)))))
        rows.append((max(float(words[0]), 0.0), features))
    return rows


def test_lines_are_those_of_a_plain_parser(seed: int) -> None:
    for number in range(60):
        rng = np.random.default_rng((seed, number))
        text, spaces = random_lines(rng, int(rng.integers(1, 20)))
        known = sorted(str(each) for each in rng.permutation([*spaces, ""])[: rng.integers(0, 5)])
        wanted = plain_rows(text, known)
        batch = parse_vw(text.encode(), known, location=LOCATION)
        assert rows_of(batch) == wanted, (seed, number, text)
        heads = [line.split("|")[0] for line in text.replace("\r", " ").replace("\t", " ").split("\n") if line.strip()]
        weights = [float((*words_of(head)[1:2], "1")[0]) for head in heads]
        assert batch.weights is not None and batch.weights.tolist() == weights
        assert count_vw_rows(text.encode()) == len(wanted)
        found = namespaces_of(text.encode(), LOCATION)
        assert set(found) <= {*spaces, ""} and [*found] == sorted(found)


@pytest.mark.parametrize("block_bytes", [1, 40, 1 << 20])
def test_a_file_has_the_same_rows_in_any_blocks(tmp_path: Path, seed: int, block_bytes: int) -> None:
    text, _ = random_lines(np.random.default_rng(seed), 200)
    (tmp_path / "a.vw").write_text(text, newline="")
    source = open_source(tmp_path / "a.vw", block_bytes=block_bytes, namespaces=("item", "user"))
    wanted = plain_rows(text, ["item", "user"])
    assert [row for batch in source.batches(0) for row in rows_of(batch)] == wanted
    assert [row for batch in source.batches(0, 50) for row in rows_of(batch)] == wanted[50:]


def test_the_rows_of_a_csv_file_have_the_same_features(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [
        (int(y), f"u{rng.integers(9)}", int(rng.integers(9)), float(rng.integers(99)) / 8)
        for y in rng.integers(0, 2, 50)
    ]
    csv = "".join(f"{y},{user},{item},{price}\n" for y, user, item, price in cells)
    (tmp_path / "a.csv").write_text("label,user,item,price\n" + csv)
    lines = [f"{y or -1} |item {item} |user {user} | price:{price}\n" for y, user, item, price in cells]
    (tmp_path / "a.vw").write_text("".join(lines))
    source = open_source(tmp_path / "a.vw")
    assert source.schema is None and source.options.namespaces == ("", "item", "user")
    found = [row for batch in source.batches(0) for row in rows_of(batch)]
    schema = Schema(categorical=("item", "user"), numeric=("price",))
    wanted = [row for batch in open_source(tmp_path / "a.csv", schema=schema).batches(0) for row in rows_of(batch)]
    field = {0: 1, 1: 2, 2: 0}
    assert found == [(y, [(field[place], key, value) for place, key, value in row]) for y, row in wanted]


def test_labels_of_other_tasks() -> None:
    text = b"3.5 |a b\n-1 |a b\n"
    assert parse_vw(text, (), task="regression", location=LOCATION).labels.tolist() == [3.5, -1.0]
    assert parse_vw(text, (), positive="3.5", location=LOCATION).labels.tolist() == [1.0, 0.0]
    found = parse_vw(b"|a b\n'tag |a b\ntag| b\n1 |a\n", (), labelled=False, location=LOCATION).labels
    assert np.isnan(found[:3]).all() and found[3] == 1.0


@pytest.mark.parametrize(
    ("line", "settings", "message"),
    [
        ("1 a b", {}, "there is no bar, |, before the features"),
        ("1|a b", {}, "there is no label; a word that touches the first bar is a tag: write a blank before it"),
        ("|a b", {}, "there is no label"),
        ("1 1 0 5 |a b", {}, "there are more words before the bar than label, importance weight, initial prediction"),
        ("1 -2.5 |a b", {}, "the importance weight is -2.5: a weight is finite and at least 0"),
        ("1 1e60 |a b", {}, "the importance weight is 1e+60: a weight is finite and at least 0"),
        ("1 x |a b", {}, "the importance weight is 'x', which is no number"),
        ("1 1 0.5 |a b", {}, "the initial prediction is '0.5'; only 0 is read: omit it"),
        ("1 |a :3", {}, "a feature has no name before its colon"),
        ("1 |a b:x", {}, "feature 'b' has the value 'x', which is no finite number"),
        ("1 |a c b:1:2", {}, "feature 'b' has the value '1:2', which is no finite number"),
        ("1 |a b:", {}, "feature 'b' has the value '', which is no finite number"),
        ("1 |a b:nan", {}, "feature 'b' has the value 'nan', which is no finite number"),
        ("1 |a b:1e39", {}, "feature 'b' has a value beyond float32"),
        ("1 |a:x b", {}, "namespace 'a' has the scale 'x', which is no finite number"),
        ("2 |a b", {}, "label 2 is neither 0 nor 1"),
        ("yes |a b", {}, "label 'yes' is no finite number"),
        ("1e39 |a b", {"task": "regression"}, "label '1e39' is beyond float32"),
    ],
)
def test_an_error_names_the_line(line: str, settings: dict[str, Any], message: str) -> None:
    for before in ("", "1 |a b\n\n0 |a:2 c:3\n"):
        with pytest.raises(DataError) as error:
            parse_vw(f"{before}{line}\n1 |a b\n".encode(), ("a",), location=LOCATION, **settings)
        number = 4 if before else 1
        assert str(error.value).startswith(f"a.vw, line {number}: {message}") and "\n" not in str(error.value)


def test_text_that_is_no_utf8() -> None:
    with pytest.raises(DataError, match=r"^a.vw is not UTF-8 text \(byte 4\): say what it is, such as --encoding"):
        parse_vw(b"1 |a\xe4 b\n", (), location=LOCATION)


def test_namespaces_that_share_a_field_are_told() -> None:
    text = b"1 |a x |c y |b z\n"
    with pytest.warns(UserWarning, match=r"^a.vw: namespace 'b' is not in the first block of the training: it"):
        assert parse_vw(text, ("a",), uses_fields=True, location=LOCATION).fields.tolist() == [0, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_vw(text, ("a",), location=LOCATION)
        parse_vw(text, ("a", "b", "c"), uses_fields=True, location=LOCATION)

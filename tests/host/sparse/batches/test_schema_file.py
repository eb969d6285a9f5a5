"""Schemas as TOML: what is written is read, and what people mistype is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.cell_texts import TYPES
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.batches.schema_file import schema_from_toml, schema_to_toml

LETTERS = [*"abcxyz", " ", '"', "\\", ".", "#", "=", "é", "\t", "\u2028", "[", "]"]


def test_what_is_written_is_read(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        names = list(dict.fromkeys("".join(rng.choice(LETTERS, rng.integers(1, 8))) for _ in range(8)))
        names = [name.replace("=", ":") for name in names]
        names = list(dict.fromkeys(names))
        label, time, *rest = names
        cut = int(rng.integers(0, len(rest) + 1))
        categorical, numeric, several = tuple(rest[:cut]), tuple(rest[cut : cut + 3]), tuple(rest[cut + 3 :])
        crosses = ((categorical[0], "only crossed"),) if categorical and rng.random() < 0.5 else ()
        hashed = (*categorical, *(["only crossed"] if crosses else []))
        schema = Schema(
            label,
            categorical,
            numeric,
            crosses,
            time if rng.random() < 0.5 else None,
            types=tuple((name, str(rng.choice(TYPES))) for name in (*hashed, *several)),
            several=tuple((name, str(rng.choice(["mean", "sum"]))) for name in several),
            several_separator=str(rng.choice(["|", ";", '"', "\\"])) if several else "|",
            scales=tuple((name, float(rng.normal()), float(rng.exponential()) + 1e-9) for name in numeric[:2]),
        )
        (tmp_path / "s.toml").write_text(schema_to_toml(schema), encoding="utf-8")
        assert schema_from_toml(tmp_path / "s.toml") == schema


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label = ", "s.toml is no TOML: "),
        ("lable = 'y'", "s.toml: unknown entry 'lable'; did you mean label"),
        ("categorical = ['a']", r"s.toml: \[categorical\] must be a table of columns; got \['a'\]"),
        (
            "[categorical]\na = 'colour'",
            "s.toml: column 'a' has the type 'colour'; text, number, boolean, time are known",
        ),
        ("[numeric]\na = 3", r"s.toml: numeric column 'a' must be {} or { centre = X, scale = X }"),
        ("[numeric]\na = { centre = 1 }", "s.toml: numeric column 'a' must be {}"),
        ("[numeric]\na = { centre = 1, scale = 0 }", "s.toml: scales: 'a' must be a numeric column, with a finite"),
        ("[numeric]\na = { centre = 'x', scale = 1 }", "s.toml: could not convert string to float"),
        ("[several]\na = 'mean'", r"column 'a' of several values must be \[type, pooling\]"),
        ("[several]\na = ['text', 'most']", "s.toml: column 'a' of several values has the pooling 'most'"),
        ("crosses = ['a']", "s.toml: crosses must be lists of columns"),
        ("[crossed]\na = 'text'", "s.toml: column 'a' is in no cross"),
        ("label = 'a'\n[categorical]\na = 'text'", "s.toml: column 'a' is used twice in the schema"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(DataError, match=message):
        schema_from_toml(tmp_path / "s.toml")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone.toml cannot be read"):
        schema_from_toml(tmp_path / "gone.toml")
    (tmp_path / "s.toml").write_bytes(b"label = '\xff'")
    with pytest.raises(DataError, match=r"s.toml cannot be read: .*utf-8"):
        schema_from_toml(tmp_path / "s.toml")

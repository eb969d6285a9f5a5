"""Schemas as TOML: what is written is read, and what people mistype is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.cell_texts import TYPES
from bitlane.sparse.batches.declaration import DeclaredSchema
from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.batches.schema_file import read_declaration, schema_to_toml
from bitlane.sparse.batches.transforms import LOG_EDGES

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
            decimal=str(rng.choice([".", ","])),
        )
        schema = with_transforms(rng, schema)
        reader = {"header": False, "names": names, "separator": "\t", "encoding": "latin1", "comment": "#"}
        reader = {name: reader[name] for name in rng.permutation([*reader])[: rng.integers(0, 6)].tolist()}
        hints = {name: "a hint" for name in rest if rng.random() < 0.2}
        (tmp_path / "s.toml").write_text(schema_to_toml(schema, reader, hints), encoding="utf-8")
        declaration = read_declaration(tmp_path / "s.toml")
        assert declaration.fit_of() == DeclaredSchema(schema, (), {}) and declaration.reader == reader


def with_transforms(rng: np.random.Generator, schema: Schema) -> Schema:
    """The schema with random transforms, in the order in which a file has them."""
    transforms: list[Any] = []
    for name in schema.numeric:
        transforms += [(name, "clip", (-1.5, 1e300))] if rng.random() < 0.5 else []
        transforms += [(name, "log1p", ())] if rng.random() < 0.5 else []
    bucketed = [name for name in ("amount", "count") if rng.random() < 0.5]
    for name in bucketed:
        edges = np.unique(rng.normal(0, 10.0 ** rng.integers(-30, 30), rng.integers(0, 4)).astype(np.float32))
        transforms.append((name, "buckets", LOG_EDGES if rng.random() < 0.3 else tuple(edges.tolist())))
    for name in ("when", schema.time):
        for part in rng.permutation(["hour", "weekday"])[: rng.integers(0, 3)].tolist():
            transforms += [(name, part, (str(rng.choice(["UTC", "Asia/Tokyo"])),))] if name else []
    types = [*((name, kind) for name, kind in schema.types), *((name, "number") for name in bucketed)]
    return replace(
        schema, categorical=(*schema.categorical, *bucketed), transforms=tuple(transforms), types=tuple(types)
    )


def test_what_the_first_rows_have_to_say(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        "[numeric]\na = { log1p = true, standard = true }\nb = { buckets = 10 }\nc = { buckets = 'log' }\n"
        "d = { standard = false, log1p = false }\n"
    )
    fit = read_declaration(tmp_path / "s.toml").fit_of()
    assert fit.standard == ("a",) and fit.buckets == {"b": 10}
    assert fit.schema.transforms == (("a", "log1p", ()), ("b", "buckets", ()), ("c", "buckets", LOG_EDGES))
    assert fit.schema.numeric == ("a", "d") and fit.schema.categorical == ("b", "c")


def test_patterns_stand_for_columns_that_no_other_entry_names(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        "label = 'y'\ntime = 'C9'\n[categorical]\n'C*' = 'text'\nC2 = 'number'\n'price*2' = 'text'\n"
        "[numeric]\n'I*' = { log1p = true }\nI3 = {}\n[times]\n'*_at' = { hour = 'UTC' }\n"
    )
    declaration = read_declaration(tmp_path / "s.toml")
    columns = ["y", "C1", "C2", "C9", "I1", "I2", "I3", "price*2", "price12", "created_at", "seen_at", "Cat[1]"]
    schema = declaration.fit_of(columns).schema
    assert schema.categorical == ("C1", "Cat[1]", "C2", "price*2") and schema.numeric == ("I1", "I2", "I3")
    assert dict(schema.types) == {"C1": "text", "Cat[1]": "text", "C2": "number", "price*2": "text"}
    parts = [("created_at", "hour", ("UTC",)), ("seen_at", "hour", ("UTC",))]
    assert [*schema.transforms] == [("I1", "log1p", ()), ("I2", "log1p", ()), *parts]
    with pytest.raises(DataError, match=r"s.toml: \[numeric\]: no other column matches 'I\*'"):
        declaration.fit_of(["y", "C1", "C2", "C9", "I3", "price*2", "x_at"])


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
        ("[numeric]\na = 3", r"s.toml: numeric column 'a' must be {} or a table, such as { log1p = true }"),
        (
            "[numeric]\na = { centre = 1 }",
            "s.toml: numeric column 'a' must have both centre and scale, or none of them",
        ),
        ("[numeric]\na = { log = true }", "s.toml: unknown entry of numeric column 'a': 'log'; did you mean log1p"),
        ("[numeric]\na = { log1p = 1 }", "s.toml: numeric column 'a': log1p must be true or false; got 1"),
        ("[numeric]\na = { clip = 3 }", "s.toml: numeric column 'a': clip and edges are lists"),
        ("[numeric]\na = { clip = [3] }", r"s.toml: column 'a': clip must be \[low, high\], two finite numbers"),
        ("[numeric]\na = { clip = ['x', 3] }", r"s.toml: column 'a': clip must be \[low, high\], two finite numbers"),
        ("[numeric]\na = { standard = true, centre = 1, scale = 2 }", "standard = true finds centre and scale: omit"),
        ("[numeric]\na = { buckets = 10, log1p = true }", "with buckets, which take raw numbers, omit log1p"),
        ("[numeric]\na = { edges = [1], buckets = 3 }", "with buckets, which take raw numbers, omit edges"),
        ("[numeric]\na = { buckets = 1 }", "numeric column 'a': buckets must be from 2 to 1000, or 'log'; got 1"),
        ("[numeric]\na = { buckets = 'tens' }", "buckets must be from 2 to 1000, or 'log'; got 'tens'"),
        ("[numeric]\na = { edges = ['x'] }", "s.toml: column 'a': edges must be finite numbers"),
        ("[times]\na = 'hour'", "s.toml: column 'a' of times must be parts and zones, such as { hour = 'UTC' }"),
        ("[times]\na = { hours = 'UTC' }", "s.toml: unknown part of times 'a': 'hours'; did you mean hour"),
        ("[times]\na = { hour = 'Mars' }", "s.toml: column 'a': the zone 'Mars' is unknown here"),
        ("[times]\na = { hour = 1 }", "s.toml: column 'a': the zone 1 is unknown here"),
        ("decimal = ';'", "s.toml: decimal=';': choose '.' or ','"),
        ("reader = 1", r"s.toml: \[reader\] must be a table"),
        ("[reader]\nsep = ';'", r"s.toml: unknown entry of \[reader\] 'sep'; did you mean separator"),
        ("[reader]\nheader = 'no'", r"s.toml: header of \[reader\] must be true or false; got 'no'"),
        ("[reader]\nnames = [1]", r"s.toml: names of \[reader\] must be a list of names; got \[1\]"),
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
    with pytest.raises(DataError, match=message) as error:
        read_declaration(tmp_path / "s.toml").fit_of()
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone.toml cannot be read"):
        read_declaration(tmp_path / "gone.toml")
    (tmp_path / "s.toml").write_bytes(b"label = '\xff'")
    with pytest.raises(DataError, match=r"s.toml cannot be read: .*utf-8"):
        read_declaration(tmp_path / "s.toml")

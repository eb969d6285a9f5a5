"""Schemas: fields in order, checks, and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bitlane.errors import DataError
from bitlane.sparse.batches.schema import ListSchema, Schema, schema_from_json, wanted_columns

FULL = Schema("click", ("user", "item"), ("price",), (("user", "item"), ("item", "hour")), "time")


def test_fields_are_numbered_in_order() -> None:
    assert FULL.field_names == ("user", "item", "price", "user&item", "item&hour")
    assert FULL.hashed == ("user", "item", "hour")
    assert FULL.columns == ("user", "item", "hour", "price")


TYPED = FULL.with_types({"user": "text", "item": "number", "hour": "number", "price": "number"})


@pytest.mark.parametrize(
    "schema", [FULL, TYPED, Schema(), Schema(key_rule=1), ListSchema(), ListSchema("y", "k", "f", "v", "t")]
)
def test_json_round_trip(schema: Schema | ListSchema) -> None:
    assert schema_from_json(json.loads(json.dumps(schema.as_json()))) == schema


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"label": "y"}, "schema has kind None; 'columns' and 'lists' are known"),
        ({"kind": "columns", "colour": "red"}, "schema has settings that this version does not know"),
    ],
)
def test_other_json_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        schema_from_json(data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"categorical": "user"}, "categorical must be a tuple of column names; got 'user'"),
        ({"numeric": (1,)}, r"numeric must be a tuple of column names; got \(1,\)"),
        ({"categorical": ("user", "user")}, "column 'user' is used twice in the schema"),
        ({"categorical": ("user",), "numeric": ("user",)}, "column 'user' is used twice"),
        ({"categorical": ("label",)}, "column 'label' is used twice"),
        ({"numeric": ("at",), "time": "at"}, "column 'at' is used twice"),
        ({"crosses": ("ab",)}, "a cross must be a tuple of column names; got 'ab'"),
        ({"crosses": (("a",),)}, "cross 'a' needs two different columns or more"),
        ({"crosses": (("a", "a"),)}, "cross 'a x a' needs two different columns or more"),
        ({"numeric": ("a",), "crosses": (("a", "b"),)}, "cross 'a x b' has column 'a', which is not categorical"),
        ({"crosses": (("label", "b"),)}, "cross 'label x b' has column 'label', which is not categorical"),
        ({"categorical": ("a", "a=1")}, "columns 'a' and 'a=1' would share keys"),
        ({"categorical": ("a",), "numeric": ("a=b",)}, "columns 'a' and 'a=b' would share keys"),
        ({"types": (("a", "colour"),)}, "column 'a' has the type 'colour'; text, number, boolean, time are known"),
        ({"key_rule": 3}, "the schema's keys follow rule 3, which is unknown here: update bitlane"),
        ({"numeric": tuple(map(str, range(65537)))}, "the schema has 65537 fields; at most 65536 are possible"),
    ],
)
def test_bad_schemas_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Schema(**settings)


def test_types_of_hashed_columns() -> None:
    assert dict(TYPED.types) == {"user": "text", "item": "number", "hour": "number"}
    assert FULL.lacks_types and not TYPED.lacks_types and not Schema(key_rule=1, categorical=("a",)).lacks_types
    assert TYPED.with_types({"item": "time"}) == TYPED
    old = {"kind": "columns", "label": "y", "categorical": ["a"], "numeric": [], "crosses": [], "time": None}
    assert schema_from_json(old) == Schema("y", ("a",), key_rule=1)


def test_an_equal_sign_in_a_name_is_fine_where_no_keys_are_shared() -> None:
    assert Schema(categorical=("a=b", "c"), numeric=("d=e",)).columns == ("a=b", "c", "d=e")


def test_columns_that_are_read() -> None:
    names = ["price", "hour", "time", "item", "click", "user", "other"]
    assert sorted(wanted_columns(FULL, names, "f")) == ["click", "hour", "item", "price", "time", "user"]
    assert wanted_columns(ListSchema(keys="k", values="v"), ["k", "v", "label"], "f") == ["k", "v", "label"]
    assert wanted_columns(Schema(categorical=("a",)), ["a"], "f", labelled=False) == ["a"]
    assert wanted_columns(Schema(categorical=("a",)), ["a", "label"], "f", labelled=False) == ["a", "label"]


def test_missing_columns_are_named() -> None:
    with pytest.raises(DataError, match=r"day.csv: there is no column 'user'; did you mean 'users'?"):
        wanted_columns(Schema(categorical=("user",)), ["users", "label"], "day.csv")
    with pytest.raises(DataError, match=r"day.csv: there is no label column 'click'; did you mean 'clicks'?"):
        wanted_columns(Schema("click"), ["clicks", "user"], "day.csv")
    with pytest.raises(DataError, match=r"day.csv: column 'user' appears twice"):
        wanted_columns(Schema(categorical=("user",)), ["user", "label", "user"], "day.csv")

"""A schema as a file that people edit: TOML."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.batches.schema import SEPARATOR, Schema
from bitlane.support.text import near_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_ENTRIES = ("label", "time", "crosses", "several_separator", "categorical", "crossed", "numeric", "several")


def schema_to_toml(schema: Schema) -> str:
    """Return a schema as the text of a file, with comments for those who edit it."""
    types, scales = dict(schema.types), {name: moments for name, *moments in schema.scales}
    lines = [f"label = {_quoted(schema.label)}"]
    lines += [f"time = {_quoted(schema.time)}"] if schema.time is not None else []
    if schema.crosses:
        groups = ", ".join(f"[{', '.join(map(_quoted, group))}]" for group in schema.crosses)
        lines += ["# each cross is a feature of its own", f"crosses = [{groups}]"]
    crossed = [name for name in schema.hashed if name not in schema.categorical]
    for title, names in (("categorical", schema.categorical), ("crossed", crossed)):
        if names:
            lines += ["", "# how texts are read: text, number, boolean or time", f"[{title}]"]
            lines += [f"{_quoted(name)} = {_quoted(types.get(name, 'text'))}" for name in names]
    if schema.several:
        lines.insert(1, f"several_separator = {_quoted(schema.several_separator)}")
        lines += ["", "# each value of a cell is a feature: type of the values, and mean or sum", "[several]"]
        for name, pooling in schema.several:
            lines.append(f"{_quoted(name)} = [{_quoted(types.get(name, 'text'))}, {_quoted(pooling)}]")
    if schema.numeric:
        lines += ["", "# the value is (x - centre) / scale; {} takes numbers as they are", "[numeric]"]
        for name in schema.numeric:
            center, scale = scales.get(name, (None, None))
            moments = "{}" if center is None else f"{{ centre = {center!r}, scale = {scale!r} }}"
            lines.append(f"{_quoted(name)} = {moments}")
    return "\n".join(lines) + "\n"


def schema_from_toml(path: str | Path) -> Schema:
    """Return the schema of a file as `schema_to_toml` writes it; columns that it does not name are not read.

    Raises
    ------
    DataError
        The file cannot be read, is no TOML, or an entry is not one of a schema: the message names it.
    """
    try:
        entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path} is no TOML: {error}") from error
    for name in entries:
        if name not in _ENTRIES:
            raise DataError(
                f"{path}: unknown entry {name!r}{near_names(name, _ENTRIES)}; there are {', '.join(_ENTRIES)}"
            )
    tables = {name: _table(entries, name, path) for name in ("categorical", "crossed", "numeric", "several")}
    for name, entry in tables["several"].items():
        if not isinstance(entry, list) or len(entry) != 2:
            raise DataError(
                f"{path}: column {name!r} of several values must be [type, pooling], such as ['text', 'mean']"
            )
    several = {name: str(kind) for name, (kind, _) in tables["several"].items()}
    for name, moments in tables["numeric"].items():
        if not isinstance(moments, dict) or moments.keys() not in ({"centre", "scale"}, set()):
            raise DataError(f"{path}: numeric column {name!r} must be {{}} or {{ centre = X, scale = X }}")
    crosses = entries.get("crosses", [])
    if not isinstance(crosses, list) or not all(isinstance(group, list) for group in crosses):
        raise DataError(f"{path}: crosses must be lists of columns, such as [['user', 'hour']]")
    try:
        schema = Schema(
            label=str(entries.get("label", "label")),
            categorical=tuple(tables["categorical"]),
            numeric=tuple(tables["numeric"]),
            crosses=tuple(tuple(group) for group in crosses),
            time=entries.get("time"),
            types=tuple({**tables["categorical"], **tables["crossed"], **several}.items()),
            several=tuple((name, str(pooling)) for name, (_, pooling) in tables["several"].items()),
            several_separator=entries.get("several_separator", SEPARATOR),
            scales=tuple((name, each["centre"], each["scale"]) for name, each in tables["numeric"].items() if each),
        )
    except (DataError, TypeError, ValueError) as error:
        raise DataError(f"{path}: {error}") from error
    if unused := [name for name in tables["crossed"] if name not in schema.hashed]:
        raise DataError(f"{path}: column {unused[0]!r} is in no cross")
    return schema


def _table(entries: Mapping[str, Any], name: str, path: str | Path) -> dict[str, Any]:
    found = entries.get(name, {})
    if not isinstance(found, dict):
        raise DataError(f"{path}: [{name}] must be a table of columns; got {found!r}")
    return found


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

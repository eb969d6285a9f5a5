"""A schema as a file that people edit: TOML."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.batches.declaration import LOG, Declaration
from bitlane.sparse.batches.schema import POINT, Schema
from bitlane.sparse.batches.transforms import LOG_EDGES, PARTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def schema_to_toml(
    schema: Schema, reader: Mapping[str, Any] | None = None, hints: Mapping[str, str] | None = None
) -> str:
    """Return a schema as the text of a file, with comments for those who edit it.

    Parameters
    ----------
    schema : Schema
    reader : dict, optional
        How files are read, where it is not as usual: entries of `declaration.READER`.
    hints : dict of str, optional
        Comments on columns, by their names.
    """
    types, hints = dict(schema.types), hints or {}
    lines = [f"label = {_quoted(schema.label)}"]
    lines += [f"several_separator = {_quoted(schema.several_separator)}"] if schema.several else []
    lines += [f"decimal = {_quoted(schema.decimal)}"] if schema.decimal != POINT else []
    lines += [f"time = {_quoted(schema.time)}"] if schema.time is not None else []
    lines += [f"weight = {_quoted(schema.weight)}"] if schema.weight is not None else []
    if schema.crosses:
        groups = ", ".join(_list(group) for group in schema.crosses)
        lines += ["# each cross is a feature of its own", f"crosses = [{groups}]"]
    if reader:
        lines += ["", "# how files are read", "[reader]"]
        lines += [
            f"{name} = {_list(entry) if name == 'names' else json.dumps(entry)}" for name, entry in reader.items()
        ]
    numbers = schema.read_as_numbers
    plain = [name for name in schema.categorical if name not in numbers]
    crossed = [name for name in schema.hashed if name not in schema.categorical]
    for title, names in (("categorical", plain), ("crossed", crossed)):
        if names:
            lines += ["", "# how texts are read: text, number, boolean or time", f"[{title}]"]
            for name in names:
                lines += [f"{_quoted(name)} = {_quoted(types.get(name, 'text'))}", *_hint(hints, name)]
    if schema.several:
        lines += ["", "# each value of a cell is a feature: type of the values, and mean or sum", "[several]"]
        for name, pooling in schema.several:
            lines.append(f"{_quoted(name)} = [{_quoted(types.get(name, 'text'))}, {_quoted(pooling)}]")
    if numbers:
        lines += [
            "",
            "# {} takes numbers as they are; else clip = [low, high], then log1p = true, then (x - centre) / scale,",
            '# which standard = true finds; or buckets = 10 or "log", which are categories',
            "[numeric]",
        ]
        bucketed = [name for name in schema.categorical if name in numbers]
        for name in (*schema.numeric, *bucketed):
            lines += [f"{_quoted(name)} = {_numeric(schema, name)}", *_hint(hints, name)]
    times: dict[str, list[str]] = {}
    for name, kind, settings in schema.transforms:
        if kind in PARTS:
            times.setdefault(name, []).append(f"{kind} = {_quoted(settings[0])}")
    if times:
        lines += ["", "# features of times: hour, 0 to 23, and weekday, 0 for Monday, each in a zone", "[times]"]
        lines += [f"{_quoted(name)} = {{ {', '.join(parts)} }}" for name, parts in times.items()]
    return "\n".join(lines) + "\n"


def read_declaration(path: str | Path) -> Declaration:
    """Return what a file declares, as `schema_to_toml` writes it; columns that it does not name are not read.

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
    return Declaration(str(path), entries)


def _numeric(schema: Schema, name: str) -> str:
    transforms = schema.transforms_of(name)
    edges = transforms.get("buckets")
    if edges is not None:
        return f'{{ buckets = "{LOG}" }}' if edges == LOG_EDGES else f"{{ edges = {json.dumps(edges)} }}"
    parts = [f"clip = {json.dumps(transforms['clip'])}"] if "clip" in transforms else []
    parts += ["log1p = true"] if "log1p" in transforms else []
    for column, center, scale in schema.scales:
        if column == name:
            parts += [f"centre = {center!r}", f"scale = {scale!r}"]
    return f"{{ {', '.join(parts)} }}" if parts else "{}"


def _hint(hints: Mapping[str, str], name: str) -> list[str]:
    return [f"# {hints[name]}"] if name in hints else []


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

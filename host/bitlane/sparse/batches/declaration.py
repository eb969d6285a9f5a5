"""What a schema file declares: columns by name or pattern, their transforms, and how files are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.batches.schema import POINT, SEPARATOR, Schema
from bitlane.sparse.batches.transforms import LOG_EDGES, PARTS, Transform
from bitlane.support.text import near_names

TABLES = ("categorical", "crossed", "numeric", "several", "times")
ENTRIES = ("label", "time", "weight", "crosses", "several_separator", "decimal", "reader", *TABLES)
READER: Mapping[str, type[Any]] = {  # entries of [reader], as `ReadOptions` has them, and their types
    "format": str,
    "header": bool,
    "names": list,
    "separator": str,
    "encoding": str,
    "comment": str,
    "positive": str,
}
LOG = "log"  # buckets that double
_NUMBERS = ("clip", "log1p", "standard", "centre", "scale")  # entries of a numeric column
_BUCKETS = ("buckets", "edges")


@dataclass(frozen=True)
class DeclaredSchema:
    """A schema, and what of it the first rows are to say.

    Attributes
    ----------
    schema : Schema
    standard : tuple of str
        Numeric columns that are to be standardised.
    buckets : dict of str to int
        Columns without edges yet, and how many buckets they are to have.
    """

    schema: Schema
    standard: tuple[str, ...]
    buckets: Mapping[str, int]


@dataclass(frozen=True)
class Declaration:
    """The entries of a schema file.

    Attributes
    ----------
    file : str
        Its name, for the errors.
    entries : dict
        As TOML has them.

    Raises
    ------
    DataError
        An entry is not one of a schema: the message names it.
    """

    file: str
    entries: Mapping[str, Any]

    def __post_init__(self) -> None:
        self._check_names(self.entries, ENTRIES, "entry")
        for name in (*TABLES, "reader"):
            if not isinstance(self.entries.get(name, {}), dict):
                raise self._error(f"[{name}] must be a table of columns; got {self.entries[name]!r}")
        self._check_names(self.reader, tuple(READER), "entry of [reader]")
        for name, given in self.reader.items():
            if not isinstance(given, READER[name]) or (name == "names" and not all(isinstance(x, str) for x in given)):
                raise self._error(f"{name} of [reader] must be {_KINDS[READER[name]]}; got {given!r}")

    @property
    def reader(self) -> dict[str, Any]:
        """How files are read: entries of `READER`."""
        return dict(self.entries.get("reader", {}))

    @property
    def has_patterns(self) -> bool:
        """Whether a name may stand for several columns."""
        return any("*" in name for table in TABLES for name in self.entries.get(table, {}))

    def fit_of(self, columns: Sequence[str] = ()) -> DeclaredSchema:
        """Return the schema that the file declares for columns of these names.

        A name with ``*`` that is no column's stands for all columns that match it, and that no other entry names.

        Raises
        ------
        DataError
            A column is declared wrongly.
        """
        tables = self._expanded(columns)
        several = self._several(tables["several"])
        transforms: list[Transform] = []
        scales, standard, buckets = [], [], {}
        for name, entry in tables["numeric"].items():
            self._check_numeric(name, entry)
            transforms += [(name, kind, settings) for kind, settings in _transforms_of(entry).items()]
            if isinstance(entry.get("buckets"), int):
                buckets[name] = entry["buckets"]
            if entry.get("standard"):
                standard.append(name)
            elif "scale" in entry:
                scales.append((name, entry["centre"], entry["scale"]))
        bucketed = [name for name, entry in tables["numeric"].items() if any(each in entry for each in _BUCKETS)]
        for name, entry in tables["times"].items():
            transforms += self._parts(name, entry)
        types = {**tables["categorical"], **tables["crossed"], **{name: kind for name, (kind, _) in several.items()}}
        try:
            schema = Schema(
                label=str(self.entries.get("label", "label")),
                categorical=(*tables["categorical"], *bucketed),
                numeric=tuple(name for name in tables["numeric"] if name not in bucketed),
                crosses=self._crosses(),
                time=self.entries.get("time"),
                weight=self.entries.get("weight"),
                types=(*types.items(), *((name, "number") for name in bucketed)),
                several=tuple((name, str(pooling)) for name, (_, pooling) in several.items()),
                several_separator=self.entries.get("several_separator", SEPARATOR),
                scales=tuple(scales),
                transforms=tuple(transforms),
                decimal=self.entries.get("decimal", POINT),
            )
        except (DataError, TypeError, ValueError) as error:
            raise self._error(str(error)) from error
        if unused := [name for name in tables["crossed"] if name not in schema.hashed]:
            raise self._error(f"column {unused[0]!r} is in no cross")
        return DeclaredSchema(schema, tuple(standard), buckets)

    def _expanded(self, columns: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the tables with the columns that patterns stand for."""
        tables = {name: dict(self.entries.get(name, {})) for name in TABLES}
        named = {name for table in TABLES if table != "times" for name in tables[table]}
        named |= {str(self.entries.get("label", "label")), self.entries.get("time"), self.entries.get("weight")}
        found: dict[str, dict[str, Any]] = {}
        for table, entries in tables.items():
            taken = set(entries) if table == "times" else named
            found[table] = {}
            for name, entry in entries.items():
                if "*" not in name or name in columns or not columns:
                    found[table][name] = entry
                    continue
                pattern = name.replace("[", "[[]").replace("?", "[?]")
                matching = [each for each in columns if fnmatchcase(each, pattern) and each not in taken]
                if not matching:
                    raise self._error(f"[{table}]: no other column matches {name!r}")
                found[table] |= dict.fromkeys(matching, entry)
        return found

    def _several(self, entries: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        for name, entry in entries.items():
            if not isinstance(entry, list) or len(entry) != 2:
                raise self._error(
                    f"column {name!r} of several values must be [type, pooling], such as ['text', 'mean']"
                )
        return {name: (str(kind), str(pooling)) for name, (kind, pooling) in entries.items()}

    def _check_numeric(self, name: str, entry: Any) -> None:
        if not isinstance(entry, dict):
            raise self._error(f"numeric column {name!r} must be {{}} or a table, such as {{ log1p = true }}")
        self._check_names(entry, (*_NUMBERS, *_BUCKETS), f"entry of numeric column {name!r}:")
        for switch in ("log1p", "standard"):
            if not isinstance(entry.get(switch, False), bool):
                raise self._error(f"numeric column {name!r}: {switch} must be true or false; got {entry[switch]!r}")
        if not isinstance(entry.get("clip", []), list) or not isinstance(entry.get("edges", []), list):
            raise self._error(f"numeric column {name!r}: clip and edges are lists, such as [0, 100]")
        if ("centre" in entry) != ("scale" in entry):
            raise self._error(f"numeric column {name!r} must have both centre and scale, or none of them")
        if entry.get("standard") and "scale" in entry:
            raise self._error(f"numeric column {name!r}: standard = true finds centre and scale: omit these, or it")
        given = [each for each in _BUCKETS if each in entry]
        if given and len(entry) > 1:
            other = next(each for each in entry if each != given[0])
            raise self._error(f"numeric column {name!r}: with {given[0]}, which take raw numbers, omit {other}")
        count = entry.get("buckets", LOG)
        if count != LOG and (not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= 1000):
            raise self._error(f"numeric column {name!r}: buckets must be from 2 to 1000, or 'log'; got {count!r}")

    def _parts(self, name: str, entry: Any) -> list[Transform]:
        if not isinstance(entry, dict) or not entry:
            raise self._error(f"column {name!r} of times must be parts and zones, such as {{ hour = 'UTC' }}")
        self._check_names(entry, tuple(PARTS), f"part of times {name!r}:")
        return [(name, part, (zone,)) for part, zone in entry.items()]

    def _crosses(self) -> tuple[tuple[str, ...], ...]:
        crosses = self.entries.get("crosses", [])
        if not isinstance(crosses, list) or not all(isinstance(group, list) for group in crosses):
            raise self._error("crosses must be lists of columns, such as [['user', 'hour']]")
        return tuple(tuple(group) for group in crosses)

    def _check_names(self, given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
        for name in given:
            if name not in known:
                there = ", ".join(map(repr, known))  # quoted, since commands take other words for arguments
                raise self._error(f"unknown {what} {name!r}{near_names(name, known)}; there are {there}")

    def _error(self, reason: str) -> DataError:
        return DataError(f"{self.file}: {reason}")


_KINDS = {str: "a text", bool: "true or false", list: "a list of names"}


def _transforms_of(entry: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the transforms of a numeric column; buckets without edges yet have none."""
    found: dict[str, tuple[Any, ...]] = {}
    if "clip" in entry:
        found["clip"] = tuple(entry["clip"])
    if entry.get("log1p"):
        found["log1p"] = ()
    if "edges" in entry:
        found["buckets"] = tuple(entry["edges"])
    if "buckets" in entry:
        found["buckets"] = LOG_EDGES if entry["buckets"] == LOG else ()
    return found

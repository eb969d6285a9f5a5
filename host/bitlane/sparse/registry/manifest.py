"""The manifest of a version: what it holds, of what it is a change, and the checksum of each file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bitlane.errors import DataError
from bitlane.reporting.records import plain
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.registry.records import from_bytes, to_bytes
from bitlane.support.stores import StoredFile

NAME = "manifest.json"
BASE, DELTA = "base", "delta"
# What scores depend on, beside the weights: equal in a delta and its parent.
_SCORING = ("kind", "loss", "dim", "fields", "hidden", "intercept", "normalise")
_NO_FEATURES = ("label", "time", "weight")  # of a schema: columns that no key comes from


@dataclass(frozen=True)
class Description:
    """What a publisher says of a model, beside its weights.

    Attributes
    ----------
    spec : ModelSpec
    data : dict
        How rows become features: ``schema``, ``label``, ``task`` and ``fields`` of the training's settings; plain JSON.
        Which rows were learned: ``files``, ``test_fraction``, ``follow`` and ``paths``, see `learned.LearnedRows`.
        Empty if no run folder made the model.
    rows_seen : int
        Rows that were learned.
    metrics : dict of float
        At publishing, for example AUC of the last window.
    quantization : dict, optional
        Of a base: bits, kind of levels, measured loss.
    calibrator : dict, optional
        What maps the scores, see `fit_calibrator`. A delta without one has that of its parent.
    """

    spec: ModelSpec
    data: Mapping[str, Any] = field(default_factory=dict)
    rows_seen: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    quantization: Mapping[str, Any] | None = None
    calibrator: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("data", "metrics", "quantization", "calibrator"):  # as they are read from the file
            object.__setattr__(self, name, plain(getattr(self, name)))

    @property
    def hashing(self) -> Mapping[str, Any]:
        """What of `data` decides the keys and fields of a row: the columns of its features, but not label and time.

        Namespaces of Vowpal Wabbit's text are fields, which some models have no use for.
        """
        schema = self.data.get("schema") or {}
        spaces = self.data.get("namespaces") if self.spec.kind not in ("lr", "fm") else None
        found = {name: value for name, value in schema.items() if name not in _NO_FEATURES}
        return found | ({} if spaces is None else {"namespaces": spaces})


@dataclass(frozen=True)
class Manifest:
    """A version of a model.

    Attributes
    ----------
    version : int
    kind : {"base", "delta"}
    parent : int or None
        The version that a delta changes; of a base, the version whose content it has (compaction), or None.
    base : int
        The first version of the chain.
    created : str
        UTC, ISO 8601.
    description : Description
    shards, virtual_shards : int
    rows : int
        Of the model.
    changed, deleted : int
        Rows in the files: all of a base; changed and added ones of a delta, and deleted ones.
    files : tuple of StoredFile
    """

    version: int
    kind: str
    parent: int | None
    base: int
    created: str
    description: Description
    shards: int
    virtual_shards: int
    rows: int
    changed: int
    deleted: int
    files: tuple[StoredFile, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    def file(self, name: str) -> StoredFile | None:
        """Return the file of this name, or None."""
        return next((file for file in self.files if file.name == name), None)

    def to_bytes(self) -> bytes:
        """Return the manifest as the bytes of its file."""
        record = {name: value for name, value in vars(self).items() if name not in ("description", "files")}
        described = {**vars(self.description), "spec": self.description.spec.to_json()}
        return to_bytes({**record, **described, "files": [asdict(file) for file in self.files]})

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Manifest:
        """Return the manifest of the bytes of a file; `name` is that of the file, for messages.

        Raises
        ------
        DataError
            It is damaged, or has a newer format.
        """
        record = from_bytes(data, name)
        try:
            spec = ModelSpec.from_json(record.pop("spec"))
            given = {each: record.pop(each) for each in ("data", "rows_seen", "metrics", "quantization")}
            given["calibrator"] = record.pop("calibrator", None)  # older manifests have none
            files = tuple(StoredFile(**each) for each in record.pop("files"))
            return cls(**record, files=files, description=Description(spec, **given))
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{name} is damaged: {error}") from error


def check_successor(parent: Manifest, description: Description, shards: int, virtual_shards: int) -> None:
    """Raise DataError unless a model of this description can be a delta of `parent`."""
    version = f"version {parent.version}"
    one, other = parent.description.spec.to_json(), description.spec.to_json()
    for name in _SCORING:
        if one[name] != other[name]:
            raise DataError(f"{version} has {name}={one[name]}, this model {other[name]}: publish it as a base")
    if (one["linear"] is None) != (other["linear"] is None):
        raise DataError(f"{version} and this model differ in linear weights: publish it as a base")
    before, after = parent.description.hashing, description.hashing
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            raise DataError(
                f"{version} has different hashing settings, {name}={_short(before.get(name))}; this model has "
                f"{_short(after.get(name))}: publish it as a base, or under another name"
            )
    if (parent.shards, parent.virtual_shards) != (shards, virtual_shards):
        raise DataError(f"{version} has {parent.shards} shards, this model {shards}: publish it as a base")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."

"""The description of a shard: the layout of its rows, its matrices, and its number among the servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.layout import ParameterBlock
from bitlane.sparse.parameters.optimizers import Optimizer, optimizer_from_json, optimizer_to_json
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.sparse.parameters.statistics import StatisticsSettings
from bitlane.sparse.servers.counts import ShardCounts
from bitlane.sparse.servers.partition import VIRTUAL_SHARDS, Partition
from bitlane.sparse.tables.sketch import Admission

FORMAT = 1


@dataclass(frozen=True)
class MatrixSpec:
    """Shape and optimizer of a matrix."""

    shape: tuple[int, ...]
    optimizer: Optimizer


@dataclass(frozen=True)
class ShardSpec:
    """What defines a shard, apart from what it has learned.

    Parameters
    ----------
    blocks : tuple of ParameterBlock
        The layout of a row.
    seed : int, default=0
        Of the first weights.
    admission : Admission, optional
    track_age : bool, default=False
    matrices : dict of MatrixSpec, optional
        All dense parameters of the model. Each lies on one server, which follows from its name.
    server, servers : int
        Number of this shard's server, and of all servers.
    virtual_shards : int, default=256
    statistics : StatisticsSettings, optional
        Of the keys that the servers count for the workers. Default: none.
    """

    blocks: tuple[ParameterBlock, ...]
    seed: int = 0
    admission: Admission | None = None
    track_age: bool = False
    matrices: Mapping[str, MatrixSpec] = field(default_factory=dict)
    server: int = 0
    servers: int = 1
    virtual_shards: int = VIRTUAL_SHARDS
    statistics: StatisticsSettings | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        if not 0 <= self.server < self.partition.servers:
            raise DataError(f"server must be 0 to {self.servers - 1}; got {self.server}")

    @property
    def partition(self) -> Partition:
        """How keys are spread over the servers."""
        return Partition(self.servers, self.virtual_shards)

    def placed(self, server: int, servers: int) -> ShardSpec:
        """Return the description of another shard of the same model."""
        return replace(self, server=server, servers=servers)

    def same_model(self, other: ShardSpec) -> bool:
        """Return whether both are shards of equal models."""
        return self.placed(0, 1) == other.placed(0, 1)

    def parameters(self) -> SparseParameters:
        """Return new, empty parameters."""
        return SparseParameters(self.blocks, self.seed, admission=self.admission, track_age=self.track_age)

    def counts(self) -> ShardCounts | None:
        """Return new, empty counts; None without statistics."""
        return None if self.statistics is None else ShardCounts(self.statistics)

    def own_matrices(self) -> dict[str, Matrix]:
        """Return new matrices of zeros, those of this server."""
        partition = self.partition
        return {
            name: Matrix(each.shape, each.optimizer)
            for name, each in sorted(self.matrices.items())
            if partition.owner_of_name(name) == self.server
        }

    def to_json(self) -> dict[str, Any]:
        """Return the description as a record of plain values."""
        return {
            "format": FORMAT,
            "blocks": [{**asdict(each), "optimizer": optimizer_to_json(each.optimizer)} for each in self.blocks],
            "seed": self.seed,
            "admission": None if self.admission is None else asdict(self.admission),
            "track_age": self.track_age,
            "matrices": {
                name: {"shape": list(each.shape), "optimizer": optimizer_to_json(each.optimizer)}
                for name, each in self.matrices.items()
            },
            "server": self.server,
            "servers": self.servers,
            "virtual_shards": self.virtual_shards,
            **({} if self.statistics is None else {"statistics": asdict(self.statistics)}),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ShardSpec:
        """Return the description of a record of `to_json`.

        Raises
        ------
        DataError
            Another format, an unknown name or a bad value.
        """
        given = dict(record)
        version = given.pop("format", None)
        if version != FORMAT:
            raise DataError(f"the description of the shard has format {version!r}; this version reads format {FORMAT}")
        try:
            blocks = [
                ParameterBlock(**{**each, "optimizer": optimizer_from_json(each["optimizer"])})
                for each in given["blocks"]
            ]
            matrices = {
                name: MatrixSpec(tuple(each["shape"]), optimizer_from_json(each["optimizer"]))
                for name, each in given["matrices"].items()
            }
            admission = None if given["admission"] is None else Admission(**given["admission"])
            if given.get("statistics") is not None:
                given["statistics"] = StatisticsSettings(**given["statistics"])
            return cls(**{**given, "blocks": tuple(blocks), "matrices": matrices, "admission": admission})
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"not the description of a shard: {error}") from error

    @classmethod
    def read(cls, path: Path) -> ShardSpec:
        """Return the description in a file.

        Raises
        ------
        DataError
            The file is missing or damaged.
        """
        try:
            return cls.from_json(json.loads(path.read_bytes()))
        except FileNotFoundError:
            raise DataError(f"{path.parent} is not a shard folder: it has no {path.name}") from None
        except ValueError as error:
            raise DataError(f"{path} is damaged: {error}") from error

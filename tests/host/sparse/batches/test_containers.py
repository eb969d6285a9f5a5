"""One value has one key, whatever holds it: random tables of all types, in any container against any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from tests.helpers.containers import file_keys, keys_by_container, random_table, write_files

from bitlane.sparse.batches.schema import Schema
from bitlane.sparse.batches.source import open_source


def check_tables(folder: Path, seed: int, tables: int) -> None:
    for number in range(tables):
        rng = np.random.default_rng((seed, number))
        table, kinds = random_table(rng)
        columns = Schema(categorical=tuple(table.column_names[1:]))
        write_files(table, folder / f"{number}")
        paths = sorted((folder / f"{number}").iterdir())
        trained = paths[rng.integers(len(paths))]
        schema = open_source(trained, schema=columns).schema
        assert isinstance(schema, Schema)
        wanted = file_keys(trained, schema)
        for name, found in keys_by_container(table, schema, folder / f"{number} read").items():
            assert found == wanted, (seed, number, kinds, trained.name, name, table.to_pydict(), schema.types)


def test_any_container_against_any_other(tmp_path: Path, seed: int) -> None:
    check_tables(tmp_path, seed, 12)


@pytest.mark.slow
def test_two_thousand_tables(tmp_path: Path, seed: int) -> None:
    check_tables(tmp_path, seed, 2_000)

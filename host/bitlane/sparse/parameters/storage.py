"""Parameters in a folder: rows by key in parameters.arrow, arrays in dense.npz, and a description in JSON.

The description, model.json for a model, has the size and the XXH3 checksum of the two others.
"""

# pyarrow has no types: mypy takes its classes as Any.

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import DataError
from bitlane.sparse.parameters.dense import Matrix
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.support.optional import require_extra

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
CHUNK_ROWS = 1 << 16  # of a record batch: bounds the memory of saving and loading
DESCRIPTION, PARAMETERS, DENSE = "model.json", "parameters.arrow", "dense.npz"
_MATRIX, _TABLE = "matrix/", "table/"  # what the names in dense.npz begin with
_BLOCK = 1 << 20


def write_description(folder: Path, record: Mapping[str, Any], name: str = DESCRIPTION) -> None:
    """Write the description: the record, the format, and the fingerprints of the two other files."""
    files = {each: _fingerprint(folder / each) for each in (PARAMETERS, DENSE)}
    (folder / name).write_text(json.dumps({"format": FORMAT, **record, "files": files}, indent=2) + "\n")


def read_description(folder: Path, name: str = DESCRIPTION, what: str = "model") -> dict[str, Any]:
    """Return the description, after the two other files have been held against it.

    Parameters
    ----------
    folder : Path
    name : str, default="model.json"
        Of the description.
    what : str, default="model"
        What the folder holds, for messages.

    Raises
    ------
    DataError
        A file is missing, damaged or cut off, or has another format.
    """
    path = folder / name
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise DataError(f"{folder} is not a {what}: it has no {name}") from error
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        given = record.get("format") if isinstance(record, dict) else None
        raise DataError(f"{path} has format {given!r}; this version reads format {FORMAT}")
    files = record.get("files")
    if not isinstance(files, dict) or set(files) != {PARAMETERS, DENSE}:
        raise DataError(f"{path} is damaged: files must be {PARAMETERS} and {DENSE}")
    for each, wanted in files.items():
        _check(folder / each, wanted, what)
    return record


def write_parameters(folder: Path, parameters: SparseParameters, matrices: Mapping[str, Matrix]) -> None:
    """Write both files of rows, matrices, and the state of the table. Nothing may change meanwhile."""
    table = parameters.table
    arrays = {_MATRIX + name: matrix.row for name, matrix in matrices.items()}
    arrays.update({_TABLE + name: each for name, each in table.state().items()})
    write_rows(folder, table.items(CHUNK_ROWS), table.width)
    write_dense(folder, arrays)


def read_parameters(folder: Path, parameters: SparseParameters, matrices: Mapping[str, Matrix], what: str) -> None:
    """Set empty parameters, and matrices, to what `write_parameters` wrote; `what` they are of, for messages.

    Raises
    ------
    DataError
        The matrices have other names, or a file is damaged.
    """
    arrays, table = read_dense(folder), parameters.table
    if {name for name in arrays if name.startswith(_MATRIX)} != {_MATRIX + name for name in matrices}:
        raise DataError(f"{folder / DENSE} belongs to another {what}: it has {', '.join(arrays)}")
    for name, matrix in matrices.items():
        matrix.restore({"row": arrays[_MATRIX + name]})
    table.load(read_rows(folder, table.width))
    table.restore({name.removeprefix(_TABLE): each for name, each in arrays.items() if name.startswith(_TABLE)})


def write_rows(folder: Path, chunks: Iterator[tuple[Any, ...]], width: int) -> None:
    """Write parameters.arrow, an IPC stream, from chunks of keys, rows [n, width] and perhaps stamps."""
    pyarrow = require_extra("pyarrow", "a file of sparse parameters", "'bitlane[sparse]'")
    writer = None
    with pyarrow.OSFile(str(folder / PARAMETERS), "wb") as sink:
        for keys, rows, *stamps in chunks:
            record = _record_batch(pyarrow, keys, rows, stamps)
            if writer is None:
                writer = pyarrow.ipc.new_stream(sink, record.schema)
            writer.write_batch(record)
        if writer is None:
            empty = _record_batch(pyarrow, np.zeros(0, np.uint64), np.zeros((0, width), np.float32), [])
            writer = pyarrow.ipc.new_stream(sink, empty.schema)
        writer.close()


def read_rows(folder: Path, width: int) -> Iterator[tuple[Any, ...]]:
    """Yield the chunks that `write_rows` wrote.

    Raises
    ------
    DataError
        The rows have another width, or the file is no stream of rows.
    """
    pyarrow = require_extra("pyarrow", "a file of sparse parameters", "'bitlane[sparse]'")
    path = folder / PARAMETERS
    wanted = pyarrow.list_(pyarrow.float32(), width)
    try:
        with pyarrow.OSFile(str(path), "rb") as source, pyarrow.ipc.open_stream(source) as stream:
            if stream.schema.field("row").type != wanted:
                raise DataError(f"{path} has rows of {stream.schema.field('row').type}; the model has {wanted}")
            for record in stream:
                yield _arrays(record, width)
    except pyarrow.ArrowMemoryError:
        raise
    except (pyarrow.ArrowException, KeyError) as error:
        raise DataError(f"{path} is damaged: {' '.join(str(error).split())}") from error


def write_dense(folder: Path, arrays: Mapping[str, Any]) -> None:
    """Write dense.npz."""
    with open(folder / DENSE, "wb") as file:
        np.savez(file, **arrays)


def read_dense(folder: Path) -> dict[str, Any]:
    """Return the arrays of dense.npz."""
    with np.load(folder / DENSE) as file:
        return {name: file[name] for name in file.files}


def _fingerprint(path: Path) -> dict[str, Any]:
    state = require_extra("xxhash", "a file of sparse parameters", "'bitlane[sparse]'").xxh3_64()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            state.update(block)
    return {"bytes": path.stat().st_size, "xxh3_64": state.hexdigest()}


def _check(path: Path, wanted: object, what: str) -> None:
    try:
        actual = _fingerprint(path)
    except FileNotFoundError as error:
        raise DataError(f"{path.parent} is not a complete {what}: it has no {path.name}") from error
    if not isinstance(wanted, dict) or actual["bytes"] != wanted.get("bytes"):
        size = wanted.get("bytes") if isinstance(wanted, dict) else None
        raise DataError(f"{path} is damaged: it has {actual['bytes']} bytes, not {size}")
    if actual != wanted:
        raise DataError(f"{path} is damaged: its checksum is {actual['xxh3_64']}, not {wanted.get('xxh3_64')}")


def _record_batch(pyarrow: Any, keys: NDArray[Any], rows: NDArray[Any], stamps: list[Any]) -> Any:
    flat = pyarrow.array(np.ascontiguousarray(rows).reshape(-1))
    columns = {"key": pyarrow.array(keys), "row": pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])}
    if stamps:
        columns["stamp"] = pyarrow.array(stamps[0])
    return pyarrow.record_batch(list(columns.values()), names=list(columns))


def _arrays(record: pa.RecordBatch, width: int) -> tuple[Any, ...]:
    keys = record.column("key").to_numpy()
    rows = record.column("row").flatten().to_numpy().reshape(len(keys), width)
    stamps = [record.column("stamp").to_numpy()] if "stamp" in record.schema.names else []
    return (keys, rows, *stamps)

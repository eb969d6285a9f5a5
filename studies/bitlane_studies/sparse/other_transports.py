"""The same parameters behind a Ray actor and behind torch RPC: what a pull takes there.

Each way is a context manager that yields a pull: from keys, uint64 [n], to weights, float32 [n, values]. Its server is
a process of its own on this machine and has `filled_parameters`; when the context ends, so do its processes.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.sparse.parameters.layout import Block
from bitlane.sparse.parameters.optimizers import SGD
from bitlane.sparse.parameters.sparse import SparseParameters
from bitlane.support.optional import require_extra

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]
Pull = Callable[[Keys], Floats]

_PIECE = 1 << 16  # keys that are created at once
_OBJECT_STORE = 1 << 28  # bytes of Ray's shared memory


def block_of(values: int) -> Block:
    """Return the block of all servers of the study; its first weights differ from key to key."""
    return Block(values, SGD(), 0.1)


def create_rows(pull: Callable[..., Any], keys: Keys) -> None:
    """Create the rows of all keys by a `pull` that can."""
    for at in range(0, len(keys), _PIECE):
        pull(keys[at : at + _PIECE], create=True)


def filled_parameters(values: int, keys: Keys) -> SparseParameters:
    """Return parameters that have all keys."""
    parameters = SparseParameters((block_of(values),))
    create_rows(parameters.pull, keys)
    return parameters


# --- Ray
class _Holder:
    """What the Ray actor runs."""

    def __init__(self, values: int, keys: Keys):
        self._parameters = filled_parameters(values, keys)

    def pull(self, keys: Keys) -> Floats:
        return self._parameters.pull(keys)


@contextmanager
def ray_actor(values: int, keys: Keys) -> Iterator[Pull]:
    """A pull as a call of a Ray actor.

    Raises
    ------
    BitlaneError
        Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = require_extra("ray", "the row of a Ray actor", "'bitlane[ray]'")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE,
            _temp_dir=folder,
        )
        try:
            actor = ray.remote(_Holder).remote(values, keys)
            yield lambda keys: np.asarray(ray.get(actor.pull.remote(keys)))
        finally:
            ray.shutdown()


# --- torch RPC
_served: list[SparseParameters] = []  # in the server's process


@contextmanager
def torch_rpc(values: int, keys: Keys) -> Iterator[Pull]:
    """A pull as a call of `torch.distributed.rpc`. TensorPipe takes shared memory between processes of one machine.

    Raises
    ------
    BitlaneError
        torch is not installed.
    """
    torch = require_extra("torch", "the row of torch RPC", "'bitlane[torch]'")
    with tempfile.TemporaryDirectory() as folder:
        place = f"file://{folder}/rendezvous"
        spawn = multiprocessing.get_context("spawn")
        server = spawn.Process(target=_serve, args=(place, values, keys), daemon=True)
        server.start()
        try:
            rpc = _join(place, "client", 1)
            yield lambda keys: np.asarray(
                rpc.rpc_sync("server", _pull, (torch.from_numpy(keys.view(np.int64)),)).numpy()
            )
            rpc.shutdown()
        finally:
            server.kill()
            server.join()


def _join(place: str, name: str, rank: int) -> Any:
    from torch.distributed import rpc

    options = rpc.TensorPipeRpcBackendOptions(init_method=place)
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)
    return rpc


def _serve(place: str, values: int, keys: Keys) -> None:
    _served.append(filled_parameters(values, keys))
    _join(place, "server", 0).shutdown()  # returns when the client ends


def _pull(keys: Any) -> Any:
    """Return the weights of keys, as torch has them: int64 for uint64."""
    import torch

    return torch.from_numpy(_served[0].pull(keys.numpy().view(np.uint64)))


TRANSPORTS: dict[str, Callable[[int, Keys], AbstractContextManager[Pull]]] = {
    "pull, Ray actor": ray_actor,
    "pull, torch RPC": torch_rpc,
}

"""`bitlane sparse serve`: answer requests for predictions by the model of a registry."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bitlane.cli.argument_types import port_range, positive, seed
from bitlane.cli.command import Command
from bitlane.cli.companions import Companion, check_companions, given_options
from bitlane.support.optional import require_extra

from . import data
from .registry import PRODUCTION

if TYPE_CHECKING:
    from bitlane.sparse.serving.following import VersionSource


# What options need to have an effect.
_OF_FRONT = {"lookup_seconds": "deadline", "hedge_share": "extra", "hedge_quantile": "quantile"}
COMPANIONS = (
    Companion(("map",), "one process: omit --shards", lambda arguments: arguments.shards is None),
    Companion(("record_share",), "--record", lambda arguments: arguments.record is not None),
    Companion(
        ("replicas", *_OF_FRONT, "placement", "ray_address", "tls_ca", "port_range", "shards_token_file"),
        "--shards",
        lambda arguments: arguments.shards is not None,
    ),
    Companion(
        ("ray_address", "tls_ca", "port_range", "shards_token_file"),
        "--placement ray",
        lambda arguments: arguments.placement == "ray",
    ),
    Companion(
        ("hedge_share", "hedge_quantile"), "--replicas of 2 or more", lambda arguments: (arguments.replicas or 1) > 1
    ),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's folder in a registry, a path or a URI")
    add("--label", default=PRODUCTION, help=f"label to follow, a version's number, or latest (default: {PRODUCTION})")
    add("--name", help="name of the model in requests (default: last component of MODEL)")
    add("--cache", type=Path, metavar="DIR", help="folder for copies of remote files (default: memory)")
    add("--map", action="store_true", help="map files instead of reading them into memory, for models that do not fit")
    add = parser.add_argument_group("how the service is reached").add_argument
    add("--host", default="127.0.0.1", help="default: 127.0.0.1; others need a token and TLS")
    add("--port", type=seed, default=8080, metavar="N", help="of HTTP; 0: any free one (default: 8080)")
    add("--flight-port", type=seed, default=8815, metavar="N", help="of Arrow Flight; 0: any free one (default: 8815)")
    add("--token-file", type=Path, metavar="FILE", help="file with the token that clients must send")
    add("--tls-certificate", type=Path, metavar="PEM", help="certificate of the service")
    add("--tls-key", type=Path, metavar="PEM", help="its key")
    add = parser.add_argument_group("how much it takes").add_argument
    add("--limit", type=positive, default=64, metavar="N", help="most running and waiting requests (default: 64)")
    add("--threads", type=positive, metavar="N", help="requests scored in parallel (default: cores)")
    add("--max-features", type=positive, metavar="N", help="most features of a request (default: 1048576)")
    add = parser.add_argument_group("a model in several processes").add_argument
    add("--shards", type=positive, metavar="N", help="weight shards, each in a process (default: none)")
    add("--replicas", type=positive, metavar="N", help="processes per shard (default: 1)")
    add("--lookup-seconds", type=float, metavar="S", help="deadline of a lookup in the shards (default: 0.1)")
    add("--hedge-share", type=float, metavar="SHARE", help="most extra requests to second replicas (default: 0.1)")
    add("--hedge-quantile", type=float, metavar="Q", help="latency quantile after which they are sent (default: 0.95)")
    add("--placement", choices=("processes", "ray"), help="what restarts the processes (default: this command)")
    add("--ray-address", metavar="HOST:PORT", help="of a Ray cluster (default: Ray on this machine only)")
    add("--tls-ca", type=Path, metavar="PEM", help="authorities that signed the certificate, for a Ray cluster")
    add("--shards-token-file", type=Path, metavar="FILE", help="token of a cluster's shards, on each node at this path")
    add("--port-range", type=port_range, metavar="FIRST-LAST", help="ports of shards on Ray (default: any free ones)")
    add = parser.add_argument_group("a record of requests").add_argument
    add("--record", type=Path, metavar="FILE", help="new file for recorded requests and answers, an Arrow stream")
    add("--record-share", type=float, metavar="SHARE", help="share of requests that --record writes (default: 0.01)")


def _run(arguments: argparse.Namespace) -> None:
    data.require_libraries("a service")
    require_extra("pyarrow.flight", "a service", data.EXTRA)
    for module in ("starlette", "uvicorn", "prometheus_client"):
        require_extra(module, "a service", "'bitlane[serve]'")
    from bitlane.sparse.servers.newcomers import raise_descriptor_limit
    from bitlane.sparse.servers.programs import set_by_signals, tls_files
    from bitlane.sparse.servers.security import read_secret
    from bitlane.sparse.serving.requests import RequestBounds
    from bitlane.sparse.serving.server import ScoringServer, ServerOptions

    raise_descriptor_limit()
    check_companions(arguments, given_options(arguments), COMPANIONS)
    bounds = {} if arguments.max_features is None else {"features": arguments.max_features}
    options = ServerOptions(
        host=arguments.host,
        port=arguments.port,
        flight_port=arguments.flight_port,
        token=None if arguments.token_file is None else read_secret(arguments.token_file),
        tls=tls_files(arguments),
        limit=arguments.limit,
        threads=arguments.threads,
        bounds=RequestBounds(**bounds),
        cache=arguments.cache,
        record=arguments.record,
        **({} if arguments.record_share is None else {"record_share": arguments.record_share}),
    )
    name = arguments.name or arguments.model.rstrip("/").rpartition("/")[2] or "model"
    with _source(arguments) as source, ScoringServer(name, source, arguments.label, options) as server:
        stop = set_by_signals()
        scheme = "http" if options.tls is None else "https"
        print(
            f"{name}, version {server.served.version.number}, at {scheme}://{server.http_address} and "
            f"{'grpc' if options.tls is None else 'grpc+tls'}://{server.flight_address}",
            flush=True,
        )
        stop.wait()
    sys.stdout.flush()
    os._exit(0)  # lanes that callers keep open would hold up the end of Flight's threads


def _source(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[VersionSource]:
    """Return the registry; with ``--shards``, one whose versions processes load that are started here."""
    from bitlane.sparse.registry.registry import ModelRegistry
    from bitlane.sparse.serving.shards.fan_out import FrontOptions
    from bitlane.sparse.serving.shards.placement import Placement, RayAddress, sharded

    if arguments.shards is None:
        return contextlib.nullcontext(ModelRegistry(arguments.model, mapped=arguments.map))
    files = {name: getattr(arguments, name) for name in ("tls_certificate", "tls_key", "tls_ca")}
    placement = Placement(
        arguments.model,
        arguments.shards,
        arguments.replicas or 1,
        cache=arguments.cache,
        ray=RayAddress(arguments.ray_address, files, arguments.shards_token_file, arguments.port_range)
        if arguments.placement == "ray"
        else None,
    )
    options = {
        field: getattr(arguments, name) for name, field in _OF_FRONT.items() if getattr(arguments, name) is not None
    }
    return sharded(placement, FrontOptions(**options))


COMMAND = Command(
    "serve",
    "answer requests for predictions over Arrow Flight and HTTP",
    _add_arguments,
    _run,
    description="Serve the version of a model that a label names, over Arrow Flight and HTTP, and follow the "
    "label. HTTP uses the Open Inference Protocol. The page at / shows versions, labels, traffic and latency; /metrics "
    "serves Prometheus. Ctrl-C or SIGTERM stops it after the running requests.",
)

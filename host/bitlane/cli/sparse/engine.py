"""`bitlane sparse train --engine ray`: its arguments, and the training."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitlane.cli.argument_types import port_range, positive, seed
from bitlane.cli.companions import Companion
from bitlane.errors import DataError
from bitlane.support.optional import require_extra

from . import data, publishing

if TYPE_CHECKING:
    from bitlane.sparse.engines.engine import RayResult
    from bitlane.sparse.training.run_folder import RunFolder
    from bitlane.sparse.training.windows import Window

ENGINES = ("local", "ray")
PUSHES = ("full", "float16", "ternary", "few", "topk")
PULLS = ("float32", "float16", "int8")
BATCH_ROWS = 256  # where a model would learn row after row
# Arguments of --engine ray, and their values where they are not given.
WORKERS: dict[str, Any] = {"workers": 2, "staleness": 0, "pull": "float32", "cache_rows": 1 << 17}
PUSH = {
    "push": "kind",
    "push_share": "share",
    "residual_rows": "residual_rows",
    "push_bits": "entry_bits",
}  # and their names in PushSettings
TLS = ("tls_certificate", "tls_key", "tls_ca")
CLUSTER = ("ray_address", *TLS, "port_range")
CHANGEABLE = ("servers", *CLUSTER)  # with --resume
NAMES = ("servers", *WORKERS, *PUSH, *CLUSTER)
DEFAULTS: dict[str, Any] = {"engine": "local", **dict.fromkeys(NAMES)}
COMPANIONS = (
    Companion(NAMES, "--engine ray", lambda arguments: arguments.engine == "ray"),
    Companion(("push_share", "residual_rows"), "--push topk", lambda arguments: arguments.push == "topk"),
    Companion(("push_bits",), "--push few or topk", lambda arguments: arguments.push in ("few", "topk")),
    Companion(("cache_rows",), "--staleness above 0", lambda arguments: bool(arguments.staleness)),
)


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of parameter servers and workers."""
    add = parser.add_argument_group("engine").add_argument
    add(
        "--engine",
        choices=ENGINES,
        help="local: in this process; ray: in worker processes, with the parameters on servers (default: local)",
    )
    add("--servers", type=positive, metavar="N", help="number of servers, each with a shard of the model (default: 1)")
    add("--workers", type=positive, metavar="N", help="number of workers, each with a shard of the rows (default: 2)")
    add(
        "--staleness",
        type=seed,
        metavar="N",
        help="minibatches that a worker may be ahead of another; 0: bit-identical runs (default: 0)",
    )
    add("--push", choices=PUSHES, help="encoding of pushed gradients (default: full)")
    add("--push-share", type=float, metavar="SHARE", help="share of a minibatch's rows that --push topk sends")
    add("--residual-rows", type=seed, metavar="N", help="most rows of residuals in a worker, with --push topk")
    add("--push-bits", type=positive, metavar="B", help="bits of a gradient, with --push few (default: 3) or topk")
    add("--pull", choices=PULLS, help="encoding of pulled rows; int8 needs --staleness 0 (default: float32)")
    add("--cache-rows", type=seed, metavar="N", help="rows in a worker's cache, with --staleness (default: 131072)")
    add("--ray-address", metavar="HOST:PORT", help="address of a Ray cluster (default: Ray on this machine only)")
    for name, what in (("certificate", "certificate of the servers"), ("key", "its key"), ("ca", "who signed it")):
        add(f"--tls-{name}", type=Path, metavar="PEM", help=f"with --ray-address: {what}")
    add("--port-range", type=port_range, metavar="FIRST-LAST", help="ports of the servers (default: any free ones)")


def engine_settings(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the settings of the workers that a run folder keeps: plain JSON; None for the local engine.

    Parameters
    ----------
    arguments : Namespace
        With all defaults.

    Raises
    ------
    DataError
        Arguments that do not go together.
    BitlaneError
        Ray is not installed.
    """
    if arguments.engine == "local":
        return None
    _check(arguments)
    require_extra("ray", "--engine ray", "'bitlane[ray]'")
    settings = {
        name: value if getattr(arguments, name) is None else getattr(arguments, name) for name, value in WORKERS.items()
    }
    push = {field: getattr(arguments, name) for name, field in PUSH.items() if getattr(arguments, name) is not None}
    return {**settings, "push": push}


def worker_batch_rows(kind: str) -> int:
    """Return the rows of a worker's minibatch: those of the model's recipe, or 256 if it learns row after row."""
    from bitlane.sparse.models.recipes import RECIPES

    batch_rows = RECIPES[kind].batch_rows
    return BATCH_ROWS if batch_rows == 1 else batch_rows


def train_on_ray(
    arguments: argparse.Namespace,
    settings: Mapping[str, Any],
    run: RunFolder | None,
    on_window: Sequence[Callable[[Window], bool | None]],
    on_rows: Callable[[int], object],
) -> RayResult:
    """Train with servers and workers; parameters as of `RayTrainer`."""
    from bitlane.sparse.engines.engine import RayOptions, RayTrainer
    from bitlane.sparse.models.spec import ModelSpec
    from bitlane.sparse.parameters.statistics import StatisticsSettings
    from bitlane.sparse.workers.pushing import PushSettings
    from bitlane.sparse.workers.worker import WorkerOptions

    spec, training, engine = ModelSpec.from_json(settings["model"]), settings["training"], dict(settings["engine"])
    worker = WorkerOptions(
        **{**engine, "push": PushSettings(**engine["push"])},
        epochs=training["epochs"],
        expire_rows=training["expire_after"],
        drop_zeros=training["drop_zeros"],
        sweep_rows=training["window_rows"],
    )
    options = RayOptions(
        worker,
        getattr(arguments, "servers", None),
        window_rows=training["window_rows"],
        checkpoint_rows=training["checkpoint_rows"],
        address=getattr(arguments, "ray_address", None),
        tls={name: getattr(arguments, name, None) for name in TLS},
        ports=getattr(arguments, "port_range", None),
        publish=publishing.of_engine(arguments, settings["data"]),
    )
    source = partial(data.open_share, settings["data"], spec.batch_rows, worker.workers)

    def say() -> None:
        where = "on this machine" if options.address is None else f"at {options.address}"
        print(f"starting servers and {worker.workers} workers with Ray {where}", file=sys.stderr, flush=True)

    statistics = None if settings["statistics"] is None else StatisticsSettings(**settings["statistics"])
    trainer = RayTrainer(
        spec,
        source,
        options,
        run=run,
        on_window=on_window,
        on_rows=on_rows,
        on_start=say,
        statistics=statistics,
    )
    return trainer.run()


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what workers cannot do."""
    if arguments.threads > 1:
        raise DataError(f"--threads {arguments.threads}: a worker uses one thread; use more --workers")
    if arguments.device != "cpu":
        raise DataError(f"--device {arguments.device}: not supported with --engine ray; workers compute on the CPU")

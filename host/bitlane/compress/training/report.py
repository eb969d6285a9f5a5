"""`bitlane train-ddp`: train on several processes, and report bytes, times and accuracy."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

from bitlane.compress.collectives.emulated_links import parse_link
from bitlane.compress.registry import parse_compressor
from bitlane.compress.training import checkpoints
from bitlane.compress.training.distributed import DDPJob, RankResult, train_on_processes
from bitlane.compress.training.experiment import NetworkTraining
from bitlane.compress.training.images import NAMES
from bitlane.compress.training.networks import network_factory
from bitlane.errors import DataError
from bitlane.reporting.records import Record
from bitlane.support.optional import require_extra
from bitlane.support.text import stacked_columns

SECONDS_BETWEEN_LINES = 10.0
DEFAULTS = {
    **{each.name: each.default for each in fields(NetworkTraining)},
    "data": "mnist",
    "compress": "lqsgd",
}


def train_ddp(arguments: argparse.Namespace) -> tuple[str, Record]:
    """Train with the arguments of the command line.

    Returns
    -------
    tuple of str and Record
        The summary, and the record of the run folder.

    Raises
    ------
    DataError
        If an argument is invalid or differs from the checkpoint.
    BitlaneError
        If a rank failed.
    """
    job = _job(arguments)
    with _progress() as on_step:
        ranks = train_on_processes(job, on_step)
    return _summary(job, ranks), _record(job, ranks)


def _job(arguments: argparse.Namespace) -> DDPJob:
    """Return the settings of the training. A resumed training takes them from the checkpoint."""
    given = {name: getattr(arguments, name) for name in DEFAULTS if hasattr(arguments, name)}
    resume = checkpoints.latest_checkpoint(arguments.resume) if arguments.resume is not None else None
    base: dict[str, Any] = checkpoints.load_shared(resume)["settings"] if resume is not None else DEFAULTS
    for name, value in given.items():
        if resume is not None and value != base[name]:
            raise DataError(f"cannot change {name} from {base[name]} to {value} when resuming {arguments.resume}")
    settings = {**base, **given}
    data, compress = settings.pop("data"), settings.pop("compress")
    _check(data, settings["network"], compress)
    if arguments.link is not None:
        parse_link(arguments.link)
    folder = arguments.checkpoint or arguments.resume
    return DDPJob(NetworkTraining(**settings), data, compress, folder, arguments.every, resume, arguments.link)


def _check(data: str, network: str, compress: str) -> None:
    """Raise DataError for unknown names, and files of users that fail, before any process is started."""
    if data not in NAMES:
        raise DataError(f"--data must be one of {', '.join(NAMES)}; got {data}")
    network_factory(network)
    parse_compressor(compress)


def _title(job: DDPJob) -> str:
    link = f", links of {job.link}" if job.link else ""
    return f"{job.data}, {job.training.network}, {job.training.ranks} workers, {job.compress}{link}"


def _summary(job: DDPJob, ranks: Sequence[RankResult]) -> str:
    headings = ["worker", "MB sent", "of float32", "bits", "codec s", "communication s"]
    rows = [headings]
    for rank, result in enumerate(ranks):
        traffic = result.traffic
        cells = [f"{traffic.bytes_sent / 1e6:.3f}", f"{traffic.ratio:.4f}"]
        times = [f"{traffic.codec_seconds:.2f}", f"{traffic.communication_seconds:.2f}"]
        rows.append([str(rank), *cells, f"{traffic.bits:.3g}" if traffic.bits else "-", *times])
    first, losses = ranks[0].first_step, ranks[0].losses
    steps = f"steps {first + 1} to {first + len(losses)}, final loss {losses[-1]:.4f} nats" if losses else ""
    result_line = f"{steps or 'the training was complete'}; held-out accuracy {ranks[0].accuracy:.2%}"
    return f"{_title(job)}\n{result_line}\n\n{stacked_columns(rows)}"


def _record(job: DDPJob, ranks: Sequence[RankResult]) -> Record:
    lines = [{"kind": "worker", **asdict(result.traffic)} for result in ranks]
    end = {"losses": ranks[0].losses, "begun": ranks[0].first_step, "accuracy": ranks[0].accuracy}
    return Record("distributed", {"title": _title(job), "settings": job.settings}, lines, end)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr; lines, at most every 10 seconds, if that is not a terminal."""
    if not sys.stderr.isatty():
        yield _print_sometimes(time.monotonic)
        return
    with require_extra("tqdm", "a progress bar").tqdm(desc="training", unit="step", leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show


def _print_sometimes(clock: Callable[[], float]) -> Callable[[int, int], None]:
    """Return a function that prints completed steps when some time has passed since the last line."""
    last = clock()

    def show(done: int, total: int) -> None:
        nonlocal last
        if clock() - last >= SECONDS_BETWEEN_LINES:
            last = clock()
            print(f"bitlane: step {done} of {total}", file=sys.stderr, flush=True)

    return show

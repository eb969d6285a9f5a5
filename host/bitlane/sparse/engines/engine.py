"""The driver of a training on Ray: servers and workers come and go, windows are measured, a model is left."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bitlane.errors import DataError
from bitlane.sparse.engines.access import Access, new_access
from bitlane.sparse.engines.actors import OpenSource, WorkerTask, connected
from bitlane.sparse.engines.cluster import Cluster, cluster
from bitlane.sparse.engines.fleets import Servers, Workers
from bitlane.sparse.engines.merging import ScoreMerger
from bitlane.sparse.engines.preflight import check_nodes, read_rows
from bitlane.sparse.engines.serving import ServingFile, token_of
from bitlane.sparse.engines.shard_folders import prepare_shards, shard_folders
from bitlane.sparse.models.enriched import EnrichedModel
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.models.spec import ModelSpec
from bitlane.sparse.parameters.statistics import Statistics, StatisticsSettings
from bitlane.sparse.periods import CHECKPOINT_ROWS, WINDOW_ROWS
from bitlane.sparse.registry.publisher import PeriodicPublisher
from bitlane.sparse.registry.registry import ModelRegistry
from bitlane.sparse.registry.server_publisher import ServerPublisher
from bitlane.sparse.servers.counts import check_settings
from bitlane.sparse.training.bookkeeping import Bookkeeper, OnWindow, Reason, SparseTrainingResult
from bitlane.sparse.training.log import read_log
from bitlane.sparse.training.run_folder import RunFolder
from bitlane.sparse.training.stopping import Stopping
from bitlane.sparse.training.windows import Scores
from bitlane.sparse.workers.minibatches import learned_before
from bitlane.sparse.workers.shards import AnyModel, begun, model_of
from bitlane.sparse.workers.worker import WorkerCounts, WorkerOptions

_POLL_SECONDS = 0.2
_DRIVER, _PUBLISHER = "driver", "publisher"


@dataclass(frozen=True)
class PublishOptions:
    """Where versions of a model are published.

    Attributes
    ----------
    registry : str
        Folder or URI, of the same address on all nodes.
    seconds : float or None
        From one version to the next; None: at the end only.
    data : dict
        See `bitlane.sparse.registry.manifest.Description`.
    """

    registry: str
    seconds: float | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RayOptions:
    """How a training runs on Ray.

    Parameters
    ----------
    worker : WorkerOptions
    servers : int, optional
        Default: as many as a training had that is resumed, otherwise 1.
    window_rows : int, default=50_000
        Rows of a window of progressive validation; it has a few more.
    checkpoint_rows : int, default=5_000_000
        Rows from one checkpoint of the servers to the next; 0: when their logs are long, and at the end.
    address : str, optional
        Of a Ray cluster. Default: Ray on this machine alone.
    tls : dict, optional
        The PEM files of `access.TLS_FILES`, for a cluster.
    ports : (int, int), optional
        The first and the last port that servers may use. Default: any free one.
    publish : PublishOptions, optional
        Where versions are published during the training, and at its end.
    """

    worker: WorkerOptions
    servers: int | None = None
    window_rows: int = WINDOW_ROWS
    checkpoint_rows: int = CHECKPOINT_ROWS
    address: str | None = None
    tls: Mapping[str, Any] = field(default_factory=dict)
    ports: tuple[int, int] | None = None
    publish: PublishOptions | None = None


@dataclass(frozen=True)
class RayResult:
    """How a training on Ray ended.

    Attributes
    ----------
    training : SparseTrainingResult
        `waiting` is the mean of the workers.
    model : SparseModel or EnrichedModel
        All shards together.
    counts : WorkerCounts
        Sums over the workers of this run.
    servers : int
    """

    training: SparseTrainingResult
    model: AnyModel
    counts: WorkerCounts
    servers: int


class RayTrainer:
    """Trains a model with servers and workers on Ray.

    Parameters
    ----------
    spec : ModelSpec
    open_source : callable
        From the index of a worker and the offset to resume at, to the worker's share of the rows. It is sent to the
        workers' processes, so it must be possible to pickle it.
    options : RayOptions
    run : RunFolder, optional
        Folder of the log, the shards and the model. A resumed training uses its shards. Default: a
        temporary one.
    on_window : callables
        As of `bitlane.sparse.training.loop.Trainer`.
    on_rows : callable, optional
    on_start : callable, optional
        Called when what this process can check is right, before Ray starts or is asked, which takes seconds.
    statistics : StatisticsSettings, optional
        Of keys that the servers count. Each worker adds them to its rows; see `Enricher`.
    """

    def __init__(
        self,
        spec: ModelSpec,
        open_source: OpenSource,
        options: RayOptions,
        *,
        run: RunFolder | None = None,
        on_window: Sequence[OnWindow] = (),
        on_rows: Callable[[int], object] = lambda rows: None,
        on_start: Callable[[], object] = lambda: None,
        statistics: StatisticsSettings | None = None,
    ):
        self.spec, self.options, self.run_folder = spec, options, run
        self._open_source, self._on_rows, self._on_start = open_source, on_rows, on_start
        self._statistics = statistics
        if statistics is not None:
            check_settings(statistics)
            if options.publish is not None:
                raise DataError("models with statistics cannot be published yet")
        self._book = Bookkeeper(run, on_window, options.checkpoint_rows)
        self._progress = self._book.progress
        self._reason: Reason | None = None
        self._window_mark = self._reading = 0.0

    def run(self) -> RayResult:
        """Train until the rows end, or something stops the training, and leave the model of all shards.

        Raises
        ------
        DataError
            The data or the options cannot be used.
        DivergedError
            Scores are no longer finite.
        BitlaneError
            Ray is missing or does not start, or servers or workers fail again and again.
        """
        options = self.options
        self._book.check_epochs(options.worker.epochs)
        with ExitStack() as stack:
            run = self.run_folder
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()) if run is None else run.path)
            access = new_access(options.tls, options.address is None, token_of(folder), options.ports)
            servers = options.servers or len(shard_folders(folder)) or 1
            folders = prepare_shards(folder, self._new_model, servers)
            if run is not None:
                run.keep()
            self._on_start()
            with cluster(options.address) as ray, Stopping() as stopping, ServingFile(folder, access) as serving:
                check_nodes(ray, access, folder, partial(read_rows, self._open_source))
                counts = self._train(ray, folders, access, stopping, serving)
            model = model_of(self.spec, folders)
            plain = model.model if isinstance(model, EnrichedModel) else model
            plain.rows_seen = self._progress.rows_done
            return self._end(model, counts, servers)

    def _new_model(self) -> AnyModel:
        plain, source = SparseModel(self.spec), self._open_source(0, {})
        if self._statistics is None:
            return begun(plain, source)
        return begun(EnrichedModel(plain, Statistics(self._statistics)), source)

    def _train(
        self, ray: Cluster, folders: Sequence[Path], access: Access, stopping: Stopping, serving: ServingFile
    ) -> WorkerCounts:
        """Start the servers and the workers, and supervise them until the last worker has ended."""
        options, progress = self.options.worker, self._progress
        share = ray.share(len(folders) + options.workers)
        servers = Servers(ray, folders, access, share)
        task = WorkerTask(self.spec, options, self._open_source, access, self._statistics)
        workers = Workers(ray, task, servers, share)
        servers.wait()
        with connected(servers.actors, _DRIVER, access) as group:
            group.begin(options.workers, options.staleness)
            standings = _standings(group.status(), options.workers)
        if sum(rows for _, rows in standings) > progress.rows_done:
            progress.sample = None  # the driver was killed, and with it the sample of what was learned
        merger = ScoreMerger(self.spec.loss, self.options.window_rows, standings, progress.sample)  # type: ignore[arg-type]
        self._resume(merger)
        self._book.saved_rows = merger.rows
        workers.begin(merger)
        self._window_mark = time.perf_counter()
        self._book.start_clock()
        with self._published(servers, access, merger):
            while workers.running:
                if (stopping.asked or self._reason) and not workers.stopping:
                    workers.stop()
                workers.poll(_POLL_SECONDS)
                servers.poll(merger.rows)
                serving.update(_serving(servers, workers))
                self._count(merger, merger.epoch, servers, workers)
        self._reason = "interrupted" if stopping.asked else self._reason
        with connected(servers.actors, _DRIVER, access) as group:
            standings = _standings(group.status(), options.workers)
        servers.stop()
        progress.rows_done = sum(rows for _, rows in standings)
        if not progress.rows_done and self._reason is None:
            raise DataError("the data has no rows")
        self._count(merger, merger.newest + (self._reason is None), servers, workers)
        progress.epoch = options.epochs if self._reason is None else merger.epoch
        progress.scores, progress.labels, progress.weights = merger.begun()
        self._book.tick()
        return workers.counts

    @contextmanager
    def _published(self, servers: Servers, access: Access, merger: ScoreMerger) -> Iterator[None]:
        """Publish versions from the servers, if that is asked for: in this section, and at its end."""
        options = self.options.publish
        if options is None:
            yield
            return
        publisher = ServerPublisher(
            ModelRegistry(options.registry),
            lambda: connected(servers.actors, _PUBLISHER, access),
            self.spec,
            options.data,
            rows_seen=lambda: merger.rows,
            sampled=lambda: self._progress.sample,
        )
        with PeriodicPublisher(publisher, options.seconds) as periodic:
            self._book.on_window.append(periodic.on_window)
            yield

    def _resume(self, merger: ScoreMerger) -> None:
        """Go on with the window and the log of an earlier run; they may be behind the servers, which forget nothing."""
        run, progress = self.run_folder, self._progress
        logged = [line for line in read_log(run.path) if line["kind"] == "window"] if run is not None else []
        if logged and logged[-1]["rows_done"] > progress.rows_done:  # the driver was killed
            progress.seconds = logged[-1]["seconds"]
        else:
            merger.restore(progress.scores, progress.labels, progress.weights)
        progress.rows_done = merger.rows
        if run is not None and progress.log_bytes:
            text = (run.path / run.log.path.name).read_bytes()
            progress.log_bytes = text.rfind(b"\n") + 1
            run.begin()

    def _count(self, merger: ScoreMerger, before: int, servers: Servers, workers: Workers) -> None:
        """Take account of the rows that were learned: progress, windows, checkpoints that are due."""
        new = merger.rows - self._progress.rows_done
        if new > 0:
            self._progress.rows_done = merger.rows
            self._on_rows(new)
        for epoch, scores in merger.windows(before):
            self._window(epoch, scores, servers.table(), workers)
        if self._book.is_checkpoint_due():
            servers.checkpoint()
            self._book.saved_rows = merger.rows

    def _window(self, epoch: int, scores: Scores, table_size: tuple[int, int, int], workers: Workers) -> None:
        self._book.tick()
        now, reading = time.perf_counter(), workers.counts.reading
        window = self._book.record_window(
            epoch,
            scores,
            seconds=now - self._window_mark,
            waited=(reading - self._reading) / self.options.worker.workers,
            table_size=table_size,
        )
        self._window_mark, self._reading = now, reading
        if self._book.asks_to_stop(window):
            self._reason = self._reason or "stopped"

    def _end(self, model: AnyModel, counts: WorkerCounts, servers: int) -> RayResult:
        if self.run_folder is not None:
            self.run_folder.save(self._progress, model.save)
        worked = self._progress.seconds * self.options.worker.workers
        result = self._book.end(self._reason or "finished", waited=counts.reading, worked=worked)
        return RayResult(result, model, counts, servers)


def _standings(status: Sequence[Mapping[str, Any]], workers: int) -> list[tuple[int, int]]:
    """Return the epoch of each worker and the rows that it has learned, as all servers have them."""
    standings = []
    for worker in range(workers):
        offsets = [each["training"]["places"].get(str(worker), {}) for each in status]
        first = min(offsets, key=learned_before)
        standings.append((int(first.get("epoch", 0)), learned_before(first)))
    return standings


def _serving(servers: Servers, workers: Workers) -> dict[str, Any]:
    """What `serving.json` has."""
    return {
        "host": os.uname().nodename,
        "driver": os.getpid(),
        "servers": [{"address": each["address"], "pid": each["pid"]} for each in servers.reports],
        "workers": [{"pid": process} for process in workers.processes],
    }

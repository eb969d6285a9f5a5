"""Publishing a model that goes on learning: now, or every so many seconds in a thread."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.models.model import SparseModel
from bitlane.sparse.parameters.row_sample import RowSample
from bitlane.sparse.registry.manifest import Description, Manifest
from bitlane.sparse.registry.registry import Draft, ModelRegistry
from bitlane.sparse.registry.writing import Written, chain_above, write_version
from bitlane.sparse.servers.cuts import ShardCuts
from bitlane.sparse.servers.partition import Partition
from bitlane.sparse.servers.shard_files import merged, write_cut
from bitlane.sparse.tables.codebooks import Codebook
from bitlane.sparse.training.run_folder import LEARNED
from bitlane.sparse.training.windows import Window, quality_fields

LOG = logging.getLogger("bitlane.sparse")
LONGEST_CHAIN = 50  # deltas of a base, before a publisher writes the next one
_METRICS = ("auc", "log_loss", "rmse", "calibration")
_ONE = Partition(1)

Metrics = Mapping[str, float]
Sampled = Callable[[], "RowSample | None"]


class Publishes(Protocol):
    """What publishes: a `Publisher`, or a `ServerPublisher`."""

    @property
    def rows_seen(self) -> int:
        """Rows that the model has learned."""
        ...

    def publish(self, metrics: Metrics) -> Manifest:
        """Publish the model as it is now."""
        ...


class Publisher:
    """Publishes a model in memory: at first a base, then what has changed since its last version.

    If publishing fails, the next version has these changes too.

    Parameters
    ----------
    registry : ModelRegistry
    model : SparseModel
        Another thread may be learning.
    data : dict, optional
        Of `Description`.
    quiet : context manager, optional
        A section in which no minibatch is half learned: the cut is taken in it. Without it, a model that learns row
        after row is cut between two rows or batches, and one that learns by minibatches must not learn meanwhile.
    longest_chain : int, default=50
        Deltas of a base, before the next base is written.
    codebook : Codebook, optional
        Levels of the values. Default: float32.
    sampled : callable, optional
        Returns the sample of the rows that were learned, if there is one: for the manifest.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        model: SparseModel,
        data: Mapping[str, Any] | None = None,
        *,
        quiet: contextlib.AbstractContextManager[None] | None = None,
        longest_chain: int = LONGEST_CHAIN,
        codebook: Codebook | None = None,
        sampled: Sampled = lambda: None,
    ):
        self.registry = registry
        self._model = model
        self._data, self._sampled = data or {}, sampled
        self._longest, self._codebook = longest_chain, codebook
        self._cuts = ShardCuts(model.parameters, model.matrices, lambda: quiet or contextlib.nullcontext())
        self._last: int | None = None

    @property
    def rows_seen(self) -> int:
        """Rows that the model has learned."""
        return self._model.rows_seen

    def publish(self, metrics: Metrics | None = None) -> Manifest:
        """Publish the model as it is now, and return the manifest; `metrics` are for the manifest.

        Raises
        ------
        BitlaneError
            It cannot be written. No version is there then.
        """
        chain = chain_above(self.registry, self._last, self._longest)
        quantization = None if self._codebook is None else {"bits": self._codebook.bits}
        data = with_sample(self._data, self._sampled())
        description = Description(self._model.spec, data, self.rows_seen, dict(metrics or {}), quantization)

        def write(draft: Draft) -> list[Written]:
            cut = self._cuts.take(
                str(draft.version),
                str(self._last) if chain else None,
                codebook=self._codebook,
                read_parent=lambda: merged(self.registry.shard(chain, 0)),
            )
            return [Written(write_cut(draft.folder, 0, cut), cut.total, cut.clipped)]

        manifest = write_version(self.registry, description, _ONE, chain, write)
        self._last = manifest.version
        return manifest


class PeriodicPublisher:
    """Publishes every so many seconds in a thread, if rows were learned, and when its section ends without an error.

    Parameters
    ----------
    publisher : Publisher or ServerPublisher
    seconds : float, optional
        Default: at the end only.

    Attributes
    ----------
    published : list of Manifest
    """

    def __init__(self, publisher: Publishes, seconds: float | None = None):
        if seconds is not None and seconds <= 0:
            raise DataError(f"seconds between two versions must be above 0; got {seconds:g}")
        self._publisher, self._seconds = publisher, seconds
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._metrics: Metrics = {}
        self.published: list[Manifest] = []

    def on_window(self, window: Window) -> None:
        """Take the metrics of a window for the next version."""
        self._metrics = metrics_of(quality_fields(window.quality))

    def __enter__(self) -> PeriodicPublisher:
        if self._seconds is not None:
            self._thread = threading.Thread(target=self._run, name="bitlane-publisher", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if kind is None:
            self._publish()

    def _run(self) -> None:
        published = 0
        while not self._stop.wait(self._seconds):
            rows = self._publisher.rows_seen
            if rows == published:
                continue
            try:
                self._publish()
                published = rows
            except (BitlaneError, MemoryError) as error:  # the next version has the changes of this one too
                LOG.warning("not published: %s", error or "out of memory")

    def _publish(self) -> None:
        manifest = self._publisher.publish(self._metrics)
        self.published.append(manifest)
        LOG.info("published version %d, a %s of %s bytes", manifest.version, manifest.kind, f"{manifest.nbytes:,}")


def with_sample(data: Mapping[str, Any], sample: RowSample | None) -> Mapping[str, Any]:
    """Return what a manifest keeps of the data of a training, with a sample of the learned rows."""
    return data if sample is None else {**data, LEARNED: sample.as_json()}


def metrics_of(window: Mapping[str, Any]) -> dict[str, float]:
    """Return what a manifest keeps of a window of progressive validation."""
    return {name: window[name] for name in _METRICS if window.get(name) is not None}

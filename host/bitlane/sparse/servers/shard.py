"""A shard: parameters in memory, updated exactly once, with a log and checkpoints from which they are recovered."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitlane.errors import BitlaneError, DataError
from bitlane.sparse.servers import checkpoints
from bitlane.sparse.servers.counts import counts_for
from bitlane.sparse.servers.epochs import LOG, current_folder, next_epoch
from bitlane.sparse.servers.failures import ShardMoved, ShardStopped, reason_of
from bitlane.sparse.servers.log import WriteAheadLog, segments
from bitlane.sparse.servers.reads import CountsWanted, Read, ReadTooEarly
from bitlane.sparse.servers.rounds import TrainingRounds
from bitlane.sparse.servers.shard_folder import SPEC, lock_folder, locked, write_shard
from bitlane.sparse.servers.spec import ShardSpec
from bitlane.sparse.servers.updates import BEGIN, STEP, PendingUpdate, Update, apply_steps, begin_payload, join_dense
from bitlane.support.checkpoint_folders import checkpoints_of, number_of

Keys = NDArray[np.uint64]
Floats = NDArray[np.float32]


class ParameterShard:
    """One server's share of a model. Make one by `create` and `open`; any thread may call any method.

    Each update carries a worker's name and its sequence: 1, 2, and so on, for each shard. The shard checks it, writes
    it to the log, applies it, and returns. An update that was applied before returns at once and changes nothing. The
    updates of threads that wait for each other are written to the log together.

    Attributes
    ----------
    folder : Path
    spec : ShardSpec
    parameters : SparseParameters
    matrices : dict of Matrix
        Those of this server.
    counts : ShardCounts or None
        Of a model with statistics.
    """

    def __init__(self, folder: Path, spec: ShardSpec, *, sync: bool = False, take_over: bool = False):
        self.folder, self.spec, self._sync = folder, spec, sync
        self.parameters, self.matrices = spec.parameters(), spec.own_matrices()
        self.counts = spec.counts()
        self._rounds = TrainingRounds()
        self._sequences: dict[str, int] = {}
        self._stopped, self._moved = "", False
        self._waiting: list[PendingUpdate] = []
        self._guard = threading.Lock()  # of the list
        self._lock = threading.Lock()  # held while updates are committed or a checkpoint is written
        self._stepped = threading.Condition(self._lock)
        with nullcontext() if take_over else locked(current_folder(folder), folder):
            self._epoch = next_epoch(folder)
            self._held = lock_folder(self._epoch.folder, folder)
        try:
            self._log = self._recover()
        except BaseException:
            os.close(self._held)
            raise

    @classmethod
    def create(cls, folder: str | Path, spec: ShardSpec, initial: Mapping[str, Floats] | None = None) -> None:
        """Make the folder of a new shard: description, first checkpoint and log.

        Parameters
        ----------
        folder : str or Path
            Missing, or empty.
        spec : ShardSpec
        initial : dict of float32 arrays, optional
            The first weights of matrices, by name; those of other servers are left out. Default: zeros.

        Raises
        ------
        DataError
            The folder is in use, or first weights have another shape.
        BitlaneError
            It cannot be written.
        """
        parameters, matrices = spec.parameters(), spec.own_matrices()
        for name in matrices.keys() & (initial or {}).keys():
            each = spec.matrices[name]
            matrices[name] = type(matrices[name])(each.shape, each.optimizer, (initial or {})[name])
        write_shard(folder, spec, parameters, matrices)

    @classmethod
    def open(cls, folder: str | Path, *, sync: bool = False, take_over: bool = False) -> ParameterShard:
        """Recover a shard from its last checkpoint and its log, to the bit.

        An earlier server that still lives, on this machine or another, can neither update the shard nor answer for it
        any more; see `epochs`.

        Parameters
        ----------
        folder : str or Path
        sync : bool, default=False
            Acknowledge an update when the disk has it. Otherwise the system has it: that survives the death of the
            process, but not a loss of power.
        take_over : bool, default=False
            Also if another process serves the folder.

        Raises
        ------
        DataError
            The folder has no shard, another process serves it, or a file is damaged.
        """
        return cls(Path(folder), ShardSpec.read(Path(folder) / SPEC), sync=sync, take_over=take_over)

    # --- reading
    def wait_for(self, clock: int, timeout: float) -> None:
        """Wait until a worker at `clock` may read, `timeout` seconds at most.

        Raises
        ------
        ReadTooEarly
            Other workers are still too far behind.
        """
        with self._stepped:
            self._stepped.wait_for(lambda: self._stopped or self._rounds.may_read(clock), timeout)
            self._check_clock(clock)

    def read(self, keys: Keys, worker: str, clock: int, with_state: bool, wanted: CountsWanted | None = None) -> Read:
        """Return rows and matrices for a worker of a training at `clock`.

        They have all steps that `TrainingRounds` promises, and each step completely or not at all.

        Parameters
        ----------
        keys : uint64 [n]
            Distinct. An absent key has the row that its first step will find.
        worker : str
        clock : int
        with_state : bool
            Return rows as they are stored, with the optimizers' state. Otherwise weights alone.
        wanted : CountsWanted, optional
            Return the counts of keys, too.

        Raises
        ------
        ReadTooEarly
            Other workers are too far behind.
        """
        with self._lock:
            self._check_clock(clock)
            self._check_epoch()
            rows = self.parameters.peek(keys)
            dense = {name: each.row if with_state else each.pull() for name, each in self.matrices.items()}
            return Read(
                rows if with_state else self.parameters.weights_of(rows),
                join_dense(dense),
                self._rounds.oldest,
                self._sequences.get(worker, 0),
                *counts_for(self.counts, wanted),
            )

    def standing(self, worker: str) -> tuple[int, int, dict[str, Any]]:
        """Return a worker's last sequence (0 before the first), its clock (else the newest), and its offset."""
        with self._lock:
            self._check_epoch()
            return self._sequences.get(worker, 0), self._rounds.clock_of(worker), self._rounds.offset_of(worker)

    @property
    def progress(self) -> checkpoints.ShardProgress:
        """What the shard has done. Nothing may change as long as it is used."""
        return checkpoints.ShardProgress(1, self._sequences, self._rounds, self.counts)

    # --- updates
    def begin(self, worker: str, sequence: int, workers: int, staleness: int, clock: int) -> int:
        """Begin or resume a training: see `TrainingRounds.begin`. Otherwise as `step`."""
        return self._commit(Update(BEGIN, worker, sequence, begin_payload(workers, staleness, clock)))

    def step(self, worker: str, sequence: int, payload: NDArray[np.uint8]) -> int:
        """Take a worker's step, or hold it until its clock is due.

        Parameters
        ----------
        worker : str
        sequence : int
        payload : uint8 [n]
            `WorkerStep.to_bytes`.

        Returns
        -------
        int
            The worker's last sequence.

        Raises
        ------
        DataError
            A gap before the sequence, or a step that does not fit the model.
        BitlaneError
            The log cannot be written. The update was not applied, and may be sent again.
        """
        return self._commit(Update(STEP, worker, sequence, payload))

    # --- care
    @contextmanager
    def paused(self) -> Iterator[None]:
        """A section in which no update is applied, and reads wait."""
        with self._lock:
            self._check_epoch()
            try:
                yield
            except BitlaneError:
                self._check_epoch()  # a successor removes the files
                raise

    def checkpoint(self) -> Path:
        """Write a checkpoint, then delete the log that it covers. Updates and reads wait.

        Raises
        ------
        BitlaneError
            The disk is full, or fails. The earlier checkpoint and the log remain.
        """
        with self.paused():
            progress = replace(self.progress, segment=self._log.rotate())
            path = checkpoints.save(self._epoch.folder, progress, self.parameters, self.matrices)
            self._log.delete_before(progress.segment)
        return path

    def notice_successor(self) -> None:
        """Stop if another server has taken the shard over; requests notice it by themselves."""
        with self._lock, suppress(ShardStopped):
            self._check_epoch()

    @property
    def stopped(self) -> str:
        """Why the shard takes no more requests; empty as long as it does."""
        return self._stopped

    @property
    def log_bytes(self) -> int:
        """Bytes of the log since the last checkpoint."""
        return self._log.nbytes

    def status(self) -> dict[str, Any]:
        """Return rows, memory, sequences and sizes, as plain values."""
        table = self.parameters.table
        with self._lock:
            return {
                "server": self.spec.server,
                "servers": self.spec.servers,
                "rows": len(table),
                "clock": table.clock,
                "bytes": table.nbytes,
                "data_bytes": table.data_nbytes,
                "memory_over_data": table.nbytes / table.data_nbytes if len(table) else None,
                "sketch_bytes": table.sketch_nbytes,
                "matrices": sorted(self.matrices),
                "sequences": dict(self._sequences),
                "training": {**self._rounds.state(), "held": sum(map(len, self._rounds.held.values()))},
                "log_bytes": self._log.nbytes,
                "log_segments": len(segments(self._epoch.folder / LOG)),
                "dropped_bytes": self._log.dropped,
                "checkpoint": number_of(checkpoints_of(self._epoch.folder)[-1]),
                "stopped": self._stopped,
            }

    def close(self) -> None:
        """Take no more requests, and release the folder. A checkpoint is not written."""
        with self._lock:
            if not self._stopped:
                self._stopped = "it is closed"
            self._stepped.notify_all()
            if self._held >= 0:
                self._log.close()
                os.close(self._held)
                self._held = -1

    # --- inside
    def _recover(self) -> WriteAheadLog:
        folder = self._epoch.folder
        progress = checkpoints.load(folder, self.parameters, self.matrices, self.counts)
        self._sequences, self._rounds = dict(progress.sequences), progress.rounds

        def replay(record: memoryview) -> None:
            update = Update.from_record(record)
            last = self._sequences.get(update.worker, 0)
            if update.sequence != last + 1:
                raise DataError(f"{folder / LOG} is damaged: {update.sequence} follows {last} of {update.worker}")
            update.apply(self.parameters, self.matrices, self._rounds, self.counts)
            self._sequences[update.worker] = update.sequence

        return WriteAheadLog.open(folder / LOG, progress.segment, replay)

    def _commit(self, update: Update) -> int:
        update.check(self.parameters, self.matrices, self._rounds, self.counts)
        request = PendingUpdate(update)
        with self._guard:
            self._waiting.append(request)
        with self._lock:
            if not request.done:
                with self._guard:
                    group, self._waiting = self._waiting, []
                self._commit_group(group)
        if request.error is not None:
            raise request.error
        return request.last

    def _commit_group(self, group: list[PendingUpdate]) -> None:
        """Write the updates of all requests to the log, at once, then apply them in order."""
        updates: list[Update] = []
        sequences: dict[str, int] = {}
        for request in group:
            try:
                self._check_running()
                update = self._due(request.update, sequences)
                request.last = sequences[request.update.worker]
                updates += [] if update is None else [update]
            except Exception as error:
                request.fail(error)
        try:
            if updates:
                self._write(updates)
            self._check_epoch()  # behind the log: what is acknowledged is in the log that a successor takes over
            if updates:
                self._apply(updates)
                self._sequences.update(sequences)
            for request in group:
                request.done = True
            self._stepped.notify_all()
        except Exception as error:
            for request in group:
                if not request.done:
                    request.fail(error)

    def _due(self, update: Update, sequences: dict[str, int]) -> Update | None:
        """Return what is to be logged and applied: None if that was done before.

        `sequences` is set to the worker's last one after the update.
        """
        last = sequences.setdefault(update.worker, self._sequences.get(update.worker, 0))
        if update.sequence <= last:
            if update.kind == STEP:
                self._rounds.advance(update.step)
                due = self._rounds.release()
                apply_steps(due, self.parameters, self.matrices, self._rounds.workers, self.counts)
            return None
        if update.sequence != last + 1:
            raise DataError(
                f"missing updates of worker {update.worker!r}: got sequence {update.sequence}, expected {last + 1}"
            )
        sequences[update.worker] = update.sequence
        return update

    def _write(self, updates: list[Update]) -> None:
        try:
            self._log.append([update.buffers() for update in updates])
        except BitlaneError:
            self._check_epoch()  # a successor removes the files
            raise
        if self._sync:
            try:
                self._log.sync()
            except BitlaneError as error:  # the contents of the disk are unknown
                self._stopped = f"{error}; start it again"
                raise ShardStopped(f"the shard in {self.folder} has stopped: {self._stopped}") from error

    def _apply(self, updates: list[Update]) -> None:
        try:
            for update in updates:
                update.apply(self.parameters, self.matrices, self._rounds, self.counts)
        except BaseException as error:
            self._stopped = f"an update failed: {reason_of(error)}; start it again"
            raise ShardStopped(f"the shard in {self.folder} has stopped: {self._stopped}") from error

    def _check_clock(self, clock: int) -> None:
        self._check_running()
        if not self._rounds.may_read(clock):
            lagging = ", ".join(map(str, self._rounds.lagging(clock)))
            raise ReadTooEarly(f"at clock {clock} a worker waits for worker {lagging}")

    def _check_epoch(self) -> None:
        self._check_running()
        try:
            if self._epoch.is_over:
                self._moved, self._stopped = True, "another server has taken it over"
        except OSError as error:
            self._stopped = f"{self.folder} cannot be read: {reason_of(error)}"
        self._check_running()

    def _check_running(self) -> None:
        if self._moved:
            raise ShardMoved(f"the shard in {self.folder} has stopped: {self._stopped}")
        if self._stopped:
            raise ShardStopped(f"the shard in {self.folder} has stopped: {self._stopped}")

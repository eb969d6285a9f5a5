"""The training loop with a small model: windows, order, stopping, threads. (Resumption: test_resume.py.)"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.sparse_training import RowsSource, RowsStream, TinyModel, some_rows

from bitlane.errors import DataError
from bitlane.sparse.batches.batch import Batch
from bitlane.sparse.training.log import read_log
from bitlane.sparse.training.loop import SparseTrainingOptions, Trainer
from bitlane.sparse.training.run_folder import RunFolder
from bitlane.sparse.training.windows import Window, describe, measure

ROWS = 330


def expected_scores(source: RowsSource, epochs: int) -> list[np.ndarray]:
    """Scores of each epoch, by one call of `learn` an epoch."""
    model = TinyModel()
    return [model.learn(source.epoch_rows(epoch)) for epoch in range(epochs)]


@pytest.mark.parametrize("size", [1, 64, 1000])
def test_windows_measure_the_scores_before_each_row_was_learned(seed: int, size: int) -> None:
    source, model = RowsSource(some_rows(seed, ROWS), size), TinyModel()
    result = Trainer(model, source, SparseTrainingOptions(epochs=2, window_rows=100)).run()
    parts = [(epoch, start, min(start + 100, ROWS)) for epoch in range(2) for start in range(0, ROWS, 100)]
    scores = expected_scores(source, 2)
    assert len(result.windows) == len(parts)
    for window, (epoch, start, stop) in zip(result.windows, parts, strict=True):
        labels = source.epoch_rows(epoch).labels[start:stop]
        assert window.quality == measure(scores[epoch][start:stop], labels, "log_loss")
        assert (window.epoch, window.rows_done) == (epoch, epoch * ROWS + stop)
    assert (result.reason, result.rows_done, model.rows_seen) == ("finished", 2 * ROWS, 2 * ROWS)
    assert source.open == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_piece_alone_is_what_a_model_begins_with(threads: int, seed: int) -> None:
    """No later piece, and not that of a second epoch."""
    source, begun = RowsSource(some_rows(seed, ROWS), ordered=True), []
    model = TinyModel()
    model.begin = begun.append
    options = SparseTrainingOptions(epochs=2, window_rows=100, threads=threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of threads
        Trainer(model, source, options).run()
    (first,) = begun
    assert np.array_equal(first.keys, source.rows.slice(0, 100).keys) and first.rows == 100


def test_minibatches_are_never_cut(seed: int) -> None:
    model = TinyModel(batch_rows=16)
    result = Trainer(model, RowsSource(some_rows(seed, 100), 23), SparseTrainingOptions(window_rows=40)).run()
    assert [window.quality.rows for window in result.windows] == [48, 48, 4]
    assert all(rows % 16 == 0 for rows in model.pieces[:-1])


def test_pieces_are_short_enough_to_stop_between_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 50)
    model = TinyModel()
    Trainer(model, RowsSource(some_rows(seed, ROWS), 1000)).run()
    assert model.pieces == [50] * 6 + [30]


def test_the_next_epoch_is_read_while_the_last_piece_is_learned(seed: int) -> None:
    reading = threading.Event()

    class Waiting(TinyModel):
        def learn(self, batch: Batch) -> np.ndarray:
            assert self.rows_seen < 70 or reading.wait(30)
            return super().learn(batch)

    epochs: list[int] = []

    def before(first: int) -> None:
        epochs.append(first)
        if epochs.count(0) == 2:
            reading.set()

    Trainer(Waiting(), RowsSource(some_rows(seed, 100), 100, before), SparseTrainingOptions(2, window_rows=70)).run()
    assert epochs == [0, 0]


def test_a_callback_stops(seed: int) -> None:
    seen: list[Window] = []

    def stop(window: Window) -> bool:
        seen.append(window)
        return len(seen) == 2

    source = RowsSource(some_rows(seed, ROWS))
    result = Trainer(
        TinyModel(), source, SparseTrainingOptions(window_rows=100), on_window=[stop, lambda _: None]
    ).run()
    assert (result.reason, result.rows_done) == ("stopped", 200)
    assert tuple(seen) == result.windows
    assert source.open == 0


def test_keys_expire_at_the_end_of_windows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitlane.sparse.training.loop.CLOCK_ROWS", 10)
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 50)
    model = TinyModel()
    options = SparseTrainingOptions(epochs=2, window_rows=100, expire_rows=80)
    Trainer(model, RowsSource(some_rows(seed, 130)), options).run()
    ticks = [("tick", rows // 10) for rows in (0, 50, 100, 130, 180, 230)]
    sweeps = [("sweep", None, max(0, rows - 80) // 10) for rows in (100, 130, 230, 260)]
    expected = [*ticks[:2], sweeps[0], ticks[2], sweeps[1], *ticks[3:5], sweeps[2], ticks[5], sweeps[3]]
    assert model.parameters.table.calls == expected


def test_a_model_is_told_that_an_epoch_begins(seed: int, tmp_path: Path) -> None:
    begun: list[int] = []

    class Told(TinyModel):
        def begin_epoch(self) -> None:
            begun.append(self.rows_seen)

    source, options = RowsSource(some_rows(seed, 130)), SparseTrainingOptions(epochs=2, window_rows=100)
    with RunFolder.create(tmp_path / "run", {}) as run:
        Trainer(Told(), source, options, run=run, on_window=[lambda window: window.rows_done == 100]).run()
    with RunFolder.resume(tmp_path / "run") as run:
        Trainer(Told.load(run.model), source, options, run=run).run()
    assert begun == [0, 130]


def test_keys_without_weight_are_dropped(seed: int) -> None:
    model = TinyModel()
    Trainer(model, RowsSource(some_rows(seed, 130)), SparseTrainingOptions(window_rows=100, drop_zeros=True)).run()
    assert model.parameters.table.calls == [("sweep", "has_weight", None)] * 2
    model = TinyModel()
    Trainer(model, RowsSource(some_rows(seed, 130)), SparseTrainingOptions(window_rows=100)).run()
    assert model.parameters.table.calls == []


def test_windows_have_the_size_of_the_table(seed: int) -> None:
    (window,) = Trainer(TinyModel(), RowsSource(some_rows(seed, 50))).run().windows
    assert (window.table_rows, window.table_bytes, window.memory_over_data) == (16, 120, 1.2)


def test_rows_are_reported_as_they_are_learned(seed: int) -> None:
    counts: list[int] = []
    options = SparseTrainingOptions(window_rows=100)
    Trainer(TinyModel(), RowsSource(some_rows(seed, ROWS)), options, on_rows=counts.append).run()
    assert counts == [100, 100, 100, 30]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_training_after_the_piece(seed: int, number: int, tmp_path: Path) -> None:
    model = TinyModel()
    before = signal.getsignal(number)

    def interrupt(window: Window) -> None:
        if window.rows_done == 200:
            os.kill(os.getpid(), number)

    with RunFolder.create(tmp_path / "run", {}) as run:
        source = RowsSource(some_rows(seed, ROWS))
        result = Trainer(model, source, SparseTrainingOptions(window_rows=100), run=run, on_window=[interrupt]).run()
    assert (result.reason, result.rows_done) == ("interrupted", 200)
    assert source.open == 0
    assert read_log(tmp_path / "run")[-1]["reason"] == "interrupted"
    assert TinyModel.load(tmp_path / "run/model").weights.tolist() == model.weights.tolist()
    assert signal.getsignal(number) is before


def test_a_signal_ends_the_wait_for_a_source(seed: int) -> None:
    """A stream that waits for data for ever."""

    def wait(first: int) -> None:
        if first >= 140:
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(60)

    source = RowsStream(some_rows(seed, ROWS), 70, before=wait)
    model = TinyModel()
    started = time.monotonic()
    result = Trainer(model, source, SparseTrainingOptions(window_rows=70)).run()
    assert time.monotonic() - started < 30
    assert (result.reason, result.rows_done, model.rows_seen) == ("interrupted", 140, 140)


def test_a_second_signal_ends_at_once(seed: int) -> None:
    def twice(_: Window) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)  # ignored, where a script runs the tests in the background
    with pytest.raises(KeyboardInterrupt):
        Trainer(
            TinyModel(), RowsSource(some_rows(seed, ROWS)), SparseTrainingOptions(window_rows=100), on_window=[twice]
        ).run()
    assert signal.getsignal(signal.SIGINT) is before


def test_training_in_another_thread_leaves_the_signals_alone(seed: int) -> None:
    done: list[str] = []
    trainer = Trainer(TinyModel(), RowsSource(some_rows(seed, ROWS)))
    thread = threading.Thread(target=lambda: done.append(trainer.run().reason))
    thread.start()
    thread.join()
    assert done == ["finished"]


class WatchedModel(TinyModel):
    """Fails if it is saved while rows are being learned; counts threads and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.lock, self.running, self.most, self.saves = threading.Lock(), 0, 0, 0

    def learn(self, batch):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.005)
        with self.lock:
            self.running -= 1
            self.rows_seen += batch.rows
        return np.repeat(np.float32(self.rows_seen), batch.rows) * 0

    def save(self, folder: Path) -> None:
        assert self.running == 0
        self.saves += 1


def test_no_piece_is_learned_while_keys_are_removed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 10)
    model, running = WatchedModel(), []
    table = model.parameters.table
    table.sweep = lambda *_: running.append(model.running) or 0
    options = SparseTrainingOptions(threads=3, window_rows=100, drop_zeros=True)
    with pytest.warns(UserWarning, match="Hogwild"):
        Trainer(model, RowsSource(some_rows(seed, ROWS), 25), options).run()
    assert running == [0, 0, 0, 0]


def test_threads_learn_every_row_once_and_rest_during_checkpoints(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bitlane.sparse.periods.PIECE_ROWS", 10)
    rows, model = some_rows(seed, ROWS), WatchedModel()
    options = SparseTrainingOptions(epochs=2, threads=3, window_rows=100, checkpoint_rows=150)
    with RunFolder.create(tmp_path / "run", {}) as run, pytest.warns(UserWarning, match="Hogwild"):
        result = Trainer(model, RowsSource(rows, 25), options, run=run).run()
    assert model.rows_seen == 2 * ROWS == result.rows_done
    assert model.most == 3
    assert model.saves >= 4
    assert [window.quality.rows for window in result.windows] == [100, 100, 100, 30] * 2


def test_an_error_of_a_thread_ends_the_training(seed: int) -> None:
    class Failing(TinyModel):
        def learn(self, batch):
            raise DataError("labels must be 0 or 1")

    source = RowsSource(some_rows(seed, ROWS))
    with pytest.warns(UserWarning, match="Hogwild"), pytest.raises(DataError, match="labels must be"):
        Trainer(Failing(), source, SparseTrainingOptions(threads=2)).run()
    assert source.open == 0


def test_an_error_of_the_source_leaves_no_folder(seed: int, tmp_path: Path) -> None:
    def fail(first: int) -> None:
        if first >= 140:
            raise DataError("rows.csv, row 141: no label")

    with (
        pytest.raises(DataError, match="row 141"),
        RunFolder.create(tmp_path / "new" / "run", {}) as run,
    ):
        Trainer(TinyModel(), RowsSource(some_rows(seed, ROWS), 70, fail), run=run).run()
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_source_keeps_the_last_checkpoint(seed: int, tmp_path: Path) -> None:
    def fail(first: int) -> None:
        if first >= 280:
            raise DataError("rows.csv, row 281: no label")

    options = SparseTrainingOptions(window_rows=70, checkpoint_rows=200)
    with pytest.raises(DataError, match="row 281"), RunFolder.create(tmp_path / "run", {}) as run:
        Trainer(TinyModel(), RowsSource(some_rows(seed, ROWS), 70, fail), options, run=run).run()
    assert TinyModel.load(tmp_path / "run/model").rows_seen == 210


def test_a_diverging_training_ends_with_its_reason(seed: int) -> None:
    class Diverging(TinyModel):
        def learn(self, batch):
            return np.full(batch.rows, np.nan, np.float32)

    with pytest.raises(DataError, match="lower the learning rate"):
        Trainer(Diverging(), RowsSource(some_rows(seed, ROWS))).run()


def test_data_without_rows_is_an_error(seed: int) -> None:
    with pytest.raises(DataError, match="no rows"):
        Trainer(TinyModel(), RowsSource(some_rows(seed, 0))).run()


@pytest.mark.parametrize("name", ["epochs", "threads", "window_rows", "checkpoint_rows"])
def test_options_are_checked(name: str) -> None:
    with pytest.raises(DataError, match=f"{name}=-1"):
        SparseTrainingOptions(**{name: -1})


def test_waiting_is_the_share_of_a_slow_source(seed: int) -> None:
    rows, options = some_rows(seed, 40), SparseTrainingOptions(window_rows=10)
    slow = Trainer(TinyModel(), RowsSource(rows, 10, lambda _: time.sleep(0.05)), options).run()
    fast = Trainer(TinyModel(delay=0.05), RowsSource(rows, 10), options).run()
    assert slow.waiting > 0.5 > fast.waiting
    assert all(window.waiting > 0.3 for window in slow.windows)
    assert all(window.seconds >= 0.05 for window in slow.windows)


def test_time_of_callbacks_is_not_that_of_the_training(seed: int) -> None:
    options = SparseTrainingOptions(window_rows=100)
    slow = Trainer(TinyModel(), RowsSource(some_rows(seed, ROWS)), options, on_window=[lambda _: time.sleep(0.2)]).run()
    assert slow.seconds < 0.8


def test_a_window_as_a_line_for_people() -> None:
    text = describe(
        Window(
            0,
            2000,
            measure(np.zeros(4, np.float32), np.array([0, 1, 0, 1], np.float32), "log_loss"),
            1.0,
            12345.6,
            0.013,
            7,
            84,
            1.1,
        )
    )
    assert text == (
        "epoch 1, 2,000 rows, AUC 0.5000, log loss 0.6931, calibration 1.000, 12,346 rows/s, waiting 1.3%, 7 keys"
    )

"""Several devices: spread targets have the bits of one device; shards equal a textbook that averages plain integers."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.failing_device import FailsInRun
from tests.helpers.training_tables import signs, table
from tests.helpers.trainings import training_options

from bitlane.contract.modes import ErrorCode
from bitlane.contract.precision import Precision
from bitlane.contract.prng import SEED_STEP
from bitlane.devices.emulator import EmulatorDevice
from bitlane.errors import DataError, DeviceError
from bitlane.training import samples
from bitlane.training.checkpoint import Checkpoint
from bitlane.training.fingerprint import fingerprint
from bitlane.training.several import train_on_several, weighted_mean
from bitlane.training.train import train

BATCH = 8


def options_of(**more):
    return training_options(
        **{
            "precision": Precision(4),
            "epochs": 5,
            "batch_size": BATCH,
            "learning_rate": 0.1,
            "decay": 0.9,
            "draws": 3,
            **more,
        }
    )


def devices(count, **build):
    return [emulator(8 << 20, **build) for _ in range(count)]


def same(one, other):
    """Assert that two trainings gave the same bits and losses; both have snapshots."""
    assert one.checkpoint().master.tolist() == other.checkpoint().master.tolist()
    assert one.checkpoint().settings == other.checkpoint().settings
    assert one.loss.tolist() == other.loss.tolist()
    assert one.snapshots.tolist() == other.snapshots.tolist()


def textbook(X, y, options, shards, every, monkeypatch):
    """Masters [epochs / every][targets][s] and losses [epochs][targets] of shards, one by one on a single emulator."""
    whole = train(X, y, options, EmulatorDevice(), snapshots=True)
    first, rows, size = whole._first, len(X), options.batch_size
    batches = (rows + size - 1) // size
    bounds = [min(batches * k // shards * size, rows) for k in range(shards)] + [rows]
    numbered = samples.row_words
    settings, master, masters, losses = first.settings, first.master, [], []
    for begin in range(0, options.epochs, every):
        end, models, sums = min(begin + every, options.epochs), [], []
        for start, stop in pairwise(bounds):
            part = X[start:stop], y.reshape(rows, -1)[start:stop]
            before = start // size * (end - begin)
            seeds = [(each.seed + before * SEED_STEP) % 2**32 for each in settings]
            state = replace(
                first,
                epoch=begin,
                master=master,
                settings=tuple(replace(each, seed=seed) for each, seed in zip(settings, seeds, strict=True)),
                fingerprint=fingerprint(*part),
            )
            with monkeypatch.context() as patch:
                patch.setattr(
                    samples,
                    "row_words",
                    lambda word, rows, by=start: numbered(word, range(rows.start + by, rows.stop + by)),
                )
                run = train(*part, replace(options, epochs=end), EmulatorDevice(), start=state)
            models.append(run.checkpoint().master.tolist())
            sums.append(run.loss.reshape(end - begin, -1))
        counts = [stop - start for start, stop in pairwise(bounds)]
        mean = [
            [
                (2 * sum(n * model[t][j] for n, model in zip(counts, models, strict=True)) + rows) // (2 * rows)
                for j in range(len(models[0][t]))
            ]
            for t in range(len(settings))
        ]
        master = np.array(mean, np.int32)
        masters.append(mean)
        losses += np.average(sums, axis=0, weights=counts).tolist()
        settings = whole.checkpoint(end).settings  # registers advance as on one device
    return masters, losses


@pytest.mark.parametrize(
    ("more", "shards", "every", "targets"),
    [
        ({}, 2, 1, 1),
        ({"draws": "epoch", "penalty": "l2", "alpha": 0.03}, 3, 2, 1),
        ({"precision": Precision(4, "naive")}, 2, 1, 1),
        ({"precision": Precision(32, "full"), "batch_size": 5}, 4, 3, 1),
        ({"loss": "log_loss", "class_weight": (1, 2.5), "staleness": 1}, 3, 1, 2),
        ({"loss": "hinge", "precision": Precision(3, codebook=True), "levels": "optimal"}, 2, 5, 1),
    ],
)
def test_shards_equal_the_textbook(seed, monkeypatch, more, shards, every, targets):
    X, y = table(seed, rows=150 + seed % 50, n=9, targets=targets)
    y = signs(y) if "loss" in more else y
    options = options_of(seed=seed % 1000, **more)
    options = replace(options, average_every=every)
    slots = options.precision.level_slots
    if slots:
        monkeypatch.setattr("tests.host.training.test_several.EmulatorDevice", lambda: emulator(level_slots=slots))
    run = train_on_several(X, y, options, devices(shards, level_slots=slots), snapshots=True)
    masters, losses = textbook(X, y, replace(options, average_every=1), shards, every, monkeypatch)
    assert run.loss.reshape(5, -1).tolist() == losses
    for number, master in enumerate(masters, 1):
        assert run.checkpoint(min(number * every, 5)).master.tolist() == master
    assert run.settings["shards"] == shards and run.settings["rows"] == len(X)


def test_random_rounding_has_other_words_in_each_shard(seed, monkeypatch):
    X, y = table(seed, rows=90, n=5)
    options = options_of(seed=seed % 1000, model_bits=8, gradient_bits=6)
    monkeypatch.setattr("tests.host.training.test_several.EmulatorDevice", lambda: emulator(random_rounding=True))
    run = train_on_several(X, y, options, devices(2, random_rounding=True))
    assert run.checkpoint().master.tolist() == textbook(X, y, options, 2, 1, monkeypatch)[0][-1]


@pytest.mark.parametrize(
    ("more", "outputs", "targets", "count"),
    [
        ({}, 1, 5, 2),
        ({"penalty": "l2", "alpha": 0.01, "shuffle": True}, 2, 5, 3),
        ({"loss": "hinge", "class_weight": [(1, 1), (1, 3), (1, 1)], "shuffle": True}, 2, 3, 2),
        ({"loss": "log_loss", "draws": "epoch"}, 1, 2, 1),
    ],
)
def test_spread_targets_have_the_bits_of_one_device(seed, more, outputs, targets, count):
    X, y = table(seed, rows=101, n=9, targets=targets)
    y = signs(y) if "loss" in more else y
    options = options_of(seed=seed % 1000, **more)
    one = train(X, y, options, emulator(outputs=outputs), snapshots=True)
    reported, run = [], None
    run = train_on_several(
        X,
        y,
        options,
        devices(count, outputs=outputs),
        snapshots=True,
        on_epoch=lambda epoch, loss: reported.append((epoch, loss)),
    )
    same(run, one)
    assert run.coef.tolist() == one.coef.tolist() and run.intercept.tolist() == one.intercept.tolist()
    assert len(reported) == 5 * run.passes and run.passes == one.passes
    assert (run.beats, run.saturations, run.launches) == (one.beats, one.saturations, one.launches)
    assert run.stalls == one.stalls and run.epoch_bytes.tolist() == one.epoch_bytes.tolist()
    most = -(-run.passes // count)  # passes of the busiest device; all take the same cycles
    assert run.cycles * one.passes == one.cycles * most
    assert (run.epoch_cycles * one.passes).tolist() == (one.epoch_cycles * most).tolist()
    assert run.device == ", ".join(["emulator"] * count) and run.settings["shards"] == 1


def test_ten_classes_on_two_devices_take_half_the_cycles(seed):
    X, y = table(seed, rows=80, n=40, targets=10)
    one, two = (train_on_several(X, signs(y), options_of(loss="hinge"), devices(n)) for n in (1, 2))
    assert one.cycles >= 1.9 * two.cycles


def test_shards_take_a_share_of_the_cycles(seed):
    X, y = table(seed, rows=2000, n=64)
    cycles = [train_on_several(X, y, options_of(), devices(n)).cycles for n in (1, 2, 4)]
    assert cycles[0] >= 1.9 * cycles[1] and cycles[0] >= 3.5 * cycles[2]


def test_counters_of_shards_add_up_and_the_busiest_counts(seed):
    X, y = table(seed, rows=9 * BATCH, n=9, targets=1)
    options, reported = options_of(epochs=2), []
    run = train_on_several(X, y, options, devices(2), on_epoch=lambda *each: reported.append(each))
    parts = [
        train(X[rows], y[rows], replace(options, epochs=1), EmulatorDevice()) for rows in (slice(32), slice(32, 72))
    ]
    assert run.cycles == 2 * parts[1].cycles
    assert run.epoch_cycles.tolist() == [parts[1].epoch_cycles[0], parts[1].cycles + parts[1].epoch_cycles[0]]
    assert run.beats == 2 * (parts[0].beats + parts[1].beats) and run.launches == 4
    assert run.bound.raw == 2 * parts[1].bound.raw
    assert reported == [*enumerate(run.loss)]


@pytest.mark.parametrize(("every", "kept"), [(1, 3), (2, 2), (2, 4)])
def test_a_resumed_training_equals_one_that_never_stopped(seed, tmp_path, every, kept):
    """Also with another number of devices: the bits depend on the shards."""
    X, y = table(seed, rows=120, n=6)
    options = replace(options_of(seed=seed % 1000, shuffle=True, penalty="l2", alpha=0.01), average_every=every)
    whole = train_on_several(X, y, options, devices(3), snapshots=True)
    stopped = train_on_several(X, y, replace(options, epochs=kept), devices(3))
    stopped.checkpoint().save(tmp_path / "c.npz")
    loaded = Checkpoint.load(tmp_path / "c.npz")
    for start in (loaded, whole.checkpoint(kept)):
        for count in (1, 2, 3):
            run = train_on_several(X, y, options, devices(count), start=start, snapshots=True)
            assert run.first_epoch == kept and run.checkpoint().settings == whole.checkpoint().settings
            assert run.snapshots.tolist() == whole.snapshots[kept:].tolist()
            assert run.loss.tolist() == whole.loss[kept:].tolist()


def test_a_checkpoint_within_a_round_is_refused(seed):
    X, y = table(seed, rows=64, n=4)
    options = replace(options_of(epochs=3), average_every=2)
    run = train_on_several(X, y, options, devices(2), snapshots=True)
    with pytest.raises(DataError, match="epoch=1: shards are averaged every 2"):
        run.checkpoint(1)
    with pytest.raises(DataError, match="the checkpoint has 3 epochs, but shards are averaged every 2"):
        train_on_several(X, y, replace(options, epochs=5), devices(2), start=run.checkpoint())
    with pytest.raises(DataError, match="average_every=1, but the checkpoint was trained with 2"):
        train_on_several(X, y, options_of(epochs=5), devices(2), start=run.checkpoint(2))
    with pytest.raises(DataError, match="shards=2: train them with"):
        train(X, y, replace(options, shards=2, epochs=5), EmulatorDevice(), start=run.checkpoint(2))


def test_a_device_without_work_is_reported(seed):
    X, y = table(seed, rows=64, n=4)
    start = train(X, y, options_of(epochs=1), EmulatorDevice()).checkpoint()
    with pytest.warns(UserWarning, match="1 of 2 devices have work"):
        train_on_several(X, y, options_of(), devices(2), start=start)


@pytest.mark.parametrize("targets", [1, 4])
def test_a_failure_names_the_device_and_its_part(seed, targets):
    X, y = table(seed, rows=200, n=6, targets=targets)
    several = [*devices(1), emulator(8 << 20, FailsInRun)]
    part = "targets? 3" if targets > 1 else "shard 2 of 2, rows 96 to 199"
    with pytest.raises(
        DeviceError, match=rf"device 2 of 2 \(emulator\), {part}: emulator ended with READ_DECODE"
    ) as error:
        train_on_several(X, y, options_of(), several)
    assert error.value.code == ErrorCode.READ_DECODE
    assert [device.allocated for device in several] == [0, 0]
    train(X, y, options_of(epochs=1), several[0])  # it can be used again


@pytest.mark.parametrize("targets", [1, 6])
def test_the_others_continue_with_the_same_bits(seed, targets):
    X, y = table(seed, rows=200, n=6, targets=targets)
    options = options_of(seed=seed % 1000)
    expected = train_on_several(X, y, options, devices(3), snapshots=True)
    several = [*devices(1), emulator(8 << 20, FailsInRun), *devices(1)]
    with pytest.warns(UserWarning, match=r"device 2 of 3 \(emulator\).*; 2 of 3 devices continue with its work"):
        run = train_on_several(X, y, options, several, snapshots=True, on_device_failure="continue")
    same(run, expected)
    assert run.cycles > expected.cycles
    assert [device.allocated for device in several] == [0, 0, 0]


def test_a_device_that_fails_before_any_other_has_work_is_replaced(seed):
    """One pass and two devices, as after resuming a training of one device; the first device fails at once."""
    X, y = table(seed, rows=64, n=4)
    start = train(X, y, options_of(epochs=1), EmulatorDevice()).checkpoint()
    failing = emulator(8 << 20, FailsInRun)
    train(X, y, options_of(epochs=1), failing)
    with pytest.warns(UserWarning, match="1 of 2 devices"):
        run = train_on_several(X, y, options_of(), [failing, *devices(1)], start=start, on_device_failure="continue")
    assert run.coef.tolist() == train(X, y, options_of(), EmulatorDevice()).coef.tolist()


def test_the_last_device_that_fails_ends_the_training(seed):
    X, y = table(seed, rows=200, n=6)
    several = [emulator(8 << 20, FailsInRun) for _ in range(2)]
    with pytest.warns(UserWarning, match="1 of 2 devices"), pytest.raises(DeviceError, match="device 2 of 2"):
        train_on_several(X, y, options_of(), several, on_device_failure="continue")


def test_an_error_of_the_user_stops_all_devices(seed):
    X, y = table(seed, rows=200, n=6, targets=4)
    several, calls = devices(2), []

    def stop(epoch, loss):
        calls.append(epoch)
        if len(calls) == 1:
            raise KeyError("enough")
        time.sleep(0.02)

    with pytest.raises(KeyError, match="enough"):
        train_on_several(X, y, options_of(epochs=2000), several, on_epoch=stop)
    assert len(calls) < 2000 and [device.allocated for device in several] == [0, 0]


@pytest.mark.parametrize(
    ("several", "rows", "options", "on_failure", "says"),
    [
        ([], 64, {}, "raise", "empty list"),
        (devices(3), 9, {}, "raise", "X has 2 batches of 8 rows, but there are 3 shards"),
        (
            [emulator(), emulator(width=128)],
            64,
            {},
            "raise",
            r"device 2 \(emulator\) has width=128, but device 1 \(emulator\) has width=64: use devices",
        ),
        (devices(1) * 2, 64, {}, "raise", "a device is listed twice"),
        (devices(2), 64, {"class_weight": [(1, 1), (1, 2)]}, "raise", "class_weight has 2 pairs, but y has 1 targets"),
        (devices(2), 64, {}, "stop", "on_device_failure='stop': choose one of 'raise', 'continue'"),
    ],
)
def test_what_cannot_be_used_is_refused(several, rows, options, on_failure, says):
    X, y = table(0, rows=rows, n=3)
    with pytest.raises(DataError, match=says):
        train_on_several(X, y, options_of(**options), several, on_device_failure=on_failure)
    assert all(device.allocated == 0 for device in several)


def test_means_are_exact_at_the_ends_of_the_range(seed):
    rng = np.random.default_rng(seed)
    rows = [int(each) for each in rng.integers(1, 1 << 27, 5)]
    masters = rng.integers(-(1 << 31), 1 << 31, (5, 2, 7)).astype(np.int32)
    masters[:, 0, 0], masters[:, 0, 1] = -(1 << 31), (1 << 31) - 1
    total = sum(rows)
    for place in np.ndindex(2, 7):
        exact = sum(n * int(each[place]) for n, each in zip(rows, masters, strict=True))
        assert weighted_mean(masters, rows)[place] == (2 * exact + total) // (2 * total)

"""Checkpoints: a resumed training equals an uninterrupted one bit for bit."""

import dataclasses
import json

import numpy as np
import pytest
from tests.helpers.emulators import emulator, fastest
from tests.helpers.trainings import trained
from tests.host.training.test_train import signs, table

from bitlane.contract.geometry import Geometry
from bitlane.contract.packing import pack_base
from bitlane.contract.precision import Precision
from bitlane.contract.state import ModelState
from bitlane.driver.driver import Driver
from bitlane.driver.job import Job
from bitlane.errors import DataError
from bitlane.training.checkpoint import Checkpoint, advanced
from bitlane.training.fingerprint import fingerprint
from bitlane.training.objective import Objective

DOUBLE = {"precision": Precision(4), "epochs": 5, "batch_size": 9, "learning_rate": 0.3, "decay": 0.8}


def same(resumed, whole, epoch):
    """Assert that a run resumed at `epoch` equals the uninterrupted run; both have snapshots."""
    assert resumed.first_epoch == epoch
    assert resumed.loss.tolist() == whole.loss[epoch:].tolist()
    assert resumed.snapshots.tolist() == whole.snapshots[epoch:].tolist()
    assert np.array_equal(resumed.coef, whole.coef) and np.array_equal(resumed.intercept, whole.intercept)
    mine, theirs = resumed.checkpoint(), whole.checkpoint()
    assert mine.master.tolist() == theirs.master.tolist() and mine.settings == theirs.settings


@pytest.mark.parametrize(
    ("options", "outputs", "targets"),
    [
        ({}, 1, 1),
        ({"penalty": "l2", "alpha": 0.0123}, 1, 1),  # the phase of the shrinks continues
        ({"penalty": "l1", "alpha": 0.001, "staleness": 1}, 1, 1),
        ({"draws": 2, "bounds": (-0.25, 0.25), "loss": "hinge"}, 2, 3),  # two passes with one unused output
        ({"draws": 3, "precision": Precision(4, "naive"), "loss": "log_loss", "class_weight": (1, 2.5)}, 3, 3),
        (
            {"loss": "log_loss", "penalty": "l2", "alpha": 0.02, "class_weight": [(1, 1), (1, 3), (1, 1)], "seed": 3},
            2,
            3,
        ),
        ({"precision": Precision(6, "nearest"), "draws": "once", "shuffle": True, "fit_intercept": False}, 2, 2),
        ({"precision": Precision(3, codebook=True), "levels": "optimal", "shuffle": True, "staleness": 1}, 2, 3),
        ({"precision": Precision(5, codebook=True), "loss": "hinge", "draws": 2}, 1, 1),
    ],
    ids=lambda value: ",".join(map(str, value)) if isinstance(value, dict) else str(value),
)
def test_stopped_after_each_epoch_and_resumed(seed, tmp_path, options, outputs, targets):
    X, y = table(seed, rows=101, n=7, targets=targets)
    y = signs(y) if "loss" in options else y
    options = {**DOUBLE, "seed": seed, "snapshots": True, **options}

    def run(**more):
        device = emulator(outputs=outputs, width=128, level_slots=options["precision"].level_slots)
        return trained(X, y, device=device, **{**options, **more})

    whole = run()
    for epoch in range(1, 5):
        stopped = run(epochs=epoch)
        assert stopped.loss.tolist() == whole.loss[:epoch].tolist()
        stopped.checkpoint().save(tmp_path / "c.npz")
        same(run(resume=Checkpoint.load(tmp_path / "c.npz")), whole, epoch)
        same(run(resume=whole.checkpoint(epoch)), whole, epoch)  # the checkpoint of an earlier epoch
    again = run(epochs=3, resume=whole.checkpoint(1))
    same(run(resume=again.checkpoint(2)), whole, 2)  # stopped twice


def test_resuming_on_another_device(seed):
    """Without saturation, memory size, width and outputs do not change the results."""
    X, y = table(seed, n=6, targets=2)
    options = {**DOUBLE, "seed": seed, "snapshots": True}
    whole = trained(X, y, device=fastest(), **options)
    assert whole.saturations == 0
    for device in (emulator(width=512), emulator(outputs=3), emulator(capacity_bytes=24 << 10)):
        same(trained(X, y, device=device, resume=whole.checkpoint(2), **options), whole, 2)


def test_available_checkpoints(seed):
    X, y = table(seed, n=3)
    kept = trained(X, y, device=fastest(), snapshots=True, **DOUBLE)
    assert [kept.checkpoint(epoch).epoch for epoch in range(1, 6)] == [1, 2, 3, 4, 5]
    assert kept.checkpoint() is kept.checkpoint(5)
    for epoch in (0, 6, -1):
        with pytest.raises(DataError, match=f"epoch={epoch}: this run ended epochs 1 to 5"):
            kept.checkpoint(epoch)
    last_alone = trained(X, y, device=fastest(), **DOUBLE)
    assert last_alone.checkpoint().master.tolist() == kept.checkpoint().master.tolist()
    with pytest.raises(DataError, match="without snapshots"):
        last_alone.checkpoint(3)


def test_changed_data_and_options_are_refused(seed):
    X, y = table(seed, rows=50, n=3)
    options = {**DOUBLE, "epochs": 2}
    checkpoint = trained(X, y, device=fastest(), **options).checkpoint()

    def refused(X=X, y=y, **other):
        with pytest.raises(DataError) as caught:
            trained(X, y, device=fastest(), **{**options, "epochs": 4, "resume": checkpoint, **other})
        assert "\n" not in str(caught.value)
        return str(caught.value)

    changed = X.copy()
    changed[17, 1] += 1e-9
    assert "differ from the data" in refused(X=changed)
    assert "differ from the data" in refused(X=X[::-1], y=y[::-1])
    assert "differ from the data" in refused(y=y + 1)
    assert "learning_rate=0.1, but the checkpoint was trained with 0.3" in refused(learning_rate=0.1)
    assert "bits=6" in refused(precision=Precision(6))
    lanes = {"precision": Precision(4, codebook=True)}
    assert "codebook=True, but the checkpoint was trained with False" in refused(**lanes)
    assert "levels='optimal', but the checkpoint was trained with 'uniform'" in refused(levels="optimal", **lanes)
    assert "sampling='nearest'" in refused(precision=Precision(4, "nearest"))
    assert "alpha=0.1" in refused(alpha=0.1)
    assert "seed=1" in refused(seed=1)
    assert "staleness=1" in refused(staleness=1)
    assert "draws='once'" in refused(draws="once")
    assert "epochs=2: the checkpoint already has 2" in refused(epochs=2)
    assert "differ from the data" in refused(X=X.astype(np.float32).astype(np.float64))
    assert "differ from the data" in refused(y=y.astype(np.longdouble))


def test_a_file_restores_the_complete_checkpoint(seed, tmp_path):
    X, y = table(seed, rows=50, n=3, targets=2)
    options = {**DOUBLE, "loss": "hinge", "bounds": (0, None), "class_weight": [(1, 2), (0.1, 1 / 3)]}
    checkpoint = trained(X, signs(y), device=fastest(), **options).checkpoint()
    checkpoint.save(tmp_path / "c.npz")
    loaded = Checkpoint.load(tmp_path / "c.npz")
    for name in ("epoch", "settings", "options", "fingerprint"):
        assert getattr(loaded, name) == getattr(checkpoint, name)
    assert loaded.master.dtype == np.int32 and loaded.master.tolist() == checkpoint.master.tolist()
    for field in dataclasses.fields(checkpoint.scaling):
        assert np.array_equal(getattr(loaded.scaling, field.name), getattr(checkpoint.scaling, field.name))
    assert [path.name for path in tmp_path.iterdir()] == ["c.npz"]


def test_levels_of_the_first_run_are_kept(seed, tmp_path, monkeypatch):
    """They are read from the file as integers and not chosen again."""
    X, y = table(seed, rows=50, n=3)
    options = {**DOUBLE, "precision": Precision(4, codebook=True), "levels": "optimal", "fit_intercept": False}
    whole = trained(X, y, device=emulator(level_slots=64), snapshots=True, **options)
    whole.checkpoint(2).save(tmp_path / "c.npz")
    loaded = Checkpoint.load(tmp_path / "c.npz")
    assert loaded.levels.dtype == np.int32 and np.array_equal(loaded.levels, whole.checkpoint().levels)
    monkeypatch.setattr("bitlane.training.train.fit_codebook", None)
    same(trained(X, y, device=emulator(level_slots=64), snapshots=True, resume=loaded, **options), whole, 2)
    for levels in (None, loaded.levels.astype(np.int64), loaded.levels[:, 1:], loaded.levels[1:]):
        dataclasses.replace(loaded, levels=levels).save(tmp_path / "d.npz")
        with pytest.raises(DataError, match="damaged"):
            Checkpoint.load(tmp_path / "d.npz")


@pytest.fixture
def saved(seed, tmp_path):
    X, y = table(seed, rows=50, n=3)
    path = tmp_path / "c.npz"
    trained(X, y, device=fastest(), **{**DOUBLE, "epochs": 1}).checkpoint().save(path)
    return path


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_file_is_written_atomically(saved, monkeypatch, error):
    before, checkpoint = saved.read_bytes(), Checkpoint.load(saved)

    def failing(file, **_):
        file.write(b"half a")
        raise error

    monkeypatch.setattr(np, "savez", failing)
    with pytest.raises(type(error)):
        checkpoint.save(saved)
    assert saved.read_bytes() == before and [path.name for path in saved.parent.iterdir()] == ["c.npz"]


def rewritten(path, change):
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    change(header, arrays)
    np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "no checkpoint"),
        (lambda path: path.write_bytes(b""), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "damaged"),
        (lambda path: path.write_bytes(b"PK\3\4" + bytes(99)), "damaged"),
        (lambda path: np.savez(path, coef=np.ones(3)), "not a checkpoint"),
        (lambda path: rewritten(path, lambda header, _: header.update(format=9)), "has format 9, this bitlane reads 5"),
        (lambda path: rewritten(path, lambda header, _: header.pop("options")), "damaged"),
        (lambda path: rewritten(path, lambda header, _: header["options"].update(bytes=1)), "damaged"),
        (lambda path: rewritten(path, lambda header, _: header["settings"][0].update(loss=7)), "damaged"),
        (lambda path: rewritten(path, lambda _, arrays: arrays.update(master=np.ones((1, 3)))), "damaged"),
        (lambda path: rewritten(path, lambda _, arrays: arrays.update(master=arrays["master"][:, :2])), "damaged"),
    ],
)
def test_a_damaged_file_is_a_one_line_error(saved, change, message):
    change(saved)
    with pytest.raises(DataError, match=message) as caught:
        Checkpoint.load(saved)
    assert "c.npz" in str(caught.value) and "\n" not in str(caught.value)


def test_a_checkpoint_from_before_further_objectives_loads(seed, tmp_path):
    """It lacks their options and registers, and is that of a training without them."""
    X, y = table(seed)
    options = {"precision": Precision(8), "penalty": "l2", "alpha": 0.01}
    whole = trained(X, y, device=fastest(), **options).checkpoint()
    whole.save(tmp_path / "old.npz")

    def older(header, _):
        for name in ("l1_ratio", "epsilon"):
            del header["options"][name]
        for settings in header["settings"]:
            for name in ("further_loss", "epsilon", "shrink_step", "shrink_phase"):
                del settings[name]

    rewritten(tmp_path / "old.npz", older)
    found = Checkpoint.load(tmp_path / "old.npz")
    assert found.settings == whole.settings and found.options == whole.options


def test_registers_advance_as_in_the_hardware(seed):
    """`advanced` equals the registers of a device, for a penalty step whose phase wraps around."""
    rng = np.random.default_rng(seed)
    settings = Objective(penalty="l2", alpha=0.0311).settings(0.3, 9, 0.77)
    geometry = Geometry(features=3, rows=50, base_digits=2, draws=False, batch=9)
    base = pack_base(rng.integers(0, 16, (50, 3)).astype(np.uint32), np.zeros((50, 1), np.int16), geometry)
    job = Job(geometry, [base], [], ModelState(np.zeros((1, 3), np.int32), settings), 4)
    outcome = Driver(fastest()).run(job)
    assert outcome.state.settings.phase != 0 and outcome.state.settings.step != settings.step
    assert advanced(settings, 4, 6) == advanced(advanced(settings, 1, 6), 3, 6) == outcome.state.settings


def test_fingerprints_see_every_value_the_type_and_the_shape(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 100, (700, 500)), rng.integers(0, 2, (700, 1))
    found = fingerprint(X, y, threads=1)
    assert found == fingerprint(np.asfortranarray(X), y, threads=2)
    assert found != fingerprint(X.view(np.uint64), y)
    assert found != fingerprint(X, y.astype(np.int8))
    for row in rng.integers(700, size=20):
        changed = X.copy()
        changed[row, rng.integers(500)] ^= 1 << int(rng.integers(60))
        assert found != fingerprint(changed, y)
    assert found != fingerprint(X[:-1], y[:-1])
    assert found != fingerprint(X.reshape(1400, 250), y)
    X[-1, -1] += 1
    assert found != fingerprint(X, y)

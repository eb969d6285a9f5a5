"""Estimators on a list of devices: classes are spread, rows are cut; kills, failures and lists that cannot be used."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from tests.helpers import several_training
from tests.helpers.emulators import emulator
from tests.helpers.estimator_tables import classifier, regressor, table
from tests.helpers.failing_device import FailsInRun

from bitlane import DataError, DeviceError
from bitlane.devices import registry
from bitlane.devices.emulator import EmulatorDevice


def blobs(seed, rows=200):
    """Four classes of 5 features."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, rows)
    return rng.normal(size=(rows, 5)) + np.eye(5)[labels] * 5, labels


@pytest.mark.parametrize("several", [["emulator", "emulator"], ("emulator", EmulatorDevice()), ["cpu", "emulator"]])
def test_classes_are_spread_and_have_the_bits_of_one_device(seed, several):
    X, y = blobs(seed)
    one, two = (classifier(device=device, epochs=6).fit(X, y) for device in ("emulator", several))
    assert two.coef_.tolist() == one.coef_.tolist() and two.intercept_.tolist() == one.intercept_.tolist()
    assert one.run_.cycles == 2 * two.run_.cycles


def test_rows_are_cut_and_the_model_fits(seed):
    X, y = table(seed, rows=600)
    model = regressor(device=["emulator"] * 3, epochs=30, decay=1.0, average_every=2).fit(X, y)
    assert model.run_.settings["shards"] == 3 and model.run_.settings["average_every"] == 2
    assert model.score(X, y) > 0.95
    assert model.get_params()["device"] == ["emulator"] * 3


def test_a_resumed_fit_needs_as_many_shards_and_not_as_many_devices(seed):
    X, y = table(seed)
    whole = regressor(device=["emulator"] * 2, epochs=6).fit(X, y)
    part = regressor(device=["emulator"] * 2, epochs=3).fit(X, y).run_.checkpoint()
    for device in ("emulator", ["emulator"], ["emulator"] * 2):
        assert regressor(device=device, epochs=6).fit(X, y, resume=part).coef_.tolist() == whole.coef_.tolist()


def test_a_killed_training_resumes_to_the_bit(seed, tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    folder.mkdir()
    expected = several_training.train(seed, whole)
    process = subprocess.Popen([sys.executable, several_training.__file__, str(seed), str(folder)])
    try:
        until = time.monotonic() + 60
        while len([*folder.glob("*.npz")]) < 1 + seed % 5 and process.poll() is None and time.monotonic() < until:
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    assert any(folder.glob("*.npz"))
    resumed = several_training.train(seed, folder)
    assert resumed.coef_.tolist() == expected.coef_.tolist()
    assert resumed.run_.checkpoint().settings == expected.run_.checkpoint().settings


def test_a_failure_closes_what_was_opened_here(seed, monkeypatch):
    X, y = table(seed)
    opened = []

    def failing(config):
        opened.append(FailsInRun(config) if opened else EmulatorDevice(config))
        return opened[-1]

    monkeypatch.setitem(registry._BUILT_IN, "emulator", failing)
    mine = emulator()
    with pytest.raises(DeviceError, match=r"device 3 of 3 \(emulator\), shard 3 of 3, rows 128 to 199: .*READ_DECODE"):
        regressor(device=["emulator", mine, "emulator"]).fit(X, y)
    assert [len(device._memory) for device in opened] == [0, 0]  # closed
    assert len(mine._memory) and mine.allocated == 0
    opened.clear()
    with pytest.warns(UserWarning, match="2 of 3 devices continue"):
        model = regressor(device=["emulator", mine, "emulator"], on_device_failure="continue").fit(X, y)
    monkeypatch.undo()
    assert model.coef_.tolist() == regressor(device=["emulator"] * 3).fit(X, y).coef_.tolist()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"device": []}, "device is an empty list"),
        ({"device": [], "bits": "mqgrad"}, "a bit policy needs a single device"),
        ({"device": ["emulator", "tpu"]}, "device='tpu' is unknown"),
        ({"device": ["pynq://a", "pynq://b", "pynq://a"]}, "lists a board twice"),
        ({"device": ["emulator"] * 14}, "X has 13 batches of 16 rows, but there are 14 shards"),
        ({"device": ["emulator"] * 2, "average_every": 0}, "average_every=0"),
        ({"device": ["emulator"] * 2, "on_device_failure": "retry"}, "on_device_failure='retry'"),
    ],
)
def test_lists_that_cannot_be_used_are_refused(seed, parameters, says):
    X, y = table(seed)
    with pytest.raises(DataError, match=says):
        regressor(**parameters).fit(X, y)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_joblib_spreads_classes_over_processes_by_scikit_learn(seed, backend):
    """`OneVsRestClassifier` sends each class to a worker of joblib's backend, with the bits of one device."""
    joblib, multiclass = pytest.importorskip("joblib"), pytest.importorskip("sklearn.multiclass")
    X, y = blobs(seed)
    one = classifier(epochs=4).fit(X, y)
    with joblib.parallel_config(backend, n_jobs=2):
        several = multiclass.OneVsRestClassifier(classifier(epochs=4)).fit(X, y)
    assert [each.coef_[0].tolist() for each in several.estimators_] == one.coef_.tolist()

"""Values that users pass: numpy's scalars, generators, booleans, open devices, callbacks, wide tables."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from tests.helpers.estimator_tables import BOTH, Frame, classifier, regressor, table

from bitlane import DataError, DeviceError, SGDRegressor
from bitlane.devices.cpu import CpuDevice
from bitlane.devices.emulator import EmulatorDevice
from bitlane.devices.single import SingleDevice

PARAMETERS = [*SGDRegressor().get_params()]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
NUMBERS = {  # values that float16 holds exactly
    "bits": (INTEGERS, [2, 3, 4, 8]),
    "draws": (INTEGERS, [1, 5]),
    "epochs": (INTEGERS, [1, 4]),
    "batch_size": (INTEGERS, [1, 7, 16]),
    "learning_rate": (FLOATS, [0.125, 0.25]),
    "decay": (FLOATS, [0.75, 1.0]),
    "alpha": (FLOATS, [0.0, 0.015625]),
    "staleness": (INTEGERS, [0, 1]),
    "model_bits": (INTEGERS, [12, 16]),
    "gradient_bits": (INTEGERS, [8, 16]),
    "average_every": (INTEGERS, [1, 2]),
    "random_state": (INTEGERS, [0, 100]),
    "fit_intercept": ([np.bool_], [False, True]),
    "shuffle": ([np.bool_], [False, True]),
    "warm_start": ([np.bool_], [False, True]),
    "sampling": ([np.str_], ["nearest", "double"]),
    "penalty": ([np.str_], ["l1", "l2"]),
    "loss": ([np.str_], ["squared_error"]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_scalars_of_numpy_are_those_of_python(name: str, seed: int) -> None:
    """Each type gives the bits of Python's own, and a record that JSON holds."""
    types, values = NUMBERS[name]
    X, y = table(seed, rows=40)
    value: Any = values[seed % len(values)]
    others = {"penalty": "l2"} if name == "alpha" else {"alpha": 0.01} if name == "penalty" else {}
    plain = regressor(**{"epochs": 2, **others, name: value}).fit(X, y)
    for kind in types:
        model = regressor(**{"epochs": 2, **others, name: kind(value)}).fit(X, y)
        assert model.coef_.tobytes() == plain.coef_.tobytes(), kind
        assert json.dumps(model.run_.settings) == json.dumps(plain.run_.settings), kind


@pytest.mark.parametrize("name", ["fit_intercept", "shuffle", "warm_start"])
@pytest.mark.parametrize("value", ["no", "False", 1, 0, None, np.array([True])])
def test_booleans_are_strict(name: str, value: Any, seed: int) -> None:
    for make in (regressor, classifier):
        with pytest.raises(DataError, match=f"^{name}=.*: choose True or False$"):
            make(**{name: value}).fit(*table(seed)[:1], np.arange(200) % 2)
    with pytest.raises(DataError, match=r"^snapshots='no': choose True or False$"):
        regressor().fit(*table(seed), snapshots="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_generators_are_seeds(make: Any, seed: int) -> None:
    """The same state gives the same models, fit by fit; each fit takes another seed."""
    X, y = table(seed)
    first, second = regressor(random_state=make(seed)), regressor(random_state=make(seed))
    seeds = []
    for _ in range(3):
        assert first.fit(X, y).coef_.tolist() == second.fit(X, y).coef_.tolist()
        seeds.append(first.run_.settings["seed"])
    assert len(set(seeds)) == 3
    half = first.set_params(epochs=2).fit(X, y).run_.checkpoint()
    resumed = first.set_params(epochs=4).fit(X, y, resume=half)
    assert resumed.run_.settings["seed"] == half.options.seed, "a checkpoint keeps its seed"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"device": None}, "^device=None: name one, such as 'auto'"),
        ({"device": 3}, "^device=3: name one"),
        ({"device": {}}, "^device={}: name one"),
        ({"device": [None]}, "^device=None: name one"),
        ({"random_state": "3"}, "^random_state='3'"),
        ({"decay": True}, "^decay=True: it must be a finite number"),
    ],
)
def test_values_of_other_types(parameters: dict[str, Any], message: str, seed: int) -> None:
    with pytest.raises(DataError, match=message):
        regressor(**parameters).fit(*table(seed))
    for value in (3, "run", {}):
        with pytest.raises(DataError, match=r"^resume=.*: pass a checkpoint, as run_.checkpoint\(\) returns it$"):
            regressor().fit(*table(seed), resume=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [each for each in PARAMETERS if each != "verbose"])
def test_any_value_of_a_parameter_is_taken_or_refused_in_a_line(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = table(seed, rows=30)
    needed: dict[str, Any] = {
        **{"alpha": {"penalty": "l2"}, "l1_ratio": {"penalty": "elasticnet", "alpha": 0.01}},
        **{"epsilon": {"loss": "huber"}, "n_iter_no_change": {"tol": 0.1}, "bits": {"learning_rate": "auto"}},
        **{"validation_fraction": {"early_stopping": True, "tol": 0.1}},
        **{each: {"device": ["cpu", "cpu"]} for each in ("average_every", "on_device_failure")},
    }.get(name, {})
    values: list[Any] = [
        None,
        True,
        0,
        1,
        -3,
        2.5,
        1e30,
        10**30,
        1j,
        float("nan"),
        float("inf"),
        "",
        "no",
        b"no",
        [],
        {},
    ]
    values += [
        object(),
        int,
        (1, 2),
        ["l1", "l2"],
        np.array(2),
        np.array(["l1", "l2"]),
        rng.normal(size=3),
        np.float32(0.1),
    ]
    for i in rng.choice(len(values), 6, replace=False):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.filterwarnings("ignore", category=UserWarning)
            try:
                SGDRegressor(**{"epochs": 2, "device": "cpu", "random_state": 0, **needed, name: values[i]}).fit(X, y)
            except DataError as error:
                assert "\n" not in str(error) and any(each in str(error) for each in PARAMETERS)


class Single(SingleDevice, EmulatorDevice):
    """As an open board or simulator: it cannot be copied."""


@pytest.mark.parametrize("kind", BOTH)
def test_open_devices_are_shared_by_copies(kind: Any, seed: int) -> None:
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = table(seed)
    device = Single()
    model = kind(device=device, random_state=0, epochs=2)
    assert base.clone(model).device is device and copy.deepcopy(model).device is device
    labels = y if kind is SGDRegressor else y > 5
    search = selection.GridSearchCV(model, {"bits": np.array([4, 8])}, cv=2).fit(X, labels)
    assert search.best_estimator_.device is device and device.allocated == 0
    with pytest.raises(DeviceError, match=r"^an open device cannot be saved or sent to another process"):
        pickle.dumps(model.fit(X, labels))
    again = pickle.loads(pickle.dumps(model.set_params(device="emulator")))
    assert again.predict(X).tolist() == model.predict(X).tolist()


def test_a_grid_of_numpy_numbers(seed: int) -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    X, y = table(seed)
    grid = {"bits": np.array([4, 8]), "decay": np.array([0.75, 1.0]), "batch_size": np.array([8, 16], np.uint8)}
    plain = {name: values.tolist() for name, values in grid.items()}
    found, expected = (selection.GridSearchCV(regressor(epochs=3), each, cv=2).fit(X, y) for each in (grid, plain))
    assert found.cv_results_["mean_test_score"].tolist() == expected.cv_results_["mean_test_score"].tolist()


@pytest.mark.parametrize("device", ["emulator", "cpu", ["emulator", "emulator"]])
@pytest.mark.parametrize("kind", [StopIteration, KeyboardInterrupt, RuntimeError, GeneratorExit, ZeroDivisionError])
def test_exceptions_of_on_epoch_come_through(device: Any, kind: type[BaseException], seed: int) -> None:
    thrown = kind("enough")

    def stop(epoch: int, loss: float) -> None:
        if epoch == 1:
            raise thrown

    model = regressor(device=device)
    with pytest.raises(kind) as caught:
        model.fit(*table(seed), on_epoch=stop)
    assert caught.value is thrown and not hasattr(model, "coef_")


def test_partial_fit_warns_once(seed: int) -> None:
    """Of each thing, whatever its numbers; `fit` and another model warn again."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 3))
    X[:, 2] = 1.0
    y = np.sign(X[:, 0])

    def told(model: Any, rows: int) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for start in range(0, rows, 40):
                model.partial_fit(X[start : start + 40], y[start : start + 40])
        return sorted(str(warning.message).split(" ")[1] for warning in caught)

    both = {"column(s)", "values"}
    model = regressor(learning_rate=30.0, batch_size=4)
    first, later = told(model, 400), told(model, 400)
    assert both <= {*first} and len({*first, *later}) == len(first) + len(later)
    assert both <= {*told(regressor(learning_rate=30.0, batch_size=4), 40)}
    with pytest.warns(UserWarning, match="constant"):
        model.fit(X, y)
    assert both <= {*told(model, 400)}


@pytest.mark.parametrize("bits", [4, 32])
def test_tables_wider_than_the_usual_build(bits: int, seed: int) -> None:
    """Devices in software that are opened by name hold them; the bits are those of all devices."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(16_385, 20_000))
    X, options = rng.normal(size=(8, n)), {"bits": bits, "epochs": 1, "batch_size": 4, "random_state": 0}
    y = X[:, :5].sum(axis=1)
    coefs = [SGDRegressor(device=name, **options).fit(X, y).coef_ for name in ("cpu", "emulator")]
    assert coefs[0].any() and coefs[0].tobytes() == coefs[1].tobytes()
    for device in (CpuDevice(), EmulatorDevice()):
        with pytest.raises(DataError, match=f"^X has {n} features, but .* 16384: remove features"):
            SGDRegressor(device=device, **options).fit(X, y)


def test_wide_sparse_tables_name_the_sparse_estimators(seed: int) -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(seed)
    X = scipy_sparse.random(20, 16_385, 0.01, "csr", random_state=seed)
    model = SGDRegressor(epochs=1, random_state=0, device="emulator")
    with pytest.warns(UserWarning, match="X is sparse, and all of its 16385 columns will be stored: .* bitlane.sparse"):
        model.fit(X, rng.normal(size=20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
        regressor(epochs=1, device="emulator").fit(X[:, :50].toarray() + rng.normal(size=(20, 50)), rng.normal(size=20))


@pytest.mark.parametrize("make", [regressor, classifier])
def test_columns_that_are_not_numeric_are_named(make: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"column {j}" for j in range(9)]
    bad = sorted(rng.choice(9, rng.integers(1, 4), replace=False).tolist())
    cells = rng.normal(size=(40, 9)).astype(object)
    y = np.arange(40) % 2
    for j in bad:
        cells[int(rng.integers(40)), j] = "Paris"
    listed = ", ".join(repr(names[j]) for j in bad)
    with pytest.raises(DataError, match=rf"must contain numbers; encode or drop column\(s\) {listed}$"):
        make().fit(Frame(cells, names), y)
    for X, numbers in ((cells, bad), (Frame(cells, [7 * j for j in range(9)]), [7 * j for j in bad])):
        with pytest.raises(DataError, match=rf"encode or drop column\(s\) {str(numbers)[1:-1]}$"):
            make().fit(X, y)
    for j in bad:
        cells[:, j] = 1.0
        cells[0, j] = None
    with pytest.raises(DataError, match=rf"X holds {len(bad)} (missing|NaN)"):
        make().fit(Frame(cells, names), y)

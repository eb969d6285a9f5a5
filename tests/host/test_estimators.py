"""The estimators: conventions, validation in one clear line each, and that they learn."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import bitlane
from bitlane import DataError, DeviceError, SGDClassifier, SGDRegressor
from bitlane.devices.emulator import EmulatorDevice

from .machines import Recorded

BOTH = [SGDRegressor, SGDClassifier]
SITE = str(Path(np.__file__).parents[1])


def table(seed, rows=200, n=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, n)) * 10.0 ** np.arange(n)
    return X, X @ (rng.normal(1, 0.3, n) / 10.0 ** np.arange(n)) + 5


def regressor(**parameters):
    return SGDRegressor(**{"device": "emulator", "random_state": 0, "learning_rate": 0.3} | parameters)


def classifier(**parameters):
    return SGDClassifier(**{"device": "emulator", "random_state": 0, "learning_rate": 0.3} | parameters)


class Frame:
    """As much of a DataFrame as is looked at."""

    def __init__(self, values, columns):
        self.values, self.columns = values, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def test_regression(seed):
    X, y = table(seed)
    model = regressor(random_state=seed, decay=0.9)
    assert model.fit(X, y) is model
    assert model.score(X, y) > 0.95
    assert model.predict(X).shape == (200,) and model.coef_.shape == (5,) and model.intercept_.shape == (1,)
    assert model.n_features_in_ == 5 and model.n_iter_ == 20 and not hasattr(model, "feature_names_in_")
    assert model.predict(X) == pytest.approx(X @ model.coef_ + model.intercept_)
    residual = y - model.predict(X)
    assert model.score(X, y) == pytest.approx(1 - residual.var() / y.var() - residual.mean() ** 2 / y.var())


def test_without_an_intercept(seed):
    X, y = table(seed)
    model = regressor(fit_intercept=False).fit(X, y - 5)
    assert model.intercept_.tolist() == [0] and model.score(X, y - 5) > 0.9


def test_binary_classification(seed):
    X, y = table(seed)
    labels = np.where(y > 5, "yes", "no")
    model = classifier().fit(X, labels)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.coef_.shape == (1, 5) and model.intercept_.shape == (1,) and len(model.runs_) == 1
    scores = model.decision_function(X)
    assert scores.shape == (200,)
    assert np.array_equal(model.predict(X) == "yes", scores > 0)
    assert model.score(X, labels) == np.mean(model.predict(X) == labels) > 0.9


def test_many_classes(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 300) * 10
    X = rng.normal(size=(300, 4)) + np.eye(4)[labels // 10] * 6
    model = classifier().fit(X, labels)
    assert model.classes_.tolist() == [0, 10, 20]
    assert model.coef_.shape == (3, 4) and model.decision_function(X).shape == (300, 3)
    assert len(model.runs_) == 3 and model.run_ is model.runs_[0]
    assert model.predict(X).dtype == labels.dtype and model.score(X, labels) > 0.9


def test_boolean_labels(seed):
    X, y = table(seed)
    model = classifier().fit(X, y > 5)
    assert model.predict(X).dtype == bool


def test_a_seed_repeats_and_none_does_not(seed):
    X, y = table(seed)
    first, second = (regressor(random_state=seed).fit(X, y).coef_.tolist() for _ in range(2))
    assert first == second
    fresh = regressor(random_state=None).fit(X, y)
    assert fresh.coef_.tolist() != first
    again = regressor(random_state=fresh.run_.settings["seed"]).fit(X, y)
    assert again.coef_.tolist() == fresh.coef_.tolist()


def test_penalty_shrinks(seed):
    X, y = table(seed)
    free = regressor().fit(X, y)
    ignored = regressor(alpha=0.1).fit(X, y)
    shrunk = regressor(alpha=0.1, penalty="l2").fit(X, y)
    assert ignored.coef_.tolist() == free.coef_.tolist()
    assert np.linalg.norm(shrunk.run_.weights) < 0.8 * np.linalg.norm(free.run_.weights)


def test_progress_and_snapshots(seed):
    X, y = table(seed)
    seen = []
    model = regressor(epochs=3).fit(X, y, on_epoch=lambda epoch, loss: seen.append((epoch, loss)), snapshots=True)
    assert seen == list(enumerate(model.run_.loss.tolist()))
    assert model.run_.snapshots.shape == (3, 5)


@pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint8, bool, object])
def test_kinds_of_numbers(seed, kind):
    X = np.random.default_rng(seed).integers(0, 2, (50, 4)).astype(kind)
    y = X.astype(float) @ [1, 2, 3, 4]
    assert regressor(learning_rate=0.2).fit(X, y).score(X, y) > 0.8


def test_lists_and_columns_of_labels():
    X, y = [[0, 1], [1, 0], [2, 2], [3, 1]], [[1], [2], [3], [4]]
    assert regressor(batch_size=2).fit(X, y).predict(X).shape == (4,)


def test_the_order_of_memory_does_not_matter(seed):
    X, y = table(seed)
    assert regressor().fit(np.asfortranarray(X), y).coef_.tolist() == regressor().fit(X, y).coef_.tolist()


def test_column_names(seed):
    X, y = table(seed)
    model = regressor().fit(Frame(X, list("abcde")), y)
    assert model.feature_names_in_.tolist() == list("abcde")
    model.predict(Frame(X, list("abcde")))
    model.predict(X)
    with pytest.raises(DataError, match="named or ordered differently"):
        model.predict(Frame(X, list("abced")))
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")


def test_sorted_rows_are_shuffled(seed):
    """Rows sorted by label pull the model to the last labels; put in random order once they do not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 3))
    y = X @ [1.0, -2.0, 0.5] + 3 * rng.normal(size=2000)
    order = np.argsort(y)
    settings = {"bits": 16, "epochs": 3, "learning_rate": 1.0, "device": "emulator", "random_state": seed}
    shuffled = SGDRegressor(**settings).fit(X[order], y[order])
    sorted_rows = SGDRegressor(**settings, shuffle=False).fit(X[order], y[order])
    assert shuffled.score(X, y) > sorted_rows.score(X, y) + 0.01


@pytest.mark.parametrize("kind", BOTH)
def test_parameters(kind):
    model = kind(bits=8)
    assert model.get_params()["bits"] == 8 and len(model.get_params()) == 13
    assert model.set_params(epochs=3, penalty="l2") is model and model.epochs == 3
    assert kind(**model.get_params()).get_params() == model.get_params()
    assert repr(model) == f"{kind.__name__}(bits=8, epochs=3, penalty='l2')"
    assert "bits: stored bits a feature" in kind.__doc__
    with pytest.raises(DataError, match="no parameter 'eta'"):
        model.set_params(eta=1)


def bad(X):
    X = X.copy()
    X[3, 1] = np.nan
    X[4, 1] = np.inf
    return X


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (bad(X), y), r"X holds 2 NaN or infinite value\(s\)"),
        (lambda X, y: (X, bad(X)[:, 1]), r"y holds 2 NaN or infinite"),
        (lambda X, y: (X[:0], y[:0]), "X has 0 rows"),
        (lambda X, y: (X[:1], y[:1]), "X has 1 row: at least 2"),
        (lambda X, y: (X[:, :0], y), "X has 0 features"),
        (lambda X, y: (X[:, 0], y), r"X has 1 dimension\(s\)"),
        (lambda X, y: (X, X), r"y has 2 dimension\(s\)"),
        (lambda X, y: (X, y[:-1]), "X has 200 rows, but y has 199 values"),
        (lambda X, y: (X.astype(str), y), "X holds <U.*encode text"),
        (lambda X, y: (np.array([["a", 1.0]] * 200, object), y), "X holds object"),
        (lambda X, y: (X + 1j, y), "X holds complex"),
        (lambda X, y: (np.ones_like(X), y), "every column of X is constant"),
    ],
)
@pytest.mark.parametrize("make", [regressor, classifier])
def test_data_that_cannot_be_used(seed, make, change, message):
    X, y = table(seed)
    X, y = change(X, np.sign(y - 5))
    with pytest.raises(ValueError, match=message) as caught:
        make().fit(X, y)
    assert "\n" not in str(caught.value)


def test_labels_that_cannot_be_used(seed):
    X, _ = table(seed)
    with pytest.raises(DataError, match="one class only"):
        classifier().fit(X, np.ones(200))
    with pytest.raises(DataError, match="y holds <U"):
        regressor().fit(X, np.full(200, "a"))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bits": 3}, "bits=3"),
        ({"sampling": "best"}, "sampling='best'"),
        ({"penalty": "l1"}, "penalty='l1'"),
        ({"penalty": "l2", "alpha": -1}, "alpha=-1"),
        ({"penalty": "l2", "alpha": 1.0}, "alpha . learning_rate is 0.3"),
        ({"learning_rate": "fast"}, "learning_rate='fast'"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"decay": None}, "decay=None"),
        ({"random_state": -1}, "random_state=-1"),
        ({"device": "fpga"}, "device='fpga'"),
        ({"epochs": "many"}, "epochs='many'"),
        ({"batch_size": None}, "batch_size=None"),
    ],
)
def test_parameters_that_cannot_be_used(seed, parameters, message):
    with pytest.raises(DataError, match=message):
        regressor(**parameters).fit(*table(seed))


def test_rows_beyond_the_hardware(seed):
    with pytest.raises(DataError, match="X has 40 features, but emulator holds 32"):
        regressor(device=EmulatorDevice(max_features=32)).fit(*table(seed, n=40))


def test_a_batch_larger_than_the_data(seed):
    X, y = table(seed)
    with pytest.warns(UserWarning, match="batch_size=300 exceeds the 200 rows"):
        model = regressor(batch_size=300).fit(X, y)
    assert model.coef_.tolist() == regressor(batch_size=200).fit(X, y).coef_.tolist()
    assert model.batch_size == 300


def test_constant_columns(seed):
    X, y = table(seed)
    X[:, 2] = 4
    with pytest.warns(UserWarning, match="1 column"):
        assert regressor().fit(X, y).coef_[2] == 0


def test_equal_targets(seed):
    X, _ = table(seed)
    model = regressor().fit(X, np.full(200, 3.5))
    assert not model.coef_.any() and model.predict(X).tolist() == [3.5] * 200
    assert model.score(X, np.full(200, 3.5)) == 1


def test_prediction_needs_a_fit_and_the_same_columns(seed):
    X, y = table(seed)
    with pytest.raises(DataError, match="not fitted"):
        regressor().predict(X)
    with pytest.raises(DataError, match="X has 4 features, but fit was given 5"):
        regressor().fit(X, y).predict(X[:, :4])


def test_an_own_device_stays_open(seed):
    device = EmulatorDevice()
    for _ in range(2):
        regressor(device=device).fit(*table(seed))
    assert device.allocated == 0


def test_device_errors_come_through(seed):
    with pytest.raises(DeviceError, match="no bitlane accelerator"):
        regressor(device=Recorded(answers={"identity": lambda _: 7})).fit(*table(seed))


def test_scikit_learn_takes_them_for_its_own(seed):
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    assert sklearn
    X, y = table(seed)
    assert is_regressor(regressor()) and is_classifier(classifier())
    copy = clone(regressor(bits=8))
    assert copy.bits == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(make_pipeline(StandardScaler(), regressor()), X, y, cv=3)
        assert scores.min() > 0.8
        assert cross_val_score(classifier(), X, y > 5, cv=3).min() > 0.8


def test_numpy_is_all_that_is_needed():
    """A board has little else."""
    host = Path(bitlane.__file__).parents[1]
    code = f"""
import sys
sys.path[:0] = {[str(host), SITE]!r}
import bitlane
assert "numpy" not in sys.modules
model = bitlane.SGDRegressor(device="emulator")
model.fit([[0.0], [1.0], [3.0]] * 9, [0.0, 1.0, 3.0] * 9)
print(*(name for name, module in sys.modules.items() if {SITE!r} in (getattr(module, "__file__", "") or "")))
"""
    command = [sys.executable, "-S", "-W", "ignore", "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert {name.split(".")[0] for name in found.stdout.split()} - {"bitlane"} == {"numpy"}, found.stderr

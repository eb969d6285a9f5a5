"""The parameters of the estimators: effects, scikit-learn's conventions, and values that cannot be used."""

import inspect
import re
import warnings

import numpy as np
import pytest
from tests.helpers.bare_python import run_bare
from tests.helpers.emulators import emulator, fastest
from tests.helpers.estimator_tables import BOTH, classifier, regressor, table
from tests.helpers.machines import Recorded

from bitlane import DataError, DeviceError, SGDClassifier, SGDRegressor
from bitlane.devices.emulator import EmulatorDevice
from bitlane.estimators.validation import class_weights


def three(seed, rows=300):
    """Three classes, 0, 10 and 20, of 4 features."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows) * 10
    return rng.normal(size=(rows, 4)) + np.eye(4)[labels // 10] * 6, labels


def test_class_weights(seed):
    X, y = table(seed)
    rare = y > np.quantile(y, 0.9)
    plain = classifier(loss="log_loss").fit(X, rare)
    balanced = classifier(loss="log_loss", class_weight="balanced").fit(X, rare)
    assert np.mean(balanced.predict(X)) > np.mean(plain.predict(X)) + 0.1
    share = np.mean(rare)
    weights = {True: 0.5 / share, False: 0.5 / (1 - share)}
    assert classifier(loss="log_loss", class_weight=weights).fit(X, rare).coef_.tolist() == balanced.coef_.tolist()
    assert balanced.run_.settings["class_weight"] == ((weights[False], weights[True]),)
    X, labels = three(seed)
    model = classifier(class_weight={20: 3}, device=emulator(outputs=3)).fit(X, labels)
    assert model.run_.settings["class_weight"] == ((1, 1), (1, 1), (1, 3)) and model.run_.passes == 2


def test_balanced_weights_are_scikit_learns(seed):
    class_weight = pytest.importorskip("sklearn.utils.class_weight")
    _, labels = three(seed)
    classes = np.unique(labels)
    theirs = class_weight.compute_class_weight("balanced", classes=classes, y=labels)
    assert class_weights("balanced", labels, classes) == [(1.0, weight) for weight in theirs]
    theirs = class_weight.compute_class_weight({10: 2.5}, classes=classes, y=labels)
    assert class_weights({10: 2.5}, labels, classes) == [(1.0, weight) for weight in theirs]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("even", "class_weight='even'"),
        ({7: 1}, "class_weight has 7, which is not a class of y"),
        ({0: -1}, "class_weight=.*: each weight must be at least 0"),
        ({0: 0, 10: 0.0, 20: 0}, "class_weight=.*: one weight must be above 0"),
        ({0: "much"}, r"class_weight\[0\]='much'"),
        (3, "class_weight=3"),
    ],
)
def test_class_weights_that_cannot_be_used(seed, weights, message):
    with pytest.raises(DataError, match=message):
        classifier(class_weight=weights).fit(*three(seed))


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
    shrunk = regressor(alpha=0.05, penalty="l2").fit(X, y)
    sparse = regressor(alpha=0.05, penalty="l1").fit(X, y)
    assert ignored.coef_.tolist() == free.coef_.tolist()
    assert np.linalg.norm(shrunk.run_.weights) < 0.9 * np.linalg.norm(free.run_.weights)
    assert np.abs(sparse.run_.weights).sum() < 0.8 * np.abs(free.run_.weights).sum()


def test_bounds_and_staleness(seed):
    X, y = table(seed)
    y = y - 2 * y.mean() * X[:, 0] / X[:, 0].std()
    model = regressor(bounds=(0, None)).fit(X, y)
    assert (model.coef_ >= 0).all() and model.coef_[0] == 0 and model.coef_.any()
    stale = regressor(staleness=1).fit(X, y)
    assert stale.coef_.tolist() != regressor().fit(X, y).coef_.tolist() and stale.score(X, y) > 0.8


@pytest.mark.parametrize(
    ("bits", "levels"), [(3, "optimal"), (4, "optimal"), (5, "optimal"), (3, "uniform"), (5, "uniform")]
)
def test_levels_of_their_own(seed, bits, levels):
    X, y = table(seed)
    model = regressor(bits=bits, levels=levels, decay=0.9).fit(X, y)
    assert model.score(X, y) > 0.95
    own = model.run_.levels
    assert own.shape == (2 ** (bits - 2) + 1, 5) and model.run_.settings["levels"] == levels
    near = 1e-9 * model.run_.scaling.scale
    assert (own[0] <= X.min(axis=0) + near).all() and (own[-1] >= X.max(axis=0) - near).all()
    if levels == "optimal":
        assert (np.abs(own[0] - X.min(axis=0)) <= 2.0**-16 * model.run_.scaling.scale + near).all()
    X, labels = three(seed)
    for loss in ("squared_error", "log_loss"):
        model = classifier(bits=bits, levels=levels, loss=loss).fit(X, labels)
        together = classifier(bits=bits, levels=levels, loss=loss, device=fastest(outputs=3, level_slots=64))
        assert model.score(X, labels) > 0.9 and model.run_.passes == 3
        assert together.fit(X, labels).coef_.tolist() == model.coef_.tolist() and together.run_.passes == 1


def test_digits_where_levels_are_uniform(seed):
    assert regressor().fit(*table(seed)).run_.levels is None


def test_progress_and_snapshots(seed):
    X, y = table(seed)
    seen = []
    model = regressor(epochs=3).fit(X, y, on_epoch=lambda epoch, loss: seen.append((epoch, loss)), snapshots=True)
    assert seen == list(enumerate(model.run_.loss.tolist()))
    assert model.run_.snapshots.shape == (3, 5)


@pytest.mark.parametrize("kind", BOTH)
def test_parameters(kind):
    model = kind(bits=8)
    assert model.get_params()["bits"] == 8 and len(model.get_params()) == 31 + (kind is SGDClassifier)
    assert model.set_params(epochs=3, penalty="l2") is model and model.epochs == 3
    assert kind(**model.get_params()).get_params() == model.get_params()
    assert repr(model) == f"{kind.__name__}(bits=8, epochs=3, penalty='l2')"
    documented = " ".join(kind.__doc__.split("Parameters\n")[1].split("Attributes\n")[0].split())
    for name in model.get_params():
        assert re.search(rf"\b{name}\b( : |, )", documented), name
    assert kind.fit.__doc__
    with pytest.raises(ValueError, match="Invalid parameter 'eta'"):
        model.set_params(eta=1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bits": 7}, "bits=7"),
        ({"bits": 3, "sampling": "naive"}, "bits=3"),
        ({"levels": "best"}, "levels='best' is unknown: choose one of uniform, optimal"),
        ({"levels": "optimal", "bits": 6}, "levels='optimal' needs double sampling with 3, 4 or 5 bits; got bits=6"),
        (
            {"levels": "optimal", "sampling": "nearest"},
            "levels='optimal' needs double sampling .*; got sampling='nearest'",
        ),
        ({"levels": "optimal", "device": EmulatorDevice()}, "open a device with level_slots="),
        ({"device": emulator(level_slots=64)}, "open a device with level_slots=0"),
        ({"sampling": "best"}, "sampling='best'"),
        ({"loss": "hinge"}, "loss='hinge': choose one of 'squared_error'"),
        ({"penalty": "elastic"}, "penalty='elastic': choose None, 'l2', 'l1', 'elasticnet'"),
        (
            {"penalty": "elasticnet", "alpha": 0.01, "device": EmulatorDevice()},
            "emulator has no penalty='elasticnet': use device='cpu'",
        ),
        ({"penalty": "elasticnet", "alpha": 0.1, "l1_ratio": 1.1}, "l1_ratio=1.1: choose a number from 0 to 1"),
        ({"penalty": "elasticnet", "alpha": 0.1, "l1_ratio": None}, "l1_ratio must be set when penalty"),
        ({"loss": "huber", "epsilon": 0}, "epsilon=0: loss='huber' needs a number above 0"),
        ({"loss": "huber", "epsilon": 1e-9}, "epsilon=1e-09: for the range of these labels it must be at least"),
        ({"loss": "epsilon_insensitive", "epsilon": -1}, "epsilon=-1: loss='epsilon_insensitive' needs 0 or more"),
        ({"loss": "squared_hinge"}, "loss='squared_hinge': choose one of 'squared_error', 'huber'"),
        ({"penalty": "l2", "alpha": -1}, "alpha=-1"),
        ({"penalty": "l2", "alpha": 1.0}, "alpha . learning_rate is 0.3"),
        ({"penalty": "l1", "alpha": None}, "alpha=None"),
        ({"bounds": (1, 0)}, r"bounds=\(1, 0\)"),
        ({"bounds": (0, 1), "penalty": "l1"}, "cannot be combined with a penalty"),
        ({"staleness": 2}, "staleness=2"),
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
    with pytest.raises(DataError, match="X has 70 features, but emulator holds 64"):
        regressor(device=emulator(max_features=64)).fit(*table(seed, n=70))


def test_a_batch_larger_than_the_data(seed):
    X, y = table(seed)
    with pytest.warns(UserWarning, match="batch_size=300 exceeds the 200 rows"):
        model = regressor(batch_size=300).fit(X, y)
    assert model.coef_.tolist() == regressor(batch_size=200).fit(X, y).coef_.tolist()
    assert model.batch_size == 300


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
        scores = cross_val_score(classifier(loss="log_loss", epochs=40), X, y > 5, cv=3, scoring="neg_log_loss")
        assert scores.min() > -np.log(2)


def test_numpy_is_all_that_is_needed():
    """On a board there is nothing else: the stand-ins of scikit-learn's classes serve."""
    out = run_bare("""
import bitlane
assert "numpy" not in sys.modules
X, y = [[0.0], [1.0], [3.0]] * 9, [0.0, 1.0, 3.0] * 9
model = bitlane.SGDRegressor(device="emulator", bits=8, random_state=0)
print(repr(model), model.set_params(epochs=40) is model, model.get_params()["epochs"], len(model.get_params()))
print(model.fit(X, y).score(X, y) > 0.9, bitlane.SGDClassifier(device="emulator").fit(X, [0, 0, 1] * 9).classes_)
for act in (lambda: model.set_params(eta=1), lambda: bitlane.SGDRegressor().predict(X)):
    try:
        act()
    except bitlane.DataError as error:
        print(type(error).__name__, error)
print(sorted({name.partition(".")[0] for name in sys.modules if name.startswith("bitlane.compress")}))
""")
    assert out.splitlines() == [
        "SGDRegressor(bits=8, device='emulator', random_state=0) True 40 31",
        "True [0 1]",
        "DataError Invalid parameter 'eta' for estimator SGDRegressor(bits=8, epochs=40, device='emulator', "
        f"random_state=0). Valid parameters are: {list(inspect.signature(SGDRegressor).parameters)}.",
        "NotFittedError this SGDRegressor is not fitted: call fit first",
        "[]",
    ]

"""The estimators: conventions, validation in one clear line each, and that they learn."""

import inspect
import re
import warnings

import numpy as np
import pytest
from tests.helpers.bare_python import run_bare
from tests.helpers.emulators import emulator
from tests.helpers.machines import Recorded

from bitlane import DataError, DeviceError, SGDClassifier, SGDRegressor
from bitlane.devices.emulator import EmulatorDevice
from bitlane.estimators.validation import class_weights

BOTH = [SGDRegressor, SGDClassifier]


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
    assert model.coef_.shape == (1, 5) and model.intercept_.shape == (1,) and model.run_.passes == 1
    scores = model.decision_function(X)
    assert scores.shape == (200,)
    assert np.array_equal(model.predict(X) == "yes", scores > 0)
    assert model.score(X, labels) == np.mean(model.predict(X) == labels) > 0.9


def three(seed, rows=300):
    """Three classes, 0, 10 and 20, of 4 features."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows) * 10
    return rng.normal(size=(rows, 4)) + np.eye(4)[labels // 10] * 6, labels


@pytest.mark.parametrize("loss", ["squared_error", "hinge", "log_loss"])
def test_many_classes(seed, loss):
    X, labels = three(seed)
    model = classifier(loss=loss).fit(X, labels)
    assert model.classes_.tolist() == [0, 10, 20]
    assert model.coef_.shape == (3, 4) and model.decision_function(X).shape == (300, 3)
    assert model.run_.passes == 3 and model.run_.coef.tolist() == model.coef_.tolist()
    assert model.predict(X).dtype == labels.dtype and model.score(X, labels) > 0.9
    together = classifier(loss=loss, device=emulator(outputs=2)).fit(X, labels)
    assert together.run_.passes == 2 and together.coef_.tolist() == model.coef_.tolist()


@pytest.mark.parametrize("loss", ["hinge", "log_loss"])
def test_two_classes_by_margin(seed, loss):
    X, y = table(seed)
    model = classifier(loss=loss, epochs=40, learning_rate=1.0, decay=0.9).fit(X, y > 5)
    assert model.score(X, y > 5) > 0.9
    assert (model.decision_function(X) > 0).tolist() == model.predict(X).tolist()
    assert model.run_.loss[-1] < model.run_.loss[0]


def test_probabilities(seed):
    X, y = table(seed)
    model = classifier(loss="log_loss").fit(X, y > 5)
    found = model.predict_proba(X)
    assert found.shape == (200, 2) and found.sum(axis=1) == pytest.approx(1)
    assert found[:, 1] == pytest.approx(1 / (1 + np.exp(-model.decision_function(X))))
    X, labels = three(seed)
    model = classifier(loss="log_loss").fit(X, labels)
    found = model.predict_proba(X)
    assert found.shape == (300, 3) and found.sum(axis=1) == pytest.approx(1) and (found >= 0).all()
    assert model.classes_[found.argmax(axis=1)].tolist() == model.predict(X).tolist()
    model.intercept_ = np.full(3, -1e4)  # no class has any probability
    assert model.predict_proba(X) == pytest.approx(1 / 3)
    for loss in ("squared_error", "hinge"):
        assert not hasattr(classifier(loss=loss), "predict_proba")
        with pytest.raises(AttributeError, match=f"loss='{loss}' gives no probabilities: set loss='log_loss'"):
            _ = classifier(loss=loss).predict_proba
    with pytest.raises(DataError, match="not fitted"):
        classifier(loss="log_loss").predict_proba(X)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_scikit_learns(seed, classes):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, labels = three(seed)
    labels = np.minimum(labels, 10 * (classes - 1))
    model = classifier(loss="log_loss").fit(X, labels)
    theirs = linear_model.SGDClassifier(loss="log_loss", max_iter=5, tol=None).fit(X, labels)
    theirs.coef_, theirs.intercept_ = model.coef_, model.intercept_
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), rtol=1e-9, atol=1e-12)
    assert model.predict(X).tolist() == theirs.predict(X).tolist()


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
        ({0: "much"}, r"class_weight\[0\]='much'"),
        (3, "class_weight=3"),
    ],
)
def test_class_weights_that_cannot_be_used(seed, weights, message):
    with pytest.raises(DataError, match=message):
        classifier(class_weight=weights).fit(*three(seed))


# --- several targets -----------------------------------------------------------------------------
def test_several_targets(seed):
    X, y = table(seed)
    both = np.column_stack([y, 100 - 3 * y])
    model = regressor(decay=0.9).fit(X, both)
    assert model.coef_.shape == (2, 5) and model.intercept_.shape == (2,) and model.predict(X).shape == (200, 2)
    assert model.run_.passes == 2
    one = regressor(decay=0.9).fit(X, y)
    assert model.coef_[0].tolist() == one.coef_.tolist()
    together = regressor(decay=0.9, device=emulator(outputs=2)).fit(X, both)
    assert together.run_.passes == 1 and together.coef_.tolist() == model.coef_.tolist()
    alone = [1 - np.mean((both[:, t] - model.predict(X)[:, t]) ** 2) / both[:, t].var() for t in range(2)]
    assert model.score(X, both) == pytest.approx(np.mean(alone)) and min(alone) > 0.9
    with pytest.raises(DataError, match=r"y has shape \(200,\), but the predictions have \(200, 2\)"):
        model.score(X, y)


# --- beginnings ----------------------------------------------------------------------------------
def test_warm_start(seed):
    X, y = table(seed)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    for make, target in ((regressor, y), (lambda **p: classifier(loss="log_loss", **p), labels)):
        warm = make(warm_start=True, epochs=5)
        first = warm.fit(X, target).coef_
        begun = warm.fit(X, target).coef_
        init = make(epochs=5).fit(X, target)
        again = make(epochs=5).fit(X, target, coef_init=init.coef_, intercept_init=init.intercept_)
        assert first.tolist() == init.coef_.tolist()
        assert begun.tolist() == again.coef_.tolist() != first.tolist()
        cold = make(epochs=5)
        assert cold.fit(X, target).coef_.tolist() == cold.fit(X, target).coef_.tolist()


def test_initial_coefficients_that_cannot_be_used(seed):
    X, y = table(seed)
    with pytest.raises(DataError, match=r"coef_init has shape \(4,\), but the data needs \(1, 5\)"):
        regressor().fit(X, y, coef_init=np.ones(4))
    with pytest.raises(DataError, match=r"intercept_init has shape \(2,\), but the data needs \(1,\)"):
        regressor().fit(X, y, intercept_init=[1, 2])
    with pytest.raises(DataError, match="coef_init holds 1 NaN"):
        regressor().fit(X, y, coef_init=[1, 2, np.nan, 4, 5])
    with pytest.raises(DataError, match=r"coef_init has shape \(1, 4\), but the data needs \(3, 4\)"):
        classifier(warm_start=True).fit(*three(seed), coef_init=np.ones((1, 4)))


@pytest.mark.parametrize("make", [regressor, lambda **p: classifier(loss="hinge", class_weight="balanced", **p)])
def test_resuming(seed, make):
    X, y = table(seed)
    target = y if make is regressor else np.digitize(y, np.quantile(y, [0.3, 0.7]))
    whole = make(epochs=6).fit(X, target)
    stopped = make(epochs=2).fit(X, target)
    resumed = make(epochs=6).fit(X, target, resume=stopped.run_.checkpoint())
    assert resumed.coef_.tolist() == whole.coef_.tolist()
    assert resumed.run_.loss.tolist() == whole.run_.loss[2:].tolist()
    fresh = make(epochs=2, random_state=None).fit(X, target).run_.checkpoint()
    assert make(epochs=3, random_state=None).fit(X, target, resume=fresh).run_.settings["seed"] == fresh.options.seed
    warm = make(epochs=6, warm_start=True).fit(X, target)
    assert warm.fit(X, target, resume=stopped.run_.checkpoint()).coef_.tolist() == whole.coef_.tolist()
    with pytest.raises(DataError, match="differ from the data"):
        make(epochs=6).fit(X[::-1], target, resume=stopped.run_.checkpoint())
    with pytest.raises(DataError, match="omit coef_init and intercept_init"):
        make(epochs=6).fit(X, target, coef_init=whole.coef_, resume=stopped.run_.checkpoint())
    with pytest.raises(DataError, match="batch_size=8, but the checkpoint is of a training with 16"):
        make(epochs=6, batch_size=8).fit(X, target, resume=stopped.run_.checkpoint())


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
        together = classifier(bits=bits, levels=levels, loss=loss, device=emulator(outputs=3, level_slots=64))
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
    with pytest.warns(UserWarning, match="fitted with some"):
        model.predict(X)
    for names, told in (("abced", "they are in another order"), ("abxyz", "x, y, z are new here"), ("abc", "d, e are")):
        with pytest.raises(DataError, match=f"names should match those that were passed during fit: {told}"):
            model.predict(Frame(X[:, : len(names)], list(names)))
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="fitted without"):
        model.predict(Frame(X, list("abcde")))


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
    assert model.get_params()["bits"] == 8 and len(model.get_params()) == 20 + (kind is SGDClassifier)
    assert model.set_params(epochs=3, penalty="l2") is model and model.epochs == 3
    assert kind(**model.get_params()).get_params() == model.get_params()
    assert repr(model) == f"{kind.__name__}(bits=8, epochs=3, penalty='l2')"
    documented = " ".join(kind.__doc__.split("Parameters\n")[1].split("Attributes\n")[0].split())
    for name in model.get_params():
        assert re.search(rf"\b{name}\b( : |, )", documented), name
    assert kind.fit.__doc__
    with pytest.raises(ValueError, match="Invalid parameter 'eta'"):
        model.set_params(eta=1)


def bad(X):
    X = X.copy()
    X[3, 1] = np.nan
    X[4, 1] = np.inf
    return X


class Sparse(Frame):
    """As much of a sparse matrix as is looked at."""

    def toarray(self):
        return np.asarray(self.values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (bad(X), y), r"X holds 2 NaN or infinite value\(s\)"),
        (lambda X, y: (X, bad(X)[:, 1]), r"y holds 2 NaN or infinite"),
        (lambda X, y: (X[:0], y[:0]), "X has 0 rows"),
        (lambda X, y: (X[:1], y[:1]), r"X has 1 sample\(s\): at least 2"),
        (lambda X, y: (X[:, :0], y), r"X has 0 feature\(s\)"),
        (lambda X, y: (X[:, 0], y), r"X has 1 dimension\(s\).*Reshape your data"),
        (lambda X, y: (Sparse(X, None), y), r"X is a sparse Sparse: .* X.toarray\(\)"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X, X[:, :, None]), r"y has 3 dimension\(s\)"),
        (lambda X, y: (X, y[0]), r"y has 0 dimension\(s\)"),
        (lambda X, y: (X, X[:-1]), "X has 200 rows, but y has 199 values"),
        (lambda X, y: (X, y[:-1]), "X has 200 rows, but y has 199 values"),
        (lambda X, y: (X.astype(str), y), "X holds <U.*encode text"),
        (lambda X, y: (np.array([["a", 1.0]] * 200, object), y), "X holds object"),
        (lambda X, y: (X + 1j, y), "Complex data not supported: X holds complex128"),
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
    with pytest.raises(DataError, match=r"y has 2 dimension\(s\)"):
        classifier().fit(X, X)
    with pytest.raises(DataError, match=r"Unknown label type: continuous; y has 1 value\(s\) with a fraction"):
        classifier().fit(X, np.append(np.arange(199.0), 0.5))
    with pytest.raises(DataError, match="y holds <U"):
        regressor().fit(X, np.full(200, "a"))
    with pytest.raises(DataError, match="y has 0 columns"):
        regressor().fit(X, X[:, :0])


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
        ({"penalty": "elasticnet"}, "penalty='elasticnet'"),
        ({"penalty": "l2", "alpha": -1}, "alpha=-1"),
        ({"penalty": "l2", "alpha": 1.0}, "alpha . learning_rate is 0.3"),
        ({"penalty": "l1", "alpha": None}, "alpha=None"),
        ({"bounds": (1, 0)}, r"bounds=\(1, 0\)"),
        ({"bounds": (0, 1), "penalty": "l1"}, "exclude a penalty"),
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
    with pytest.raises(DataError, match="X has 4 features, but SGDRegressor is expecting 5"):
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
        "SGDRegressor(bits=8, device='emulator', random_state=0) True 40 20",
        "True [0 1]",
        "DataError Invalid parameter 'eta' for estimator SGDRegressor(bits=8, epochs=40, device='emulator', "
        f"random_state=0). Valid parameters are: {list(inspect.signature(SGDRegressor).parameters)}.",
        "NotFittedError this SGDRegressor is not fitted: call fit first",
        "[]",
    ]

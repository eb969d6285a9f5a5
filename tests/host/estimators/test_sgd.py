"""What the estimators learn: regression, classification, several targets, warm start and resuming."""

import numpy as np
import pytest
from tests.helpers.emulators import emulator
from tests.helpers.estimator_tables import classifier, regressor, table

from bitlane import DataError


def test_regression(seed):
    X, y = table(seed)
    model = regressor(random_state=seed, decay=0.9)
    assert model.fit(X, y) is model
    assert model.score(X, y) > 0.95
    assert model.predict(X).shape == (200,) and model.coef_.shape == (5,) and model.intercept_.shape == (1,)
    assert model.n_features_in_ == 5 and model.n_iter_ == 200 and not hasattr(model, "feature_names_in_")
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
    model = classifier(learning_rate="auto").fit(X, labels)
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
    assert model.score(X, y > 5) > 0.85
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
        with pytest.raises(AttributeError, match=f"not available for loss='{loss}'; set loss='log_loss'"):
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
    with pytest.raises(DataError, match=r"coef_init does not match dataset: its shape is \(4,\), \(1, 5\) is needed"):
        regressor().fit(X, y, coef_init=np.ones(4))
    with pytest.raises(DataError, match=r"intercept_init does not match dataset: .* \(2,\), \(1,\) is needed"):
        regressor().fit(X, y, intercept_init=[1, 2])
    with pytest.raises(DataError, match="coef_init holds 1 NaN"):
        regressor().fit(X, y, coef_init=[1, 2, np.nan, 4, 5])
    with pytest.raises(DataError, match=r"coef_init does not match dataset: its shape is \(1, 4\), \(3, 4\) is needed"):
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
    with pytest.raises(DataError, match="batch_size=8, but the checkpoint was trained with 16"):
        make(epochs=6, batch_size=8).fit(X, target, resume=stopped.run_.checkpoint())

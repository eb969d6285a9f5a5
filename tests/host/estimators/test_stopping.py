"""Fits that end at a plateau, hold rows out, or average models, against the plain training and textbook rules."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST

from bitlane import DataError, SGDClassifier, SGDRegressor
from bitlane.estimators.fit_rows import HELD_OUT, split
from bitlane.support.rng import generator
from bitlane.support.sklearn_compat import ConvergenceWarning

KINDS = (SGDRegressor, SGDClassifier)


def table(seed, kind, rows=400, n=8):
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, n))
    score = X @ random.normal(size=n) + random.normal(0, 0.5, rows)
    return X, score if kind is SGDRegressor else np.digitize(score, np.quantile(score, [0.4, 0.8]))


def textbook(losses, tol, patience):
    """The number of epochs after which scikit-learn's rule ends a training with these losses; None for no end."""
    best, stagnant = np.inf, 0
    for epoch, loss in enumerate(losses, 1):
        stagnant = stagnant + 1 if loss > best - tol else 0
        best = min(best, loss)
        if stagnant >= patience:
            return epoch
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_the_rule_is_the_textbooks_and_the_bits_are_those_of_a_shorter_training(kind, decay, seed):
    X, y = table(seed, kind)
    random = np.random.default_rng(seed)
    tol, patience, epochs = 10.0 ** random.uniform(-5, -1), int(random.integers(1, 7)), int(random.integers(2, 41))
    options = {
        "bits": int(random.choice([2, 4, 8])),
        "draws": [8, "epoch", "once", 3][random.integers(4)],
        "learning_rate": 0.1,
        "decay": decay,
        "random_state": seed,
        "device": "cpu",
    }
    model = kind(**options, epochs=epochs, tol=tol, n_iter_no_change=patience).fit(X, y, snapshots=True)
    longest = kind(**options, epochs=epochs).fit(X, y)
    unit = np.var(y) if kind is SGDRegressor else 1.0
    ended = textbook(np.array(longest.loss_curve_) / unit, tol, patience) or epochs
    assert model.n_iter_ == ended == len(model.loss_curve_) == len(model.run_.snapshots)
    assert model.loss_curve_ == longest.loss_curve_[:ended]
    if ended == epochs:
        assert model.coef_.tolist() == longest.coef_.tolist()
    else:
        assert (
            model.coef_.tolist()
            == kind(**options, epochs=epochs)
            .fit(X, y, snapshots=True)
            .run_.models()[0][ended - 1]
            .reshape(model.coef_.shape)
            .tolist()
        )


@pytest.mark.parametrize("kind", KINDS)
def test_an_automatic_decay_ends_in_epochs_of_falling_steps(kind, seed):
    X, y = table(seed, kind, rows=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kind(bits=8, epochs=500, tol=1e-3, random_state=seed, device="cpu").fit(X, y)
    assert 26 <= model.n_iter_ < 500
    longer = kind(bits=8, epochs=500, random_state=seed, device="cpu").fit(X, y)
    assert model.score(X, y) > longer.score(X, y) - 0.02
    decays = {settings.decay for settings in model.run_.checkpoint().settings}
    assert decays == {round(0.8 * 2**16)} and model.run_.settings["decay"] == 0.8
    assert model.run_.settings["epochs"] == model.n_iter_ == model.run_.plateau + 20


def test_without_a_plateau_a_warning_names_the_remedy(seed):
    X, y = table(seed, SGDRegressor)
    with pytest.warns(ConvergenceWarning, match="raise epochs or tol"):
        model = SGDRegressor(epochs=6, tol=0.0, random_state=seed, device="cpu").fit(X, y)
    assert model.n_iter_ == 6


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_unit_of_y_does_not_change_when_a_regression_ends(factor, seed):
    X, y = table(seed, SGDRegressor)
    model = SGDRegressor(bits=8, epochs=300, tol=1e-3, random_state=seed, device="cpu")
    assert model.fit(X, y).n_iter_ == model.fit(X, y * factor).n_iter_ < 300


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_held_out_rows_are_scored_and_not_read(kind, seed):
    X, y = table(seed, kind)
    options = {"bits": 8, "epochs": 12, "decay": 0.8, "learning_rate": 0.1, "random_state": seed, "device": "cpu"}
    options |= {"early_stopping": True, "n_iter_no_change": 100, "validation_fraction": 0.25}
    model = kind(**options).fit(X, y, snapshots=True)
    scores, scored = model.validation_scores_, []
    coefs, intercepts = model.run_.models()
    plain = kind(device="cpu").fit(X, y)
    classes = y[:, None] if kind is SGDRegressor else np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    kept, out = split(0.25, classes, kind is SGDClassifier, generator(seed, HELD_OUT))
    assert len(out) == 100 and sorted([*kept, *out]) == [*range(400)]
    for coef, intercept in zip(coefs, intercepts, strict=True):
        plain.coef_, plain.intercept_ = coef.reshape(model.coef_.shape), np.atleast_1d(intercept)
        scored.append(plain.score(X[out], y[out]))
    assert scores == pytest.approx(scored, abs=1e-12)
    other_X, other_y = X.copy(), np.array(y)
    other_X[out] = 1e6
    if kind is SGDRegressor:  # classes choose the rows
        other_y[out] = -1e6
    assert kind(**options).fit(other_X, other_y).coef_.tolist() == model.coef_.tolist()
    only = {**options, "early_stopping": False}
    assert kind(**only).fit(X[kept], y[kept]).coef_.tolist() == model.coef_.tolist()


def test_each_class_is_held_out_by_the_same_share(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(10, 400, 5)
    targets = np.repeat(np.eye(5), sizes, axis=0)
    _, out = split(0.2, targets[random.permutation(len(targets))], True, random)
    assert len(out) == round(0.2 * sizes.sum())
    _, out = split(0.2, targets, True, random)
    assert np.abs(targets[out].sum(axis=0) - 0.2 * sizes).max() <= 1.5


def test_early_stopping_ends_at_a_plateau_of_the_score(seed):
    X, y = table(seed, SGDClassifier, rows=2000)
    model = SGDClassifier(bits=8, epochs=400, early_stopping=True, random_state=seed, device="cpu").fit(X, y)
    assert model.n_iter_ < 200 and len(model.validation_scores_) == model.n_iter_
    assert model.score(X, y) > 0.8
    assert not hasattr(model.set_params(early_stopping=False, epochs=5).fit(X, y), "validation_scores_")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("average", "first"), [(True, 6), (1, 1), (400, 1), (401, 2), (2900, 8), (100_000, None)])
def test_an_average_is_the_mean_of_the_models_of_its_epochs(average, first, seed):
    X, y = table(seed, SGDRegressor)
    options = {"epochs": 10, "random_state": seed, "device": "cpu"}
    model = SGDRegressor(**options, average=average).fit(X, y)
    coefs, intercepts = SGDRegressor(**options).fit(X, y, snapshots=True).run_.models()
    some = slice(-1, None) if first is None else slice(first - 1, None)
    assert model.coef_ == pytest.approx(coefs[some].mean(axis=0), abs=8e-6)
    assert model.intercept_ == pytest.approx(intercepts[some].mean(axis=0), abs=8e-6)
    assert model.coef_.tolist() == model.run_.coef.tolist() and model.run_.snapshots is None


def test_callbacks_hear_of_each_kept_epoch_once(seed):
    X, y = table(seed, SGDClassifier)
    heard = []
    model = SGDClassifier(epochs=200, tol=1e-2, random_state=seed, device="cpu")
    model.fit(X, y, on_epoch=lambda epoch, loss: heard.append((epoch, loss)))
    assert [epoch for epoch, _ in heard] == [*range(model.n_iter_)]
    assert [loss for _, loss in heard] == pytest.approx(model.loss_curve_)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_several_devices_end_alike(kind, seed):
    """Classes are spread over two devices; the rows of a regression are trained in two shards."""
    X, y = table(seed, kind)
    options = {"epochs": 30, "tol": 1e-2, "decay": 0.9, "learning_rate": 0.2, "random_state": seed}
    model = kind(**options, device=[FASTEST, FASTEST]).fit(X, y)
    unit = np.var(y) if kind is SGDRegressor else 1.0
    assert model.n_iter_ == (textbook(np.array(model.loss_curve_) / unit, 1e-2, 5) or 30)
    if kind is SGDClassifier:
        assert model.coef_.tolist() == kind(**options, device=FASTEST).fit(X, y).coef_.tolist()


def test_weights_of_0_for_all_held_out_rows_are_refused():
    X, y = np.zeros((20, 1)), np.arange(20.0)
    X[:, 0] = y
    with pytest.raises(DataError, match="all zero"):
        SGDRegressor(early_stopping=True, validation_fraction=0.5, device="cpu", random_state=0).fit(
            X, y, sample_weight=np.r_[np.zeros(19), 1.0]
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tol": "small"}, "tol="),
        ({"tol": np.nan}, "tol="),
        ({"tol": 0.1, "n_iter_no_change": 0}, "n_iter_no_change=0"),
        ({"early_stopping": 1}, "early_stopping=1"),
        ({"early_stopping": True, "validation_fraction": 0.0}, "validation_fraction=0.0"),
        ({"early_stopping": True, "validation_fraction": 0.9999}, "too few rows"),
        ({"average": -1}, "average=-1"),
        ({"average": "yes"}, "average='yes'"),
        ({"tol": 0.1, "bits": "mqgrad"}, "omit tol"),
    ],
)
def test_unusable_parameters_are_refused(parameters, message, seed):
    X, y = table(seed, SGDRegressor)
    with pytest.raises(DataError, match=message):
        SGDRegressor(device="cpu", **parameters).fit(X, y)


def test_what_partial_fit_cannot_do_is_told(seed):
    X, y = table(seed, SGDRegressor)
    with pytest.raises(DataError, match="early_stopping should be False with partial_fit"):
        SGDRegressor(early_stopping=True, device="cpu").partial_fit(X, y)
    with pytest.warns(UserWarning, match="average is not used"):
        SGDRegressor(average=True, device="cpu").partial_fit(X, y)


def test_a_checkpoint_is_not_resumed_up_to_a_plateau(seed):
    X, y = table(seed, SGDRegressor)
    checkpoint = SGDRegressor(epochs=2, random_state=seed, device="cpu").fit(X, y).run_.checkpoint()
    with pytest.raises(DataError, match="cannot resume"):
        SGDRegressor(epochs=4, tol=0.1, random_state=seed, device="cpu").fit(X, y, resume=checkpoint)

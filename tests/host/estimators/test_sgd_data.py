"""The data that the estimators take: types, columns, labels, and data that cannot be used."""

import numpy as np
import pytest
from tests.helpers.emulators import FASTEST
from tests.helpers.estimator_tables import Frame, classifier, regressor, table

from bitlane import DataError, SGDRegressor


def test_boolean_labels(seed):
    X, y = table(seed)
    model = classifier().fit(X, y > 5)
    assert model.predict(X).dtype == bool


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
    settings = {"bits": 16, "epochs": 3, "learning_rate": 1.0, "device": FASTEST, "random_state": seed}
    shuffled = SGDRegressor(**settings).fit(X[order], y[order])
    sorted_rows = SGDRegressor(**settings, shuffle=False).fit(X[order], y[order])
    assert shuffled.score(X, y) > sorted_rows.score(X, y) + 0.01


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
        (lambda X, y: (X + 1j, y), "Complex data not supported: X has complex128"),
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
    with pytest.raises(DataError, match=r"one class only \(1.0\)"):
        classifier().fit(X, np.ones(200))
    with pytest.raises(DataError, match=r"y has 2 dimension\(s\)"):
        classifier().fit(X, X)
    with pytest.raises(DataError, match=r"Unknown label type: continuous; y has 1 value\(s\) with a fraction"):
        classifier().fit(X, np.append(np.arange(199.0), 0.5))
    with pytest.raises(DataError, match="y holds <U"):
        regressor().fit(X, np.full(200, "a"))
    with pytest.raises(DataError, match="y has 0 columns"):
        regressor().fit(X, X[:, :0])


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

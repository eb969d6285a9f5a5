"""The documentation of the parameters that estimators share."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)

PARAMETERS = {
    "optimizer": """optimizer : {"ftrl", "adagrad", "sgd"}, FTRL, AdaGrad or SGD, optional
    Of all parameters by key. Models with linear weights and factors also take a pair, one of each. Default: that of
    `bitlane sparse train`, FTRL for logistic regression and AdaGrad for other models.""",
    "epochs": """epochs : int, default={default}
    Passes of `fit` over the data. `partial_fit` makes one.""",
    "batch_rows": """batch_rows : int, default={default}
    Rows of a minibatch. 1: each row is learned before the next is scored.""",
    "shuffle": """shuffle : bool, default={default}
    Whether `fit` puts the rows in another random order for each epoch. `partial_fit` keeps their order.""",
    "fields": """fields : array-like of int [columns], optional
    Field of each column of an array or sparse matrix. Default: one field for all where the model does not use fields,
    else a field for each of at most 100 columns. In tables each column is a field. For a `Batch`, the number of fields
    as an int; default: those of the first batch.""",
    "fit_intercept": """fit_intercept : bool, default={default}
    Whether to fit an intercept. It begins with the base rate, or the mean of y.""",
    "sightings": """sightings : int, default={default}
    A key gets parameters when it is seen for the `sightings`-th time.""",
    "threads": """threads : int, default={default}
    Threads that learn. One is deterministic; more update the parameters without waiting for each other (Hogwild).""",
    "random_state": """random_state : int, RandomState or Generator, optional
    Seed of the order of the rows and of the first factors; a fresh one when None. A generator gives
    each fit another.""",
    "dim": """dim : int, default={default}
    Length of a factor or embedding.""",
    "initial_scale": """initial_scale : float, optional
    Scale of the first factors: see `ModelSpec`.""",
    "normalise": """normalise : bool, default={default}
    Divide the sum over pairs by the row's sum of squared values, as libffm does.""",
    "linear": """linear : {"ftrl", "adagrad", "sgd"}, FTRL, AdaGrad or SGD, optional
    Optimizer of linear weights. Default: no linear weights, as in libffm.""",
    "hidden": """hidden : tuple of int, default={default}
    Sizes of the hidden layers.""",
    "dense_optimizer": """dense_optimizer : {"ftrl", "adagrad", "sgd"}, FTRL, AdaGrad or SGD, optional
    Of the layers and the intercept. Default: AdaGrad.""",
    "device": """device : str, default={default}
    Where torch computes the layers, such as "cuda".""",
}

ATTRIBUTES = """Attributes
----------
model_ : SparseModel
    What was learned. `predict` uses it as it is: it may go on learning elsewhere.
n_features_in_ : int
    Columns of X; missing if X was a `Batch`.
feature_names_in_ : ndarray of str
    Only if X had column names."""

NOTES = """Notes
-----
X is one of these, and later calls take the same:

- a sparse matrix, or an array of numbers: what is not 0 becomes a feature whose key is its column;
- a table of pandas, polars or Arrow: cells of text, categories, booleans and integers are hashed with the name of their
  column, as in files (`bitlane.sparse.batches.hashing`); floats are numeric features, left out where missing;
- a `Batch`: its keys, fields and values as they are, and its labels if y is None."""


def documented(kind: Kind) -> Kind:
    """Put the documentation of parameters and attributes into the docstring of an estimator."""
    assert kind.__doc__ is not None
    texts = [PARAMETERS[each.name].replace("{default}", repr(each.default)) for each in fields(kind) if each.init]
    shown = {"parameters": "Parameters\n----------\n" + "\n".join(texts), "attributes": ATTRIBUTES, "notes": NOTES}
    for name, text in shown.items():
        kind.__doc__ = kind.__doc__.replace(f"{{{name}}}", text.replace("\n", "\n    "))
    return kind

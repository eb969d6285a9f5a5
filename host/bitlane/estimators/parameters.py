"""The documentation of the parameters that both estimators have."""

from __future__ import annotations

from typing import TypeVar

Kind = TypeVar("Kind", bound=type)

LOSSES = {
    "SGDRegressor": '{"squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"}, '
    'default="squared_error"\n'
    "    ``1/2 residual**2``; the same up to epsilon, and beyond it ``epsilon |residual| - 1/2 epsilon**2``, so that\n"
    "    outliers pull less; ``max(0, |residual| - epsilon)``; or its square. All but the first need a device in\n"
    "    software.",
    "SGDClassifier": '{"log_loss", "hinge", "squared_error", "squared_hinge", "modified_huber"}, default="log_loss"\n'
    "    Logistic loss, hinge loss (SVM), squared errors on labels -1 and 1 (LS-SVM), the square of hinge, or that\n"
    "    square up to a margin of -1 and ``-4 margin`` below. The last two need a device in software.",
}

PARAMETERS = """Parameters
----------
bits : int, "adaptive", "mqgrad" or BitPolicy, default=4
    Stored bits of a feature: even, 2 to 32; with double sampling also 3 or 5. "adaptive": each epoch has the bits of a
    plan, made before the training, that reaches the loss of 32 bits in the fewest cycles; for squared errors without
    class weights. Or a policy, such as ``bitlane.compress.MQGrad(choices=(2, 4, 8))``: it chooses the bits of each
    twentieth of an epoch; with staleness, of each epoch. "mqgrad" is MQGrad with settings for few epochs. A training
    whose bits change cannot be resumed.
sampling : {"double", "nearest", "naive", "full"}, default="double"
    "double": two independent draws of each sample, unbiased (ZipML, eq. 6); "nearest": rounded; "naive": one draw used
    twice, biased; "full": 32 bits.
levels : {"uniform", "optimal"}, default="uniform"
    Values that samples are rounded to: equal intervals, or the levels with the least variance for each feature (ZipML,
    section 3), with double sampling and 3, 4 or 5 bits. Optimal levels, and 3 or 5 bits, need table lanes.
draws : int or {"epoch", "once"}, default=8
    Draw sets that the epochs read in turn: a number, a new one for each epoch, or one.
epochs : int or "auto", default="auto"
    Passes over the data. "auto": as many as have 30,000 batches, but 20 at least and 200 at most.
batch_size : int, default=16
    Rows of a mini-batch.
learning_rate : float or "auto", default="auto"
    Step along the mean gradient of a batch, in scaled units: columns, and targets of a regression, are first scaled
    to [-1, 1]. "auto": nine tenths of the largest rate at which the training is stable, computed from the data.
decay : float or "auto", default="auto"
    Factor on the learning rate after each epoch, 0.5 to 1. "auto": 0.8 for up to 20 epochs, ``0.8 ** (20 / epochs)``
    for more, so that the last epochs of a long training still change the model. A resumed training keeps its decay.
    With `tol` or `early_stopping` the rate stays as it is up to a plateau, and then falls by 0.8 in each of 20 epochs.
tol : float, optional
    Ends the training at a plateau: `n_iter_no_change` epochs whose mean loss is not below the least one so far by more
    than this; for regressors in units of the variance of y, with epsilon_insensitive of its standard deviation. Without
    a plateau in `epochs` epochs there is a ConvergenceWarning. None: all epochs run.
n_iter_no_change : int, default=5
    Epochs without improvement that make a plateau.
early_stopping : bool, default=False
    Whether the score of rows that the training does not read decides on the plateau instead: an epoch improves if its
    score is above the best one by more than `tol`, or 0 for None.
validation_fraction : float, default=0.1
    Share of the rows, or of those of each class, that `early_stopping` holds out.
average : bool or int, default=False
    Whether the model is the mean of those after several epochs: True for the second half of the epochs, a number for
    the epoch in which so many rows have been read and all later ones.
loss : {losses}
penalty : {None, "l2", "l1", "elasticnet"}, default=None
    Elastic net, both penalties together, needs a device in software.
alpha : float, default=0.0
    Strength of the penalty: the objective is ``mean(loss) + alpha * R(w)``, ``R(w) = 1/2 |w|**2`` or ``|w|_1``, or with
    elastic net ``l1_ratio * |w|_1 + (1 - l1_ratio) / 2 * |w|**2``, with scaled weights
    ``w = coef_ * run_.scaling.scale / run_.scaling.label_unit`` and residuals divided by ``label_unit``, which is 1 for
    all losses of classifiers but squared errors. So it is scikit-learn's alpha on scaled columns and targets; on
    columns as they are, scikit-learn's alpha penalises `coef_` and gives another model. Unused without a penalty.
bounds : pair of floats or None, optional
    Low and high bound of all scaled weights, within [-8, 8), None for no bound; rounded inwards to multiples of 2**-12.
    As scales are positive, 0 and None mean the same for coefficients in user units. They exclude a penalty.
l1_ratio : float, default=0.15
    Share of the L1 part of elastic net, 0 to 1; unused with other penalties.
epsilon : float, default=0.1
    Epsilon of a loss with one, in units of y; unused with other losses.
clip : {"auto", None}, default="auto"
    "auto": a column in which few values are far from all others is stored as if these lay at the end of a range that
    suits the others. A warning names such columns, and ``run_.clipped`` has the share of the values. Predictions take
    each value as it is. None: the range of a column holds all of its values.
staleness : {0, 1}, default=0
    How many batches old the weights are that a batch reads. With 1 the hardware never waits for an update.
model_bits : int, optional
    2 to 23: bits of the weights that dot products read, rounded at random for every batch (ZipML, eq. 2). Their range
    is a power of two that fits the weights of the table.
gradient_bits : int, optional
    2 to 32: bits of step times slope, for slopes from -1 to 1, rounded at random for every row. Both roundings are
    unbiased and need a device with random rounding.
fit_intercept : bool, default=True
    Whether to fit an intercept, which neither penalty nor bounds change.
shuffle : bool, default=True
    Whether to put the rows in random order once, before they are stored. Sorted rows mislead SGD.
warm_start : bool, default=False
    Whether fit begins with the coefficients of the last fit, as in scikit-learn.
device : str, Device or list of them, default="auto"
    "auto", "cpu", "emulator", "rtl", "pynq", "pynq://HOST" or "xrt://FILE.xclbin" (see
    `bitlane.devices.open_device`), or an open device.
    "auto" is the board that the program runs on, or else "cpu". A device with several outputs trains as many targets at
    a time. With a list, the devices share the work: classes or targets are spread over them if there are enough,
    otherwise rows are trained in shards, whose models are averaged (see `bitlane.training.several`). K shards learn as
    much in a K-th of the cycles at about K times the learning rate, as far as that is stable.
average_every : int, default=1
    Epochs after which the models of shards are averaged.
on_device_failure : {"raise", "continue"}, default="raise"
    With several devices: whether one that fails ends the training, or the others do its work, with the same bits.
random_state : int, numpy.random.RandomState or Generator, optional
    Seed of the row order and the draws, 0 or more; a fresh one when None. A generator gives each fit another seed.
verbose : int, default=0
    Whether to print the loss of each epoch of each pass over the data."""


def documented(kind: Kind) -> Kind:
    """Put the documentation of the shared parameters into the docstring of an estimator."""
    losses = LOSSES[kind.__name__]
    text = PARAMETERS.replace("{losses}", losses).replace("\n", "\n    ")
    assert kind.__doc__ is not None
    kind.__doc__ = kind.__doc__.replace("{parameters}", text)
    return kind

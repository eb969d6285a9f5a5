"""The default settings of each kind of model.

The rates are the best of a grid on goodbooks and census32k, by the log loss of held-out rows after 1 and 3 epochs; that
of an intercept in minibatches keeps click logs of 0.1 to 50 % clicks calibrated at 16 to 4,096 rows a step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bitlane.sparse.parameters.optimizers import FTRL, SGD, AdaGrad, Optimizer

_LINEAR, _FACTORS, _INTERCEPT, _ONLINE = AdaGrad(0.3), AdaGrad(0.1), AdaGrad(0.1), SGD(0.01)


@dataclass(frozen=True)
class ModelRecipe:
    """The defaults of a kind of model.

    Attributes
    ----------
    linear, factors : FTRL, AdaGrad or SGD, optional
        Optimizers of the linear weights, and of the factors or embeddings. None: the kind has none, or none by default.
    dense : FTRL, AdaGrad or SGD
        Of the intercept and of the layers.
    online : FTRL, AdaGrad or SGD, optional
        Of the intercept, where each row is a step. None: `dense`.
    dim : int
        Length of a factor or an embedding.
    hidden : tuple of int
        Sizes of the hidden layers.
    batch_rows : int
        Rows of a minibatch.
    """

    linear: Optimizer | None = None
    factors: Optimizer | None = None
    dense: Optimizer = _INTERCEPT
    online: Optimizer | None = None
    dim: int = 8
    hidden: tuple[int, ...] = ()
    batch_rows: int = 1


_NETWORK = ModelRecipe(None, _FACTORS, AdaGrad(0.05), hidden=(64, 32), batch_rows=256)

RECIPES = {
    "lr": ModelRecipe(linear=FTRL(0.3), online=_ONLINE),
    "fm": ModelRecipe(_LINEAR, _FACTORS, online=_ONLINE),
    "ffm": ModelRecipe(factors=AdaGrad(0.2, l2=2e-5), dim=4),  # libffm's, and an intercept
    "dnn": _NETWORK,
    "widedeep": replace(_NETWORK, linear=_LINEAR),
    "deepfm": replace(_NETWORK, linear=_LINEAR),
}

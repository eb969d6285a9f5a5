"""Double sampling against rounding to nearest
===========================================

Columns with long tails, such as incomes or counts, have most of their values in few levels. Rounding to the nearest
level loses the differences between these values and biases the model. Double sampling rounds at random, twice and
independently, so the gradient stays unbiased. A single draw that is used twice is biased too.
"""

import matplotlib.pyplot as plt
import numpy as np

from bitlane import SGDRegressor

rng = np.random.default_rng(0)
X = rng.lognormal(size=(1000, 8))
y = X.sum(axis=1) + rng.normal(size=1000)

full = SGDRegressor(bits=32, sampling="full", random_state=0).fit(X, y)
best = np.mean((full.predict(X) - y) ** 2)
for sampling, name in [("double", "double sampling"), ("nearest", "nearest level"), ("naive", "one draw, used twice")]:
    models = [SGDRegressor(bits=bits, sampling=sampling, random_state=0).fit(X, y) for bits in (4, 6, 8)]
    losses = [np.mean((model.predict(X) - y) ** 2) / best for model in models]
    print(f"{name:22}", "  ".join(f"{bits} bits {loss:.3f}" for bits, loss in zip((4, 6, 8), losses, strict=True)))
    plt.plot((4, 6, 8), losses, marker="o", label=name)
plt.xticks((4, 6, 8), ("4 bits", "6 bits", "8 bits"))
plt.ylabel("loss over the loss with 32 bits")
plt.legend()
plt.show()

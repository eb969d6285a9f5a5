"""Stop and resume
===============

A checkpoint holds everything that a training needs to continue. The resumed training has the same bits as one that
never stopped.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from bitlane import SGDRegressor
from bitlane.training.checkpoint import Checkpoint

X, y = load_diabetes(return_X_y=True, scaled=False)
half = SGDRegressor(bits=8, epochs=10, random_state=0).fit(X, y)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "checkpoint.npz")
    half.run_.checkpoint().save(path)
    resumed = SGDRegressor(bits=8, epochs=20, random_state=0).fit(X, y, resume=Checkpoint.load(path))
straight = SGDRegressor(bits=8, epochs=20, random_state=0).fit(X, y)
print("same bits:", np.array_equal(resumed.coef_, straight.coef_))
plt.plot(range(1, 21), straight.run_.loss, color="lightgrey", linewidth=6, label="never stopped")
plt.plot(range(1, 11), half.run_.loss, label="before the checkpoint")
plt.plot(range(11, 21), resumed.run_.loss, label="resumed")
plt.xlabel("epoch")
plt.ylabel("mean squared residual")
plt.legend()
plt.show()

"""Where the clock cycles go
=========================

The accelerator takes one beat of memory a cycle if nothing makes it wait. Devices without hardware count the same
cycles as the simulated RTL. With staleness 0 a batch waits for the update of the one before; with staleness 1 it does
not. Long batches hide the wait too.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from bitlane import SGDClassifier

X, y = load_digits(return_X_y=True)
X = X[:, X.any(axis=0)]
batches = (4, 8, 16, 32, 64)
for staleness in (0, 1):
    runs = [
        SGDClassifier(batch_size=batch, staleness=staleness, epochs=2, random_state=0).fit(X, y == 0).run_
        for batch in batches
    ]
    ratios = [run.cycles / run.bound.layout for run in runs]
    print(f"staleness {staleness}:", "  ".join(f"{ratio:.2f}" for ratio in ratios))
    plt.plot(batches, ratios, marker="o", label=f"staleness {staleness}")
plt.axhline(1, color="grey", linestyle="--", label="one beat a cycle")
plt.xscale("log", base=2)
plt.xlabel("rows in a batch")
plt.ylabel("cycles over the bound")
plt.legend()
plt.show()

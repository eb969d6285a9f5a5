"""A first model with numpy alone
==============================

Fit a linear regression whose training rows are stored with 4 bits a feature. ``pip install`` of bitlane and numpy is
all that this program needs. The emulator counts the bytes and clock cycles that the accelerator would take.
"""

import numpy as np

from bitlane import SGDRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (500, 5))
y = X @ [1.0, -2.0, 0.5, 0.0, 3.0] + 4.0 + rng.normal(scale=0.1, size=500)

model = SGDRegressor(bits=4, device="emulator", random_state=0).fit(X[:400], y[:400])
print("coefficients", model.coef_.round(1), "intercept", model.intercept_.round(1))
print(f"R squared on 100 new rows: {model.score(X[400:], y[400:]):.3f}")
print(f"{model.run_.bytes_read:,} bytes read in {model.run_.cycles:,} clock cycles")

"""How many bits are enough
========================

Train the same model with 2 to 8 bits a feature, and compare its loss with that of 32 bits. Each point names the bytes
that the accelerator reads. Four bits lose almost nothing here, and read an eighth of the bytes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from bitlane import SGDRegressor

X, digits = load_digits(return_X_y=True)
X, y = X[:, X.any(axis=0)], np.where(digits == 0, 1.0, -1.0)  # three pixels are white in every image
losses = {}
for bits in (2, 4, 6, 8, 32):
    sampling = "full" if bits == 32 else "double"
    model = SGDRegressor(bits=bits, sampling=sampling, learning_rate=0.05, random_state=0).fit(X, y)
    losses[bits] = np.mean((model.predict(X) - y) ** 2), model.run_.bytes_read / 1e6
    print(f"{bits:2} bits: loss {losses[bits][0]:.4f}, {losses[bits][1]:.1f} MB read")
for bits, (loss, megabytes) in losses.items():
    plt.plot(str(bits), loss / losses[32][0], "o", color="tab:blue")
    plt.annotate(
        f"{megabytes:.1f} MB", (str(bits), loss / losses[32][0]), (0, 8), textcoords="offset points", ha="center"
    )
plt.margins(0.1, 0.2)
plt.xlabel("bits a feature")
plt.ylabel("loss over the loss with 32 bits")
plt.show()

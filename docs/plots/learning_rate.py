"""Which learning rate: the final loss against the rate, with and without decay."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from common import Size, Table, loss, main, rate_of, table_of
from matplotlib.figure import Figure

NAMES = ("digits", "cadata")
CURVES = ((32, "full"), (8, "double"), (4, "double"), (2, "double"))
TIMES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4)  # the rate that is suggested for 32 bits
MOST = 10.0  # times the least loss: what is above has diverged


def measure(size: Size) -> tuple[Figure, Table, str]:
    """Train on two sets at seven learning rates."""
    names = NAMES[:1] if size.quick else NAMES
    figure, axes = plt.subplots(1, 2 * len(names), figsize=(9, 3), layout="constrained", squeeze=False)
    panels = [(name, decay) for name in names for decay in (0.8, 1.0)]
    rows = []
    for (name, decay), axis in zip(panels, axes[0], strict=True):
        X, y = table_of(name, size.rows)
        columns = np.column_stack([X, np.ones(len(y))])
        least = float(np.mean((columns @ np.linalg.lstsq(columns, y, rcond=None)[0] - y) ** 2))
        suggested = rate_of(X, 32, "full")
        for index, (bits, sampling) in enumerate(CURVES):
            settings = {"bits": bits, "sampling": sampling, "decay": decay}
            losses = [loss(X, y, size, learning_rate=times * suggested, **settings)[0] / least for times in TIMES]
            rates = [times * suggested for times in TIMES]
            axis.plot(rates, losses, marker="o", color=f"C{index}", label=f"{bits} bits")
            axis.axvline(rate_of(X, bits, sampling), color=f"C{index}", linestyle=":", linewidth=1)
            cells = [f"{each:.3f}" if each < MOST else "diverges" for each in losses]
            rows.append([name, f"{decay:g}", str(bits), f"{rate_of(X, bits, sampling):.2g}", *cells])
        axis.set(xscale="log", yscale="log", ylim=(0.98, 3.0), title=f"{name}, decay {decay:g}", xlabel="learning rate")
        axis.set_yticks([1, 1.5, 2, 3], ["1", "1.5", "2", "3"])
        axis.minorticks_off()
    axes[0][0].set_ylabel("final loss over the least possible")
    axes[0][0].legend()
    about = (
        "Final loss over the least of any linear model, at multiples of the learning rate that is suggested for 32 "
        f"bits. Up to {size.rows:,} rows, {size.epochs} epochs, batch 16, fresh draws."
    )
    shown = [f"x {times:g}" if times >= 1 else f"x 1/{1 / times:.0f}" for times in TIMES]
    return figure, Table(["data set", "decay", "bits", "suggested rate", *shown], rows), about


if __name__ == "__main__":
    main("learning_rate", measure)

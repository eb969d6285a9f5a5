"""How many draw sets: the final loss against the number of sets that the epochs go through."""

from __future__ import annotations

import matplotlib.pyplot as plt
from common import Size, Table, excess, excess_axis, full_loss, loss, main, percent, rate_of, table_of
from matplotlib.figure import Figure

NAMES = ("diabetes", "digits", "cadata")
BITS = (2, 4)
DRAWS: tuple[int | str, ...] = ("once", 2, 4, 8, 16, "epoch")


def measure(size: Size) -> tuple[Figure, Table, str]:
    """Train on three sets with 1 to 32 draw sets."""
    names = NAMES[:1] if size.quick else NAMES
    epochs = 2 if size.quick else 32  # more than the largest number of sets
    figure, axes = plt.subplots(1, len(names), figsize=(9, 3), layout="constrained", squeeze=False, sharey=True)
    rows = []
    for name, axis in zip(names, axes[0], strict=True):
        X, y = table_of(name, size.rows)
        full = full_loss(X, y, size, epochs=epochs, decay=0.9)
        for bits in BITS:
            settings = {"bits": bits, "epochs": epochs, "decay": 0.9, "learning_rate": rate_of(X, bits)}
            ratios = [loss(X, y, size, draws=draws, **settings)[0] / full for draws in DRAWS]
            axis.plot(range(len(DRAWS)), excess(ratios), marker="o", label=f"{bits} bits")
            rows.append([name, str(bits), *map(percent, ratios)])
        axis.set(title=name, xlabel="draw sets")
        axis.set_xticks(range(len(DRAWS)), ["1", "2", "4", "8", "16", "fresh"])
        axis.axhline(1.0, color="black", linewidth=0.8)
        excess_axis(axis)
    axes[0][0].set_ylabel("final loss above that of 32 bits, %")
    axes[0][-1].legend()
    about = (
        f"Final loss against 32 bits. Up to {size.rows:,} rows, {epochs} epochs, batch 16, decay 0.9, double sampling, "
        "learning rate as `bitlane train` suggests. Fresh: a new set in each epoch."
    )
    headings = ["data set", "bits", *(f"{draws}" if draws in ("once", "epoch") else f"{draws} sets" for draws in DRAWS)]
    return figure, Table(headings, rows), about


if __name__ == "__main__":
    main("draws", measure)

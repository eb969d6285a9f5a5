"""Which sampling: double, nearest and naive with the same stored bits."""

from __future__ import annotations

import matplotlib.pyplot as plt
from common import Size, Table, best_loss, excess, excess_axis, full_loss, main, percent, table_of
from matplotlib.figure import Figure

NAMES = ("diabetes", "digits", "cadata", "synthetic")
BITS = (2, 4, 6, 8)
SAMPLINGS = ("double", "nearest", "naive")


def measure(size: Size) -> tuple[Figure, Table, str]:
    """Train on four sets with each sampling."""
    names = NAMES[:1] if size.quick else NAMES
    figure, axes = plt.subplots(1, len(names), figsize=(9, 3), layout="constrained", squeeze=False, sharey=True)
    rows = []
    for name, axis in zip(names, axes[0], strict=True):
        X, y = table_of(name, size.rows)
        full = full_loss(X, y, size)
        for sampling in SAMPLINGS:
            ratios = [best_loss(X, y, size, bits=bits, sampling=sampling) / full for bits in BITS]
            axis.plot(BITS, excess(ratios), marker="o", label=sampling)
            rows.append([name, sampling, *map(percent, ratios)])
        axis.set(title=name, xlabel="stored bits", xticks=BITS)
        axis.axhline(1.0, color="black", linewidth=0.8)
        excess_axis(axis)
    axes[0][0].set_ylabel("final loss above that of 32 bits, %")
    axes[0][-1].legend()
    about = (
        f"Final loss against 32 bits. Up to {size.rows:,} rows, {size.epochs} epochs, batch 16, decay 0.8, fresh "
        "draws, the best learning rate of each."
    )
    return figure, Table(["data set", "sampling", *(f"{bits} bits" for bits in BITS)], rows), about


if __name__ == "__main__":
    main("sampling", measure)

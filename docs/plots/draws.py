"""How many draw sets: the final loss against the number of sets that the epochs go through."""

from __future__ import annotations

import matplotlib.pyplot as plt
from common import Size, Table, excess, excess_axis, full_loss, loss, main, percent, rate_of, table_of
from matplotlib.figure import Figure

NAMES = (
    *("diabetes", "digits", "cadata", "cpusmall", "housing_boston"),
    *("millionsong_6719", "cod-rna", "a9a", "mushrooms", "mnist"),
)
BITS = (2, 4)
DRAWS: tuple[int | str, ...] = ("once", 2, 4, 8, 16, "epoch")


def measure(size: Size) -> tuple[Figure, Table, str]:
    """Train on ten data sets with 1 to 32 draw sets."""
    names = NAMES[:1] if size.quick else NAMES
    lines, columns = (1, 1) if size.quick else (2, 5)
    figure, axes = plt.subplots(
        lines, columns, figsize=(11, 5), layout="constrained", squeeze=False, sharey=True, sharex=True
    )
    rows = []
    for name, axis in zip(names, axes.flat, strict=True):
        X, y = table_of(name, size.rows)
        full = full_loss(X, y, size)
        for bits in BITS:
            settings = {"bits": bits, "learning_rate": rate_of(X, bits)}
            ratios = [loss(X, y, size, draws=draws, **settings)[0] / full for draws in DRAWS]
            axis.plot(range(len(DRAWS)), excess(ratios), marker="o", label=f"{bits} bits")
            rows.append([name, str(bits), *map(percent, ratios)])
        axis.set(title=name)
        axis.set_xticks(range(len(DRAWS)), ["1", "2", "4", "8", "16", "fresh"])
        axis.axhline(1.0, color="black", linewidth=0.8)
        excess_axis(axis)
    figure.supxlabel("draw sets", fontsize="medium")
    figure.supylabel("final loss above that of 32 bits, %", fontsize="medium")
    axes[0][-1].legend()
    about = (
        f"Final loss against 32 bits. Up to {size.rows:,} rows, {size.epochs} epochs, batch 16, decay 0.8, double "
        "sampling, automatic learning rate. Fresh: a new set in each epoch."
    )
    headings = ["data set", "bits", *(f"{draws}" if draws in ("once", "epoch") else f"{draws} sets" for draws in DRAWS)]
    return figure, Table(headings, rows), about


if __name__ == "__main__":
    main("draws", measure)

"""How many bits: the final loss with uniform and with optimal levels."""

from __future__ import annotations

import matplotlib.pyplot as plt
from common import Size, Table, best_loss, excess, excess_axis, full_loss, main, percent, table_of
from matplotlib.figure import Figure

NAMES = ("diabetes", "digits", "cadata", "mushrooms")
UNIFORM = (2, 3, 4, 5, 6, 8)
OPTIMAL = (3, 4, 5)


def measure(size: Size) -> tuple[Figure, Table, str]:
    """Train on four sets with both kinds of levels."""
    names = NAMES[:1] if size.quick else NAMES
    figure, axes = plt.subplots(1, len(names), figsize=(9, 3), layout="constrained", squeeze=False, sharey=True)
    rows = []
    for name, axis in zip(names, axes[0], strict=True):
        X, y = table_of(name, size.rows)
        full = full_loss(X, y, size)
        for levels, numbers in (("uniform", UNIFORM), ("optimal", OPTIMAL)):
            ratios = {}
            for bits in numbers:
                ratios[bits] = best_loss(X, y, size, bits=bits, levels=levels) / full
            axis.plot(list(ratios), excess(list(ratios.values())), marker="o", label=f"{levels} levels")
            rows.append([name, levels, *(percent(ratios[bits]) if bits in ratios else "" for bits in UNIFORM)])
        axis.set(title=name, xlabel="stored bits", xticks=UNIFORM)
        axis.axhline(1.0, color="black", linewidth=0.8)
        excess_axis(axis)
    axes[0][0].set_ylabel("final loss above that of 32 bits, %")
    axes[0][-1].legend()
    about = (
        f"Final loss against 32 bits. Up to {size.rows:,} rows, {size.epochs} epochs, batch 16, decay 0.8, double "
        "sampling with fresh draws, the best learning rate of each."
    )
    return figure, Table(["data set", "levels", *(f"{bits} bits" for bits in UNIFORM)], rows), about


if __name__ == "__main__":
    main("bits", measure)

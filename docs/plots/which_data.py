"""Which data gains from few bits: the final loss against the noise ratio, and the speed against the row length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from common import CLASSES, Floats, Size, Table, best_loss, excess, excess_axis, full_loss, main, percent, table_of
from matplotlib.figure import Figure

from bitlane import SGDRegressor

NAMES = (
    *("digits", "wine", "breast_cancer", "diabetes", "cadata", "cpusmall", "housing_boston", "millionsong_6719"),
    *("cod-rna", "a9a", "mushrooms", "mnist", "synthetic"),
)
BITS = (2, 4, 8)
FEATURES = (8, 16, 32, 64, 90, 128, 256, 784)


def noise_ratio(X: Floats, y: Floats, bits: int) -> float:
    """Return the variance that draws add to the best linear prediction, over its residual variance."""
    X = X[:, np.ptp(X, axis=0) > 0]
    values = X - X.mean(axis=0)
    values /= np.abs(values).max(axis=0)
    columns = np.column_stack([values, np.ones(len(y))])
    weights = np.linalg.lstsq(columns, y, rcond=None)[0]
    residual = np.mean((columns @ weights - y) ** 2)
    width = 2.0 / 2 ** (bits - 2)  # of an interval between two levels
    place = np.mod((values + 1.0) / width, 1.0)
    variance = np.mean(width**2 * place * (1.0 - place), axis=0)
    return float(weights[:-1] ** 2 @ variance / residual)


def speed_up(features: int, bits: int) -> float:
    """Return the cycles of an epoch with 32 bits over those with `bits`."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (1024, features))

    def cycles(bits: int, sampling: str) -> int:
        model = SGDRegressor(bits, sampling, epochs=2, batch_size=64, staleness=1, device="emulator", random_state=0)
        return int(model.fit(X, X[:, 0]).run_.epoch_cycles[-1])

    return cycles(32, "full") / cycles(bits, "double")


def speed_text(features: Sequence[int], speeds: Mapping[int, Sequence[float]]) -> str:
    """Return the speed with the shortest and the longest rows, and with two chunks, as a sentence."""
    shown = [features.index(each) for each in (features[0], 64, features[-1]) if each in features]
    each = [f"{', '.join(f'{speeds[bits][i]:.1f}' for bits in BITS)} with {features[i]} features" for i in shown]
    return (
        f"Cycles of 32 bits over those of {', '.join(map(str, BITS))} bits (batch 64, staleness 1): {'; '.join(each)}."
    )


def measure(size: Size) -> tuple[Figure, Table, str]:
    """Train on every set with 2, 4 and 8 bits."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    names, rows, points = NAMES[:2] if size.quick else NAMES, [], {}
    for name in names:
        X, y = table_of(name, size.rows)
        full = full_loss(X, y, size)
        cells = [f"{name} ({X.shape[1]})"]
        for bits in BITS:
            ratio = best_loss(X, y, size, bits=bits) / full
            noise = noise_ratio(X, y, bits)
            points[name, bits] = (noise, ratio)
            cells.append(f"{float(f'{noise:.2g}'):g}: {percent(ratio)}")
        rows.append(cells)
    for bits, marker in zip(BITS, "osD", strict=True):
        noise, ratios = zip(*(points[name, bits] for name in names), strict=True)
        left.scatter(noise, excess(ratios), marker=marker, label=f"{bits} bits", alpha=0.8)
    left.set(xscale="log", xlabel="noise ratio", ylabel="final loss above that of 32 bits, %")
    left.axhline(1.0, color="black", linewidth=0.8)
    excess_axis(left)
    left.legend()
    features = FEATURES[:2] if size.quick else FEATURES
    speeds = {bits: [speed_up(each, bits) for each in features] for bits in BITS}
    for bits in BITS:
        right.plot(features, speeds[bits], marker="o", label=f"{bits} bits")
    right.set(xscale="log", yscale="log", xlabel="features of a row", ylabel="cycles of 32 bits over cycles")
    right.set_xticks(features, [str(each) for each in features])
    right.set_yticks([2, 4, 8, 16], ["2", "4", "8", "16"])
    right.minorticks_off()
    right.legend()
    headings = ["data set (features)", *(f"{bits} bits" for bits in BITS)]
    about = (
        f"Noise ratio: final loss against 32 bits. Up to {size.rows:,} rows, {size.epochs} epochs, batch 16, decay "
        f"0.8, the best learning rate of each. Squared error; of {', '.join(n for n in names if n in CLASSES)} the "
        f"first class against the rest. {speed_text(features, speeds)}"
    )
    return figure, Table(headings, rows), about


if __name__ == "__main__":
    main("which_data", measure)

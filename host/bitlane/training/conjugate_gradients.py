"""Conjugate gradients for the normal equations of some rows."""

from __future__ import annotations

import numpy as np

from bitlane.quantization.scaling import Floats


def conjugate_gradients(
    values: Floats, curvature: Floats, penalty: Floats, gradient: Floats, iterations: int
) -> Floats:
    """Return about the solution [s] of ``(V' C V / r + P) x = gradient``, after some iterations from 0.

    Parameters
    ----------
    values : float64 array [r, s]
        V.
    curvature : float64 array [r]
        The diagonal of C, 0 or more.
    penalty : float64 array [s]
        The diagonal of P, 0 or more.
    gradient : float64 array [s]
    iterations : int
        At most; s suffice.
    """
    solution, residual = np.zeros_like(gradient), gradient.copy()
    direction, energy = residual.copy(), float(residual @ residual)
    least = 1e-14 * energy
    for _ in range(min(iterations, len(gradient))):
        image = values.T @ (curvature * (values @ direction)) / len(values) + penalty * direction
        bend = float(direction @ image)
        if energy <= least or bend <= 0:
            break
        solution += energy / bend * direction
        residual -= energy / bend * image
        energy, before = float(residual @ residual), energy
        direction = residual + energy / before * direction
    return solution

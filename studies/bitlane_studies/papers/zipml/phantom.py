"""The Shepp-Logan phantom, and the parallel rays of a scan."""

from __future__ import annotations

import numpy as np

from bitlane.quantization.scaling import Floats

# Added density, half axes, centre, and angle in degrees, in the image [-1, 1] x [-1, 1]. The phantom of Shepp and Logan
# (1974) with the contrasts of Toft (1996).
ELLIPSES = (
    (1.0, 0.69, 0.92, 0.0, 0.0, 0.0),
    (-0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0),
    (-0.2, 0.11, 0.31, 0.22, 0.0, -18.0),
    (-0.2, 0.16, 0.41, -0.22, 0.0, 18.0),
    (0.1, 0.21, 0.25, 0.0, 0.35, 0.0),
    (0.1, 0.046, 0.046, 0.0, 0.1, 0.0),
    (0.1, 0.046, 0.046, 0.0, -0.1, 0.0),
    (0.1, 0.046, 0.023, -0.08, -0.605, 0.0),
    (0.1, 0.023, 0.023, 0.0, -0.606, 0.0),
    (0.1, 0.023, 0.046, 0.06, -0.605, 0.0),
)


def shepp_logan(pixels: int) -> Floats:
    """Return the densities at the pixel centres, float64 [pixels, pixels], top row first."""
    middles = (2 * np.arange(pixels) + 1) / pixels - 1
    x, y = np.meshgrid(middles, -middles)
    image = np.zeros((pixels, pixels))
    for density, a, b, x0, y0, degrees in ELLIPSES:
        cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
        along, across = (x - x0) * cos + (y - y0) * sin, (y - y0) * cos - (x - x0) * sin
        image += density * ((along / a) ** 2 + (across / b) ** 2 <= 1)
    return image


def rays(pixels: int, angles: int) -> Floats:
    """Return the lengths of parallel rays in each pixel, in pixels: float64 [rays, pixels**2].

    Each of `angles` directions over half a turn has `pixels` rays with a distance of one pixel. Rays outside the image
    are omitted. The length in a unit square depends only on the distance of the ray from its centre: it is
    1 / max(|cos|, |sin|) near the centre, and decreases linearly to 0 at (|cos| + |sin|) / 2.
    """
    middles = np.arange(pixels) - (pixels - 1) / 2
    x, y = (each.ravel() for each in np.meshgrid(middles, -middles))
    by_angle = []
    for angle in np.arange(angles) * np.pi / angles:
        a, b = abs(np.cos(angle)), abs(np.sin(angle))
        distance = np.abs(middles[:, None] - (x * np.cos(angle) + y * np.sin(angle)))
        slope = max(a * b, 1e-12)  # parallel to an axis the length drops to 0 in one step
        by_angle.append(np.clip(((a + b) / 2 - distance) / slope, 0.0, 1.0 / max(a, b)))
    lengths = np.concatenate(by_angle)
    return lengths[lengths.any(axis=1)]

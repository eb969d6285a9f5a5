"""Rays, the phantom, reconstructions of toy size, and the verdict."""

import numpy as np
import pytest
from tests.helpers.emulators import emulator

from bitlane.contract.precision import Precision
from bitlane.evaluation.compare import FULL
from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.zipml import tomography
from bitlane_studies.papers.zipml.phantom import ELLIPSES, rays, shepp_logan
from bitlane_studies.papers.zipml.sizes import QUICK
from bitlane_studies.papers.zipml.tomography import SCENES, Scan, judge, reconstruct


def walked(pixels, angles):
    """Return the lengths of rays in pixels, computed in small steps: float64 [angles * pixels, pixels**2]."""
    step = 0.002
    middles = np.arange(pixels) - (pixels - 1) / 2
    along = np.arange(-pixels, pixels, step) + step / 2
    found = np.zeros((angles * pixels, pixels**2))
    for row in range(angles * pixels):
        angle, offset = (row // pixels) * np.pi / angles, middles[row % pixels]
        x, y = offset * np.cos(angle) - along * np.sin(angle), offset * np.sin(angle) + along * np.cos(angle)
        columns, lines = np.floor(x + pixels / 2).astype(int), np.floor(pixels / 2 - y).astype(int)
        inside = (columns >= 0) & (columns < pixels) & (lines >= 0) & (lines < pixels)
        np.add.at(found[row], (lines * pixels + columns)[inside], step)
    return found


def test_rays_are_line_integrals():
    expected = walked(5, 7)
    assert rays(5, 7) == pytest.approx(expected[expected.any(axis=1)], abs=0.02)


def test_the_phantom_has_the_mass_of_its_ellipses():
    image = shepp_logan(400)
    mass = sum(density * np.pi * a * b for density, a, b, *_ in ELLIPSES)
    assert image.sum() * (2 / 400) ** 2 == pytest.approx(mass, rel=0.01)
    assert image.min() >= -1e-12 and image.max() == 1
    assert image[200, 130] < 0.1 < image[200, 269]  # the larger hole is on the left
    assert image[20, 200] == image[-20, 200] == 1  # the skull


def test_eight_bits_reconstruct_nearly_as_well_as_32():
    truth, device = shepp_logan(QUICK.pixels), emulator(outputs=len(SCENES))
    full, few = (reconstruct(truth, each, QUICK, device, lambda _: None) for each in (FULL, Precision(8)))
    assert full.images.shape == (QUICK.seeds, len(SCENES), QUICK.pixels, QUICK.pixels)
    assert full.images.min() >= 0
    assert (full.errors(truth) < 0.5).all()
    assert few.errors(truth) == pytest.approx(full.errors(truth), rel=0.02)
    assert (few.images != full.images).any() and (full.images[:, 0] != full.images[:, 1]).any()
    assert 3.5 < full.read / few.read < 4


def scans(few, read):
    """Return scans with 32 bits (pixel errors of 0.1, 1000 bytes) and with 8 bits (errors `few`, `read` bytes)."""
    truth = np.ones((4, 4))
    pairs = [(FULL, [0.1, 0.1], 1000), (Precision(8), few, read)]
    made = []
    for precision, errors, size in pairs:
        images = np.array([[truth + error for error in errors]] * 2)
        made.append(Scan(precision, images, size))
    return truth, made, "settings"


def test_verdicts():
    fewer = int(1000 / tomography.FEWER)
    assert judge(*scans([0.1005, 0.1005], fewer)).verdict is ClaimVerdict.HELD
    assert judge(*scans([0.1005, 0.102], fewer)).verdict is ClaimVerdict.PARTLY
    assert judge(*scans([0.102, 0.102], fewer)).verdict is ClaimVerdict.FAILED
    assert judge(*scans([0.1005, 0.1005], fewer + 20)).verdict is ClaimVerdict.FAILED

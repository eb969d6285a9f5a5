"""The claims of MiCRO: verdicts follow from the measurements, and the tables are complete."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bitlane.compress import MiCRO
from bitlane_studies.compression.density.gradients import SyntheticGradients
from bitlane_studies.compression.density.study import DensityResult, run_density
from bitlane_studies.papers.claim import ClaimVerdict
from bitlane_studies.papers.micro import buildup, fidelity, scaling, traffic

pytestmark = pytest.mark.torch


def drawn(claim):
    """Draw the plot, and return its axes."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    claim.plot(figure)
    return figure.axes


@pytest.mark.parametrize(
    ("top", "micro", "verdict"),
    [
        ([1, 1.8, 3, 5], [1, 1, 1, 1], ClaimVerdict.HELD),
        ([1, 1, 1, 1], [1, 1, 1, 1], ClaimVerdict.PARTLY),
        ([1, 1.8, 3, 5], [1, 1, 1.2, 1], ClaimVerdict.PARTLY),
        ([1, 1, 1, 1], [1, 1, 2, 1], ClaimVerdict.FAILED),
    ],
)
def test_build_up(top, micro, verdict):
    found = {"top-k": np.array([top, top], float), "MiCRO": np.array([micro, micro], float)}
    claim = buildup.judge(found)
    assert claim.verdict is verdict and "| MiCRO | 1" in claim.measured
    assert len(drawn(claim)) == 1


def outcome(ratio):
    """Return a result in which every step sends `ratio` times the 100 requested indices."""
    counts = np.full((40, 4), round(25 * ratio))
    return DensityResult(100, counts, 1000, 900.0, 50_000, 100_000)


@pytest.mark.parametrize(
    ("published", "verdict"),
    [([1, 1], ClaimVerdict.HELD), ([1, 2], ClaimVerdict.PARTLY), ([0.5, 2], ClaimVerdict.FAILED)],
)
def test_scaling(published, verdict):
    found = {}
    for name in scaling.CONTROLLERS:
        for index, kind in enumerate(scaling.KINDS):
            for scale in scaling.SCALES:
                found[name, kind, scale] = outcome(1 if name == "quotas" else published[index % 2])
    claim = scaling.judge(found)
    assert claim.verdict is verdict
    assert claim.measured.count("| published |") == claim.measured.count("| quotas |") == 12
    assert "quotas for 12" in claim.reason
    assert len(drawn(claim)) == 4


def test_traffic(seed):
    found = {
        (density, ranks): run_density(MiCRO(density), SyntheticGradients("normal", 1.0, 5000, seed), ranks, 2)
        for density in traffic.DENSITIES
        for ranks in traffic.RANKS
    }
    claim = traffic.judge(found)
    assert claim.verdict is ClaimVerdict.PARTLY  # the reported bytes are near those sent only with two ranks
    assert len(claim.measured.splitlines()) == 4 + 9 and len(drawn(claim)) == 1


def test_bytes_reported_by_the_authors_code():
    """Each rank and step counts 8 bytes for each index, padded to the largest count, and 4 for each value."""
    counts = np.array([[3, 1], [0, 2]])
    assert traffic.reported_bytes(DensityResult(4, counts, 0, 0.0, 0, 0)) == 2 * (8 * 3 + 4 * 4) + 2 * (8 * 2 + 4 * 2)


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [([0.97, 0.965], ClaimVerdict.HELD), ([0.97, 0.9], ClaimVerdict.PARTLY), ([0.96, 0.9], ClaimVerdict.FAILED)],
)
def test_fidelity(accuracies, verdict):
    def runs(name, density, accuracy):
        histories = [SimpleNamespace(losses=np.linspace(2, 0.1, 50), accuracy=accuracy, volume=density)] * 2
        return fidelity.CompressorRuns(name, density, histories, np.array([density, density]))

    found = [runs("none", 1.0, 0.974)]
    for density, accuracy in zip(fidelity.DENSITIES, accuracies, strict=True):
        found += [runs(name, density, accuracy) for name in fidelity.compressors(density)]
    claim = fidelity.judge(found)
    assert claim.verdict is verdict
    assert claim.measured.count("| MiCRO |") == 2 and len(drawn(claim)) == 2

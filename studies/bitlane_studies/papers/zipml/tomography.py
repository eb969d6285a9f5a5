"""A tomographic reconstruction at 32 and at few bits (ZipML, section 1 and table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.precision import Precision
from bitlane.devices import Device
from bitlane.devices.emulator import EmulatorDevice
from bitlane.evaluation.compare import FULL
from bitlane.quantization.labels import curve_label
from bitlane.quantization.scaling import Floats
from bitlane.training.learning_rate import suggest_learning_rate
from bitlane.training.objective import Objective
from bitlane.training.options import TrainingOptions
from bitlane.training.train import train

from ..claim import Claim, ClaimVerdict, Log, markdown_table, spread
from .phantom import rays, shepp_logan
from .sizes import ZipMLSize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = (Precision(4), Precision(6), Precision(8))
BATCH = 16
NOISE = 0.01  # standard deviation of the noise, relative to the mean integral of a ray
SCENES = ("without noise", f"with {NOISE:.0%} noise")
SAME = 1.01  # largest ratio of the image error to that of 32 bits
FEWER = 2.7  # required ratio of the bytes of 32 bits to those of few bits
CAPACITY = 512 << 20  # bytes of device memory: all rays at 32 bits fit in one launch


@dataclass(frozen=True)
class Scan:
    """The reconstructions at one precision.

    Attributes
    ----------
    precision : Precision
        The precision.
    images : float64 [seeds, scenes, pixels, pixels]
        The reconstructions.
    read : int
        Bytes read in all epochs: samples, draws, and labels of both scenes.
    """

    precision: Precision
    images: Floats
    read: int

    @property
    def label(self) -> str:
        return curve_label(self.precision.sampling, self.precision.bits)

    def errors(self, truth: Floats) -> Floats:
        """Return |image - truth| / |truth| of each seed and scene, float64 [seeds, scenes]."""
        return np.asarray(np.linalg.norm(self.images - truth, axis=(2, 3)) / np.linalg.norm(truth))


def measure(size: ZipMLSize, log: Log) -> Claim:
    """Reconstruct both scenes in one pass over the rays on the emulator; as many angles as pixels per side."""
    truth = shepp_logan(size.pixels)
    device = EmulatorDevice(AcceleratorConfig(outputs=len(SCENES)), CAPACITY)
    try:
        scans = [reconstruct(truth, precision, size, device, log) for precision in (FULL, *FEW)]
    finally:
        device.close()
    return judge(
        truth, scans, f"{size.pixels} angles of {size.pixels} rays, {size.scan_epochs} epochs of batch {BATCH}"
    )


def reconstruct(truth: Floats, precision: Precision, size: ZipMLSize, device: Device, log: Log) -> Scan:
    """Solve non-negative least squares without an intercept, with the learning rate for 32 bits."""
    lengths = rays(size.pixels, size.pixels)
    exact = lengths @ truth.ravel()
    rate = suggest_learning_rate(lengths, BATCH, fit_intercept=False)
    images, read = [], 0
    for seed in range(size.seeds):
        log(f"tomography: {curve_label(precision.sampling, precision.bits)}, seed {seed + 1} of {size.seeds}")
        rng = np.random.default_rng(seed)
        noisy = exact + rng.normal(0, NOISE * exact.mean(), len(exact))
        options = TrainingOptions(
            precision,
            Objective(bounds=(0.0, None)),
            epochs=size.scan_epochs,
            batch_size=BATCH,
            learning_rate=rate,
            fit_intercept=False,
            shuffle=True,
            seed=seed,
        )
        run = train(lengths, np.column_stack([exact, noisy]), options, device)
        images.append(run.coef.reshape(len(SCENES), *truth.shape))
        read = run.bytes_read
    return Scan(precision, np.array(images), read)


def judge(truth: Floats, scans: Sequence[Scan], description: str) -> Claim:
    """Return the verdict on the images; the first scan has 32 bits."""
    full, few = scans[0], scans[1:]
    base = full.errors(truth).mean(axis=0)
    good = [[scan for scan in few if _passes(scan, full, truth, scene)] for scene in range(len(SCENES))]
    verdict = ClaimVerdict.HELD if all(good) else ClaimVerdict.PARTLY if any(good) else ClaimVerdict.FAILED
    rows = []
    for scan in scans:
        cells = [scan.label, f"{scan.read / 1e6:,.1f}", f"{full.read / scan.read:.2f}"]
        errors = scan.errors(truth)
        for scene in range(len(SCENES)):
            apart = np.linalg.norm(scan.images[:, scene] - full.images[:, scene], axis=(1, 2)) / np.linalg.norm(truth)
            over = float(errors[:, scene].mean() / base[scene])
            cells += [spread(errors[:, scene].tolist()), f"{over:.4f}", "-" if scan is full else f"{apart.mean():.2g}"]
        rows.append(cells)
    headings = ["", "MB read", "times fewer bytes"]
    for name in SCENES:
        headings += [f"{name}: image error", "error / 32 bits", "distance to 32 bits"]
    ratios = [
        f"{name}: {max(full.read / scan.read for scan in passing):.2f} times fewer bytes"
        if passing
        else f"{name}: none"
        for name, passing in zip(SCENES, good, strict=True)
    ]
    side = truth.shape[0]
    return Claim(
        name="tomography",
        title="Tomography with fewer bytes",
        paper='Section 1: "we are able to decrease data movement by 2.7x for tomographic reconstruction, while '
        'obtaining a negligible quality decrease".',
        measured=f"The Shepp-Logan phantom with {side} x {side} pixels, {description}; non-negative least squares by "
        "SGD on the emulator, double sampling, fresh draws, one learning rate for all. Image error: distance to the "
        f"phantom relative to its norm; mean and standard deviation of {len(full.images)} seeds. Bytes: samples, draws "
        "and labels of all epochs.\n\n" + markdown_table(headings, rows),
        verdict=verdict,
        reason=f"Fewest bytes with an image error at most {SAME - 1:.0%} above that of 32 bits (the paper has "
        f"{FEWER} times fewer): " + "; ".join(ratios) + ".",
        differs=(
            "We reconstruct a phantom of ellipses in two dimensions from parallel rays. The paper has a volume of 128³ "
            "with 128 projections, and does not describe its solver.",
            "Rays are stored as dense rows, including zeros, because the accelerator reads dense rows. Sparse rows "
            "would need fewer bytes at any precision. Zero is a level, so it is stored without noise.",
        ),
        plot=lambda figure: _plot(figure, truth, scans),
    )


def _passes(scan: Scan, full: Scan, truth: Floats, scene: int) -> bool:
    error, base = (float(each.errors(truth)[:, scene].mean()) for each in (scan, full))
    return error <= SAME * base and full.read >= FEWER * scan.read


def _plot(figure: Figure, truth: Floats, scans: Sequence[Scan]) -> None:
    """Plot the phantom, and its reconstructions without noise of the first seed at every precision."""
    figure.set_size_inches(2.0 * (1 + len(scans)), 2.4)
    shown: list[tuple[str, Floats]] = [("phantom", truth)]
    shown += [(scan.label, scan.images[0, 0]) for scan in scans]
    for axes, (title, image) in zip(figure.subplots(1, len(shown)), shown, strict=True):
        axes.imshow(image, cmap="gray", vmin=0.0, vmax=0.5, interpolation="nearest")
        axes.set_title(title, fontsize=9)
        axes.set_axis_off()

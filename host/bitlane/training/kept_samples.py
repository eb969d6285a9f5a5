"""Samples that stay in the memory of a device from one training to the next."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from bitlane.contract.packing import Words
from bitlane.driver.buffers import SampleBuffers
from bitlane.driver.driver import Driver
from bitlane.support.user_warnings import warn_user

from .checkpoint import Checkpoint
from .launches import Launch
from .plan import ExecutionPlan


class KeptSamples:
    """The samples of the last training on a device: later ones on the same rows encode and copy nothing.

    A training leaves its samples here if all its epochs are one launch and all its targets one pass. A later one reads
    them if its rows, scales, precision, draws, seed and batch size are the same; learning rate, penalty, decay, loss,
    staleness and initial weights may differ. Otherwise it encodes its own, which then take their place. Both have the
    bits of a training without them. A training that cannot leave its samples warns.

    As a context manager it frees the memory at the end. While it holds samples, other trainings have less room.
    """

    def __init__(self) -> None:
        self._key: Hashable = None
        self._held: tuple[Launch, SampleBuffers] | None = None

    def find(self, key: Hashable) -> tuple[Launch, SampleBuffers] | None:
        """Return the launch and its buffers with these samples; None if it holds others."""
        return self._held if key == self._key else None

    def hold(self, key: Hashable, launch: Launch, samples: SampleBuffers) -> None:
        """Take the buffers of a launch, instead of those so far."""
        self.free()
        self._key, self._held = key, (without_words(launch), samples)

    def free(self) -> None:
        """Free the memory; a second call does nothing."""
        if self._held is not None:
            self._held[1].free()
        self._key = self._held = None

    def __enter__(self) -> KeptSamples:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.free()


def warn_not_kept(why: str) -> None:
    """Warn that a training leaves no samples for later ones."""
    warn_user(f"the samples do not stay on the device: {why}")


def samples_key(
    first: Checkpoint, plan: ExecutionPlan, driver: Driver, targets: NDArray[np.intp], first_row: int
) -> Hashable:
    """Return what the samples of a pass depend on.

    Parameters
    ----------
    first : Checkpoint
        State before the first epoch.
    plan : ExecutionPlan
    driver : Driver
    targets : int array
        Targets of the pass.
    first_row : int
        Number of the first row in the data set.
    """
    options, scaling = first.options, first.scaling
    arrays = (scaling.center, scaling.scale, scaling.label_center, scaling.label_scale, targets)
    levels = None if first.levels is None else first.levels.tobytes()
    return (
        id(driver.device),
        *(first.fingerprint, first_row, plan.geometry, options.precision, options.seed, options.shuffle),
        *(tuple(plan.launch_sets(plan.first_epoch)), levels, scaling.fit_intercept, scaling.margins),
        *(scaling.intercept_value, *(array.tobytes() for array in arrays)),
    )


def without_words(launch: Launch) -> Launch:
    """Return a launch whose samples only the device has: of its regions only the lengths count."""
    base, draws = ([elsewhere(len(words)) for words in some] for some in (launch.base_regions, launch.draw_regions))
    return replace(launch, base_regions=base, draw_regions=draws, encoding_cycles=0)


def elsewhere(count: int) -> Words:
    """Return the words of a region that only the device has: an array without memory, of which the length counts."""
    region: NDArray[np.uint64] = np.broadcast_to(np.uint64(0), count)
    return region

"""Objectives of devices in software that no build of the RTL has: further losses, and elastic net.

The RTL reads no line of this module or of `software_registers`, so its builds do not change with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .config import AcceleratorConfig


class FurtherLoss(IntEnum):
    """A loss in the place of that of the mode; z is the dot product, y the label, eps the register epsilon.

    v is ``1 - y z`` with the sign y of the label, and r is ``z - y``.
    """

    NONE = 0  # the loss of the mode
    SQUARED_HINGE = 1  # 1/2 max(0, v)**2
    MODIFIED_HUBER = 2  # 1/2 max(0, v)**2 up to v = 2, then 2 v - 2
    HUBER = 3  # 1/2 r**2 up to |r| = eps, then eps |r| - 1/2 eps**2
    EPSILON_INSENSITIVE = 4  # max(0, |r| - eps)
    SQUARED_EPSILON_INSENSITIVE = 5  # 1/2 max(0, |r| - eps)**2


@dataclass(frozen=True)
class SoftwareConfig(AcceleratorConfig):
    """The build of a device in software that has the further losses and elastic net beside what hardware has."""

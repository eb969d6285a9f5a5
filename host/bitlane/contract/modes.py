"""The values of register fields: losses, proximal operators and error codes."""

from __future__ import annotations

from enum import IntEnum


class Loss(IntEnum):
    """The loss that is minimised; z is the dot product, y the label. Only SQUARES uses more than the sign of y."""

    SQUARES = 0  # 1/2 (z - y)**2; with labels -1 and 1 this is LS-SVM
    HINGE = 1  # max(0, 1 - y z)
    LOGISTIC = 2  # log(1 + exp(-y z))


class Prox(IntEnum):
    """The proximal operator that is applied to the weights at the end of a batch."""

    NONE = 0
    L2 = 1  # shrink by 2**-SHRINK_SHIFT whenever the phase carries
    L1 = 2  # soft threshold by the rate
    BOX = 3  # clip to the bounds


class ErrorCode(IntEnum):
    """The reason why a run ended: bits 15..8 of STATUS."""

    NONE = 0
    CONFIGURATION = 1
    READ_SLAVE = 2
    READ_DECODE = 3
    WRITE_SLAVE = 4
    WRITE_DECODE = 5
    ABORTED = 6

"""The registers of `SoftwareConfig`, at addresses that hardware does not have: there they read as 0."""

from __future__ import annotations

from .config import AcceleratorConfig
from .further import FurtherLoss, SoftwareConfig
from .registers import REGISTERS, Register

_LOSSES = ", ".join(f"{loss:d} {loss.name.lower().replace('_', ' ')}" for loss in FurtherLoss if loss)

_REGISTERS = (
    Register("more_objectives", 0x038, 32, False, "1: the device has the further losses and elastic net"),
    Register("further_loss", 0x080, 3, True, f"0: the loss of mode; {_LOSSES}"),
    Register("epsilon", 0x084, 23, True, "epsilon of further losses, in 2**-20"),
    Register(
        "shrink_step", 0x088, 21, True, "L1: shrinks in a batch beside the threshold (elastic net), as penalty_step"
    ),
    Register("shrink_phase", 0x08C, 32, True, "accumulator of these shrinks at the start of the run"),
    Register("shrink_step_now", 0x144, 21, False, "shrink_step after the decays so far"),
    Register("shrink_phase_now", 0x148, 32, False, "accumulator of these shrinks"),
)

SOFTWARE_REGISTERS: dict[str, Register] = {register.name: register for register in _REGISTERS}
EVERY_REGISTER: dict[str, Register] = REGISTERS | SOFTWARE_REGISTERS


def registers_of(config: AcceleratorConfig) -> dict[str, Register]:
    """Return the registers that a device with these options may have; see also `absent_registers`."""
    return EVERY_REGISTER if isinstance(config, SoftwareConfig) else REGISTERS

"""Why pynq cannot be used on this machine, with the commands that mend it.

pynq of a PYNQ image needs three things of a shell: the environment in which the image has pynq, XRT's profile, without
which it shows no device (https://github.com/Xilinx/PYNQ/issues/1651), and root. Jupyter on a board has all of them.
"""

from __future__ import annotations

import os

from bitlane.errors import DeviceError
from bitlane.overlays import this_board

EXTRAS = "pip install 'bitlane[pynq-z7]' (PYNQ-Z1, PYNQ-Z2) or 'bitlane[pynq-zu]' (Zynq UltraScale+)"
XRT = "XILINX_XRT"  # the variable that XRT's profile sets
PROFILES = "source /etc/profile.d/pynq_venv.sh and source /etc/profile.d/xrt_setup.sh"
ROOT_SHELL = f"use Jupyter on the board, or a root shell: sudo -i, then {PROFILES}"


def no_pynq(address: str, error: ImportError) -> DeviceError:
    """Return the error for a Python in which pynq cannot be imported.

    Parameters
    ----------
    address : str
        Of the board on the network; empty for the board on which this program runs.
    error : ImportError
    """
    board = this_board()
    if address:
        return DeviceError(f"pynq://{address} needs pynq on this machine too: {EXTRAS} ({error})")
    if board is None:
        return not_a_board()
    return DeviceError(f"this machine is a {board}, but this Python has no pynq ({error}): {ROOT_SHELL}")


def not_a_board() -> DeviceError:
    """Return the error for a machine that is no PYNQ board."""
    return DeviceError(
        f"this machine is not a PYNQ board; for a board on the network, {EXTRAS}, and use device='pynq://HOST'"
    )


def no_device() -> DeviceError:
    """Return the error for a pynq that shows no device."""
    board = this_board()
    if board is None:
        return not_a_board()
    reason = "pynq finds no FPGA manager: boot a PYNQ image"
    if not os.environ.get(XRT):
        reason = f"pynq shows no device, because this shell has not read XRT's profile ({XRT} is not set): {ROOT_SHELL}"
    return DeviceError(f"this machine is a {board}, but {reason}")


def check_root() -> None:
    """Raise DeviceError on a board if this program does not run as root: pynq maps the memory of the processor."""
    board = this_board()
    if board is not None and os.geteuid() != 0:
        raise DeviceError(f"this machine is a {board}, but pynq needs root: {ROOT_SHELL}")

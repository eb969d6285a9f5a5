"""The run of a process that was killed: it goes on in the accelerator, and ends before another overlay is loaded."""

# pynq has no types: its objects and messages are Any.
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pynq
from pynq.pl_server import global_state

from bitlane.contract.registers import CONTROL_ABORT, IDENTITY, REGISTERS, STATUS_BUSY, VLNV
from bitlane.errors import DeviceError

SPAN = 0x100  # bytes of the registers that are read here
ABORT_SECONDS = 1.0  # that an accelerator may take to end its bursts


def abort(mmio: Any) -> bool:
    """Abort the run in progress at these registers. Return whether it has ended: its bursts are complete then."""
    mmio.write(REGISTERS["control"].offset, CONTROL_ABORT)
    end = time.monotonic() + ABORT_SECONDS
    while int(mmio.read(REGISTERS["status"].offset)) & STATUS_BUSY:
        if time.monotonic() > end:
            return False
    return True


def end_earlier_run(board: Any) -> None:
    """End the run of the accelerator that pynq loaded last on this board, whichever process that was.

    A bitstream that is loaded within a burst would leave the rest of the burst to the next run, which would then
    write to the address of the old one.

    pynq records the path and the hash of what it loaded last. Without this record, or with other files at that path,
    nothing is done: an address where no design answers would stop the processor. There is no record of a board on the
    network: load an overlay there when no run is in progress.

    Raises
    ------
    DeviceError
        The run does not end.
    """
    if board.has_capability("REMOTE"):
        return
    global_state.initial_global_state_file_boot_check()  # forgets what was loaded before the board started
    if not global_state.global_state_file_exists():
        return
    record = global_state.load_global_state()
    path = Path(record.bitfile_name)
    if not (path.is_file() and path.with_suffix(".hwh").is_file()):
        return
    if global_state.bitstream_hash(str(path)) != record.bitfile_hash:
        return
    blocks = pynq.Overlay(str(path), device=board, download=False).ip_dict
    for ip in blocks.values():
        if str(ip["type"]).rpartition(":")[0] != VLNV.rpartition(":")[0]:
            continue
        mmio = pynq.MMIO(ip["phys_addr"], SPAN, device=board)
        if mmio.read(REGISTERS["identity"].offset) == IDENTITY and not abort(mmio):
            raise DeviceError("a run of another process on the accelerator does not end: restart the board")

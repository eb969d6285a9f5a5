"""`bitlane devices`: list the devices, and the boards with their overlays."""

from __future__ import annotations

import argparse

from bitlane.devices import available_devices
from bitlane.overlays import RECIPES, VARIABLE, overlays, this_board
from bitlane.support.text import align_columns, fill_lines

from .command import Command
from .summaries import SUMMARIES

BUILD = f"build one (bitstreams/README.md), and set {VARIABLE} to the folder that contains its folder"


def board_lines() -> list[str]:
    """Return a table of the boards with their overlays, and on a board one line about it."""
    available, here = overlays(), this_board()
    cells = [["board", "overlay", "where"]]
    for board, overlay in available.items():
        cells.append([board, f"{overlay.width} bits at {overlay.clock_mhz:g} MHz", overlay.location])
    cells += [[board, "none", recipe] for board, recipe in RECIPES.items() if board not in available]
    lines = align_columns(cells, left=3).splitlines()
    if here in available:
        lines.append(f"This board is {here}: device 'pynq' loads its overlay.")
    elif here is not None:
        lines.append(f"This board is {here}, and there is no overlay for it: {BUILD}.")
    else:
        lines.append(f"Another board has no overlay: {BUILD}.")
    return lines


def _run(_: argparse.Namespace) -> None:
    cells = [["device", "available", "reason"]]
    for device in available_devices():
        cells.append([device.name, "yes" if device.available else "no", device.reason])
    print(align_columns(cells, left=3, wrap=True), "", sep="\n")
    print(fill_lines(*board_lines()))


COMMAND = Command("devices", SUMMARIES["devices"], lambda parser: None, _run)

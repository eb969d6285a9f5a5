"""`bitlane devices`: list the devices."""

from __future__ import annotations

import argparse

from bitlane.devices import available_devices
from bitlane.support.text import align_columns

from .command import Command


def _run(_: argparse.Namespace) -> None:
    cells = [["device", "available", "reason"]]
    for device in available_devices():
        cells.append([device.name, "yes" if device.available else "no", device.reason])
    print(align_columns(cells, left=3))


COMMAND = Command("devices", "list the devices", lambda parser: None, _run)

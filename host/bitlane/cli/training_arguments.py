"""Arguments that commands share, and the device they run on."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.further import SoftwareConfig
from bitlane.contract.layout import DEFAULT_LEVEL_SLOTS, PORT_WIDTHS, WORD_BITS
from bitlane.devices import Device, open_device
from bitlane.devices.registry import HARDWARE
from bitlane.training.losses import LOSS_CHOICES, LOSSES
from bitlane.training.options import AUTO, derived_epochs

from .argument_types import draws, epochs, number_or_auto, positive, seed
from .companions import Companion
from .output import OVERWRITE, add_out_arguments
from .source import SOURCE_DEFAULTS, add_source_arguments

# Values of arguments that are not given. A resumed training takes those that its bits depend on from its checkpoint.
DEFAULTS: dict[str, Any] = {
    **SOURCE_DEFAULTS,
    "task": "auto",
    "loss": "squared_error",
    "draws": 8,
    "epochs": AUTO,
    "batch_size": 16,
    "learning_rate": AUTO,
    "decay": AUTO,
    "device": "auto",
    "width": WORD_BITS,
    "outputs": 1,
    "seed": 0,
}


def add_training_arguments(parser: argparse.ArgumentParser, *, resumable: bool = False) -> None:
    """Add the arguments that `train` and `compare` share; a resumed training knows its data."""
    add_source_arguments(parser, optional=resumable)
    by_task = "log_loss for classes, squared_error for numbers"
    if resumable:
        add_schedule_arguments(parser, by_task, LOSS_CHOICES)
    else:
        add_schedule_arguments(parser, DEFAULTS["loss"], derives_epochs=False)
    add = parser.add_argument
    add(
        "--learning-rate",
        type=number_or_auto,
        metavar="RATE",
        help="learning rate on scaled data (default: auto, computed from the data)",
    )
    add(
        "--decay",
        type=number_or_auto,
        metavar="FACTOR",
        help="factor on the learning rate after each epoch, 0.5 to 1 (default: auto, 0.8 for up to 20 epochs)",
    )
    add_device_arguments(parser)
    add("--seed", type=seed, help="seed of the row order and the draws (default: 0)")
    add_out_arguments(parser, "run.jsonl, plots and the model")


def add_schedule_arguments(
    parser: argparse.ArgumentParser,
    loss: str,
    losses: Collection[str] = tuple(LOSSES),
    *,
    derives_epochs: bool = True,
) -> None:
    """Add the arguments of a training that its time depends on; `loss` says the default of the loss."""
    add = parser.add_argument
    add(
        "--task",
        choices=["auto", "regression", "classification"],
        help="regression or classification (default: auto, from the values of the target)",
    )
    add("--loss", choices=[*losses], metavar="LOSS", help=f"loss to minimize: {', '.join(losses)} (default: {loss})")
    add("--draws", type=draws, help="number of draw sets, epoch (a new one each epoch), or once (default: 8)")
    by_rows = "auto, by the rows, 20 to 200"
    add("--epochs", type=epochs, help=f"passes over the data (default: {by_rows if derives_epochs else 20})")
    add("--batch-size", type=positive, help="rows of a mini-batch (default: 16)")


def derive_epochs(arguments: argparse.Namespace, rows: int) -> int:
    """Return the epochs that the arguments ask for, of a training on so many rows."""
    if arguments.epochs != AUTO:
        return int(arguments.epochs)
    return derived_epochs(rows, min(arguments.batch_size, rows))


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a device."""
    add = parser.add_argument
    add(
        "--device",
        help="auto, cpu, emulator, rtl, pynq, pynq://HOST, xrt://FILE.xclbin; see bitlane devices (default: auto)",
    )
    add("--width", type=int, choices=PORT_WIDTHS, help="bits of the device's memory port (default: 64)")


def add_build_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose a device and all options of a simulated build."""
    add_device_arguments(parser)
    add_outputs_argument(parser)
    add = parser.add_argument
    add(
        "--level-slots",
        type=int,
        nargs="?",
        const=DEFAULT_LEVEL_SLOTS,
        metavar="SLOTS",
        help="simulate table lanes with a codebook memory of SLOTS levels per lane, a power of two of at least 16 "
        f"(default: digit lanes; without a number {DEFAULT_LEVEL_SLOTS})",
    )
    add("--random-rounding", action="store_true", help="simulate a build with random rounding (default: without)")


def add_outputs_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the number of outputs of a build."""
    parser.add_argument("--outputs", type=positive, help="models that the device trains in parallel (default: 1)")


def is_simulated(arguments: argparse.Namespace) -> bool:
    """Whether the device is made here, with the options of a build. A board has the build of its bitstream."""
    return not any(name.startswith(HARDWARE) for name in str(arguments.device).split(","))


BUILD = Companion(
    ("width", "outputs", "level_slots", "random_rounding"),
    "a device that is simulated here (a board has the build of its bitstream)",
    is_simulated,
)
SHARED = (
    BUILD,
    OVERWRITE,
    Companion(("decay", "draws"), "several epochs (--epochs)", lambda arguments: arguments.epochs != 1),
)


def fill(arguments: argparse.Namespace, values: Mapping[str, Any]) -> None:
    """Set the arguments that were not given."""
    for name, value in values.items():
        if not hasattr(arguments, name):
            setattr(arguments, name, value)


def build_config(
    arguments: argparse.Namespace, level_slots: int = 0, random_rounding: bool = False, more_objectives: bool = False
) -> AcceleratorConfig:
    """Return the build of a device that is made here: that of the arguments, with these options."""
    return (SoftwareConfig if more_objectives else AcceleratorConfig)(
        arguments.width, arguments.outputs, level_slots=level_slots, random_rounding=random_rounding
    )


@contextlib.contextmanager
def opened_device(
    arguments: argparse.Namespace, level_slots: int = 0, random_rounding: bool = False
) -> Iterator[Device]:
    """Open the device that the arguments name, with these options of the build, and close it at the end."""
    device = open_device(arguments.device, build_config(arguments, level_slots, random_rounding))
    try:
        yield device
    finally:
        device.close()

"""`bitlane train-ddp`: train a network on several processes, with compressed gradients."""

from __future__ import annotations

import argparse
from pathlib import Path

from bitlane.reporting.plots import draw
from bitlane.support.optional import require_extra

from .argument_types import positive, seed
from .command import Command
from .companions import Companion, check_companions, given_options
from .output import OVERWRITE, add_out_arguments, check_run_folder, report
from .summaries import SUMMARIES

EVERY = 100  # steps between checkpoints
COMPANIONS = (
    OVERWRITE,
    Companion(("every",), "--checkpoint or --resume", lambda arguments: bool(arguments.checkpoint or arguments.resume)),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", help="mnist, fashion_mnist or cifar10 (default: mnist)")
    add(
        "--network",
        help="perceptron, convolutional, wide, resnet or resnet8 (default: convolutional); or FILE.py:FUNCTION, a "
        "function that takes the channels and the side of an image and returns a torch module",
    )
    add("--workers", dest="ranks", type=positive, help="number of processes (default: 4)")
    add(
        "--compress",
        metavar="NAME[:SETTINGS]",
        help="none, auto, qsgd, terngrad, efsign, topk, dgc, micro, powersgd or lqsgd, with settings such as "
        "lqsgd:rank=2,bits=mqgrad (default: lqsgd)",
    )
    add("--epochs", type=positive, help="passes over the data (default: 1)")
    add("--batch-size", dest="batch", type=positive, help="images per step and worker (default: 32)")
    add(
        "--learning-rate",
        dest="rate",
        type=float,
        metavar="RATE",
        help="initial learning rate; it decreases to 0 (default: 0.05)",
    )
    add("--momentum", type=float, help="momentum of SGD (default: 0.9)")
    add("--seed", type=seed, help="seed of the weights and the image order (default: 0)")
    add(
        "--link",
        default=None,
        metavar="RATE",
        help="emulate a slow network: a rate, or a rate and a delay, such as 100mbit or 1gbit,0.5ms",
    )
    add("--checkpoint", type=Path, default=None, metavar="DIR", help="write checkpoints to this folder")
    add("--every", type=positive, default=None, help=f"steps between checkpoints (default: {EVERY})")
    add("--resume", type=Path, default=None, metavar="DIR", help="continue from the latest checkpoint in this folder")
    add_out_arguments(parser, "run.jsonl and loss.png")


def _run(arguments: argparse.Namespace) -> None:
    check_companions(arguments, given_options(arguments), COMPANIONS)
    arguments.every = arguments.every or EVERY
    check_run_folder(arguments)
    require_extra("torch", "train-ddp", "'bitlane[torch]'")
    from bitlane.compress.training.report import train_ddp  # torch is slow to import

    summary, record = train_ddp(arguments)
    report(summary, record, arguments.out, lambda folder: draw(record, folder))


COMMAND = Command(
    "train-ddp",
    SUMMARIES["train-ddp"],
    _add_arguments,
    _run,
    description="Train a network in several processes on this machine, with compressed gradients. Needs torch: "
    "pip install 'bitlane[torch]'.",
    suppress_defaults=True,
)

"""The options of the command line: what there is, what it means, and what holds where it is not given."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from bitlane import __version__
from bitlane.contract.layout import PORT_WIDTHS, WORD_BITS
from bitlane.errors import DataError
from bitlane.evaluation.compare import SAMPLINGS
from bitlane.evaluation.schedules import DECAY
from bitlane.levels.codebooks import CHOICES
from bitlane.studies.papers.paper import NAMES
from bitlane.training.objective import LOSSES

Command = Callable[[argparse.Namespace], None]

# What an option is where it is not given; a resumed training must not be given those that bits depend on.
BOTH: dict[str, Any] = {
    "target": None,
    "task": "auto",
    "impute": False,
    "loss": "squared_error",
    "draws": "epoch",
    "epochs": 20,
    "batch_size": 16,
    "learning_rate": None,
    "decay": DECAY,
    "device": "rtl",
    "width": WORD_BITS,
    "outputs": 1,
    "seed": 0,
}
TRAIN = {
    **BOTH,
    "bits": 4,
    "sampling": None,
    "levels": "uniform",
    "staleness": 0,
    "model_bits": None,
    "gradient_bits": None,
    "penalty": None,
    "alpha": 0.0,
    "bounds": None,
    "class_weight": None,
}
COMPARE = {**BOTH, "bits": [2, 4, 8, 32], "sampling": list(SAMPLINGS), "staleness": [0], "positive": None}
LEVELS = {name: TRAIN[name] for name in ("target", "task", "impute", "bits")}
AS_GIVEN = (
    *("levels", "draws", "epochs", "batch_size", "decay", "loss", "penalty", "alpha", "bounds", "staleness"),
    *("model_bits", "gradient_bits"),
)
BENCH_CODECS = ["linear-2", "linear-4", "linear-8", "sign", "select-0.001", "select-0.01"]
AS_BEGUN = ("bits", "sampling", "learning_rate", "seed", "class_weight", "target", "task", "impute")


def fill(arguments: argparse.Namespace, values: Mapping[str, Any]) -> None:
    """Sets what was not given."""
    for name, value in values.items():
        if not hasattr(arguments, name):
            setattr(arguments, name, value)


class _Parser(argparse.ArgumentParser):
    """Its errors are those of bitlane, one line each."""

    def error(self, message: str) -> NoReturn:
        raise DataError(f"{message} (see {self.prog} --help)")


def make_parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser; of what it parses, `command` is the one of `commands` that was named."""
    parser = _Parser(prog="bitlane", description="Trains linear models on samples stored with few bits.")
    parser.add_argument("--version", action="version", version=f"bitlane {__version__}")
    names = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)

    train = names.add_parser(
        "train", help="train one model", description="Train one model.", argument_default=argparse.SUPPRESS
    )
    add = train.add_argument
    add("--bits", type=_bits, help="stored bits a feature, even, 2 to 32, or 3 or 5, or mqgrad: chosen each epoch (4)")
    add("--sampling", choices=[*SAMPLINGS, "full"], help="how they are drawn (double; full for 32 bits)")
    add("--levels", choices=CHOICES, help="optimal: of least variance for each feature, with 3 to 5 bits (uniform)")
    _shared(train)
    add("--staleness", type=int, choices=[0, 1], help="batches that the weights a batch reads are behind (0)")
    add("--model-bits", type=int, help="bits of the weights that dot products see, rounded at random, 5 to 23 (all)")
    add("--gradient-bits", type=int, help="bits of step times slope, rounded at random, 2 to 32 (all)")
    add("--penalty", choices=["l2", "l1"], help="penalty on the scaled weights (none)")
    add("--alpha", type=float, help="its strength (0)")
    add("--bounds", type=_bounds, metavar="LOW,HIGH", help="of the scaled weights, none for no end: --bounds=0,none")
    add("--class-weight", choices=["balanced"], help="weigh classes by their rarity (all alike)")
    add("--outputs", type=_positive, help="models that the device trains at a time (1)")
    add("--resume", type=Path, default=None, metavar="RUN_DIR", help="go on from a run folder, to --epochs in all")
    train.set_defaults(command=commands["train"])

    both = names.add_parser(
        "compare",
        help="train at several precisions and compare",
        description="Train in float64, at full precision, and at each precision asked for, "
        "all with the same order and schedule.",
        argument_default=argparse.SUPPRESS,
    )
    add = both.add_argument
    add("--bits", type=_numbers, help="stored bits a feature (2,4,8,32)")
    add("--sampling", type=_words, help=f"({','.join(SAMPLINGS)})")
    add("--positive", metavar="CLASS", help="the class that is told from the rest")
    _shared(both)
    add("--staleness", type=_numbers, help="batches that the weights a batch reads are behind: 0, 1 or 0,1 (0)")
    both.set_defaults(command=commands["compare"])

    levels = names.add_parser(
        "levels",
        help="what levels of least variance would save",
        description="Compare uniform levels with those of least variance for each feature. Nothing is trained: "
        "`bitlane train --levels optimal` does that.",
        argument_default=argparse.SUPPRESS,
    )
    add = levels.add_argument
    add("--bits", type=int, help="stored bits a feature, even, 2 to 32 (4)")
    _source(levels)
    add("--out", type=Path, default=None, metavar="PNG", help="draw them over the features' histograms, to 8 bits")
    levels.set_defaults(command=commands["levels"])

    _train_ddp(names, commands["train-ddp"])
    plot = names.add_parser("plot", help="draw a run folder's plots again")
    plot.add_argument("folder", type=Path, metavar="RUN_DIR")
    plot.set_defaults(command=commands["plot"])
    names.add_parser("devices", help="list the devices").set_defaults(command=commands["devices"])
    names.add_parser("datasets", help="list the data sets").set_defaults(command=commands["datasets"])

    paper = names.add_parser(
        "reproduce",
        help="measure every claim of a paper, and write a page",
        description="Measure every claim of a paper on data at hand, and write a page with plots. ZipML takes about "
        "15 minutes of one core; all need torch: pip install 'bitlane[torch]'.",
    )
    add = paper.add_argument
    add("paper", choices=NAMES)
    add("--out", type=Path, metavar="FILE", help="the page; plots beside it (docs/PAPER.md)")
    add("--quick", action="store_true", help="toy sizes, to see that all of it works: the verdicts mean nothing")
    paper.set_defaults(command=commands["reproduce"])

    speed = names.add_parser(
        "bench-compress",
        help="measure how fast gradient codecs are here",
        description="Measure gradient codecs beside a plain copy of the same tensor. Needs torch: pip install "
        "'bitlane[torch,fast]'; without the extra `fast` it is numpy that is measured.",
    )
    add = speed.add_argument
    add("--codecs", type=_words, default=BENCH_CODECS, help="sign, linear-2 to linear-8, select-DENSITY (some of each)")
    add("--size", type=_sizes, default=[2**19, 2**26], metavar="MIB", help="of the tensors (0.5,64)")
    add("--threads", type=_positive, default=1, help="of the copy; a codec has one (%(default)s)")
    add("--repeat", type=_positive, default=15, help="measurements, of which the median counts (%(default)s)")
    add("--gpu", action="store_true", help="on the GPU")
    speed.set_defaults(command=commands["bench-compress"])

    advice = names.add_parser(
        "advise",
        help="say which gradient compressor a model and a link call for",
        description="Measure a model and the compressors on this machine, and the link between processes of it unless "
        "one is given, and say which compressor makes a step quickest, or none. Needs torch.",
    )
    add = advice.add_argument
    what = advice.add_mutually_exclusive_group(required=True)
    what.add_argument("--network", help="perceptron, convolutional, wide or resnet: computing is measured too")
    what.add_argument("--parameters", type=_positive, metavar="N", help="values of one matrix, of any model")
    add("--ranks", type=_positive, default=4, help="(%(default)s)")
    add("--link", metavar="RATE", help="of a network: 100mbit, 1gbit, 1gbit,0.5ms (measured on this machine)")
    add("--compute", type=float, metavar="SECONDS", help="of a step's computing, where you have measured it")
    advice.set_defaults(command=commands["advise"])

    test = names.add_parser(
        "selftest",
        help="check every block of a device and print a report",
        description="Check every block of a device against the numpy reference, bit for bit, and print a report. "
        "Exit status 1 where a check failed.",
    )
    add = test.add_argument
    add("--device", default=BOTH["device"], help="any device; see bitlane devices (%(default)s)")
    add("--width", type=int, choices=PORT_WIDTHS, default=BOTH["width"], help="bits of its memory port (%(default)s)")
    add("--outputs", type=_positive, default=BOTH["outputs"], help="models that it trains at a time (%(default)s)")
    add("--seed", type=_seed, help="of everything random (fresh, and in the report)")
    add("--out", type=Path, metavar="FILE", help="write the report too: text, or JSON where the name ends with .json")
    test.set_defaults(command=commands["selftest"])
    return parser


def _train_ddp(names: Any, command: Command) -> None:
    parser = names.add_parser(
        "train-ddp",
        help="train a network on several processes, with compressed gradients",
        description="Train a network on several processes of this machine, with compressed gradients. Needs torch: "
        "pip install 'bitlane[torch]'.",
        argument_default=argparse.SUPPRESS,
    )
    add = parser.add_argument
    add("--data", help="mnist, fashion_mnist, cifar10 (mnist)")
    add("--network", help="perceptron, convolutional, wide, resnet (convolutional)")
    add("--workers", dest="ranks", type=_positive, help="processes (4)")
    add(
        "--compress",
        metavar="NAME[:SETTINGS]",
        help="none, qsgd, terngrad, efsign, topk, dgc, micro, powersgd, lqsgd; lqsgd:rank=2,bits=mqgrad (lqsgd)",
    )
    add("--epochs", type=_positive, help="(1)")
    add("--batch-size", dest="batch", type=_positive, help="images of a step, of each worker (32)")
    add("--learning-rate", dest="rate", type=float, metavar="RATE", help="falls to 0 in the end (0.05)")
    add("--momentum", type=float, help="(0.9)")
    add("--seed", type=_seed, help="of the weights and of the order of the images (0)")
    add("--link", default=None, metavar="RATE", help="over links as slow as this, emulated: 100mbit, 1gbit,0.5ms")
    add("--checkpoint", type=Path, default=None, metavar="DIR", help="write checkpoints to this folder")
    add("--every", type=_positive, default=100, help="steps from one checkpoint to the next (%(default)s)")
    add("--resume", type=Path, default=None, metavar="DIR", help="go on from the latest checkpoint, to the same bits")
    add("--out", type=Path, default=None, metavar="DIR", help="write a run folder: run.jsonl, loss.png")
    parser.set_defaults(command=command)


def _shared(parser: argparse.ArgumentParser) -> None:
    """What train and compare both take."""
    _source(parser)
    add = parser.add_argument
    add("--task", choices=["auto", "regression", "classification"], help="(auto)")
    add("--loss", choices=list(LOSSES), help="(squared_error)")
    add("--draws", type=_draws, help="random sets: epoch (fresh in each), once, or a number")
    add("--epochs", type=_positive, help="(20)")
    add("--batch-size", type=_positive, help="rows of a mini-batch (16)")
    add("--learning-rate", type=_rate, metavar="RATE", help="on scaled data (auto: from the data's spread)")
    add("--decay", type=float, help=f"of the learning rate, each epoch, 0.5 to 1 ({DECAY})")
    add("--device", help="rtl, emulator, auto; see bitlane devices (rtl)")
    add("--width", type=int, choices=PORT_WIDTHS, help="bits of the device's memory port (64)")
    add("--seed", type=_seed, help="of the order of the rows and of the draws (0)")
    add("--out", type=Path, default=None, metavar="DIR", help="write a run folder: run.jsonl, plots, the model")


def _source(parser: argparse.ArgumentParser) -> None:
    """Where the samples are, and how they are read."""
    add = parser.add_argument
    add(
        "source",
        metavar="FILE_OR_DATASET",
        help="csv, tsv, parquet, libsvm, npz, npy; or see bitlane datasets",
    )
    add("--target", metavar="NAME", help="the label column")
    add("--impute", action="store_true", help="replace NaN and inf by the column's mean")


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in _words(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers with commas between them") from None


def _sizes(text: str) -> list[int]:
    """Bytes of float32 tensors, from MiB."""
    try:
        sizes = [int(float(word) * 2**18) * 4 for word in _words(text)]
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes in MiB with commas between them") from None
    if min(sizes) < 4:
        raise argparse.ArgumentTypeError(f"{text!r}: a tensor has at least a value, 4 bytes")
    return sizes


def _bounds(text: str) -> tuple[float | None, ...]:
    low, high = (None if word == "none" else float(word) for word in _words(text))
    return low, high


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of words with commas between them")
    return words


def _bits(text: str) -> str | int:
    if text != "mqgrad" and not text.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor mqgrad")
    return text if text == "mqgrad" else int(text)


def _draws(text: str) -> str | int:
    return text if text in ("once", "epoch") else int(text)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be 1 or more")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} must be 0 or more")
    return value


def _rate(text: str) -> float | None:
    return None if text == "auto" else float(text)

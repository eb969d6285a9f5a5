"""Types of arguments. Their errors name the text and what is expected."""

from __future__ import annotations

import argparse
import math


def positive(text: str) -> int:
    """An integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return value


def epochs(text: str) -> int | str:
    """An integer of at least 1, or auto."""
    if text == "auto":
        return text
    if not text.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer or auto")
    return positive(text)


def seconds(text: str) -> float:
    """A time of at least 0."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} must be a time of at least 0 seconds")
    return value


def seed(text: str) -> int:
    """An integer of at least 0."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} must be at least 0")
    return value


def words(text: str) -> list[str]:
    """Words separated by commas."""
    parsed = [word.strip() for word in text.split(",")]
    if not all(parsed):
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of words")
    return parsed


def integers(text: str) -> list[int]:
    """Integers separated by commas."""
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of integers") from None


def bits(text: str) -> str | int:
    """An integer, adaptive or mqgrad."""
    if text in ("adaptive", "mqgrad"):
        return text
    if not text.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer, adaptive or mqgrad")
    return int(text)


def bounds(text: str) -> tuple[float | None, ...]:
    """Two numbers separated by a comma; none for no bound."""
    low, high = (None if word == "none" else float(word) for word in words(text))
    return low, high


def clip(text: str) -> str | None:
    """auto, or none."""
    if text not in ("auto", "none"):
        raise argparse.ArgumentTypeError(f"{text!r} is not auto or none")
    return None if text == "none" else text


def draws(text: str) -> str | int:
    """once, epoch, or an integer."""
    if text not in ("once", "epoch") and not text.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer, once or epoch")
    return text if text in ("once", "epoch") else int(text)


def number_or_auto(text: str) -> float | str:
    """A number, or auto."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number or auto") from None


def tensor_sizes(text: str) -> list[int]:
    """Bytes of float32 tensors, given in MiB and separated by commas."""
    try:
        sizes = [int(float(word) * 2**18) * 4 for word in words(text)]
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a comma-separated list of sizes in MiB") from None
    if min(sizes) < 4:
        raise argparse.ArgumentTypeError(f"{text!r}: a tensor needs at least one value of 4 bytes")
    return sizes


def port_range(text: str) -> tuple[int, int]:
    """FIRST-LAST, ports."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST-LAST, for example 20000-20100")
    return int(first), int(last)

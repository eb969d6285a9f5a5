"""What advice chooses from: ways to average, by name."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bitlane.errors import DataError
from bitlane.policies.protocol import BitPolicy

from ..compressor import Compressor
from ..local.diloco import FOUR_BITS
from ..registry import parse_compressor

PLAIN, BFLOAT16 = "plain", "bf16"
# Ordered by how little they change a training.
CANDIDATES = (
    *(PLAIN, BFLOAT16, "qsgd:bits=8", "qsgd:bits=4", "qsgd:bits=4,error_feedback=True", "qsgd:bits=allocation"),
    *("qsgd:bits=3", "qsgd:bits=2,error_feedback=True", "efsign", "powersgd:rank=4", "lqsgd:rank=4", "lqsgd:rank=1"),
    *("topk:density=0.01", "diloco:10", "diloco:20", "diloco:100"),
)
# Without a training to measure, advice chooses from these, which cost at most 1 % of the loss in the study named.
HARMLESS = {
    PLAIN: "",
    BFLOAT16: "",
    "qsgd:bits=8": "six trainings of perceptrons and convolutional networks, docs/results.md, bits for each group",
    "qsgd:bits=4": "six trainings of perceptrons and convolutional networks, docs/results.md, bits for each group",
}


@dataclass(frozen=True)
class Candidate:
    """A way to average.

    Attributes
    ----------
    name : str
        As `parse_candidate` takes it.
    compressor : Compressor or None
        None is ring all-reduce in `dtype`.
    dtype : torch.dtype, default: torch.float32
        The type that is sent without a compressor.
    every : int or None, default: None
        Inner steps between two rounds of `DiLoCo`; None for an average of the gradients in each step.
    """

    name: str
    compressor: Compressor | None
    dtype: torch.dtype = torch.float32
    every: int | None = None

    @property
    def allocates(self) -> bool:
        """Whether the bits follow from the gradients and the link."""
        policy: BitPolicy | None = None if self.compressor is None else self.compressor.policy
        return bool(getattr(policy, "by_group", False))


def parse_candidate(text: str) -> Candidate:
    """Return the candidate with a name.

    Parameters
    ----------
    text : str
        `plain` (DDP without a hook), `bf16` (PyTorch's `bf16_compress_hook`), a compressor as `parse_compressor` takes
        it, or `diloco:EVERY`, with another compressor than that of `DiLoCo` as `diloco:EVERY:COMPRESSOR`.

    Raises
    ------
    DataError
        If there is no such candidate.

    Examples
    --------
    >>> from bitlane.compress.advice.candidates import parse_candidate
    >>> parse_candidate("diloco:30").every
    30
    """
    name, _, rest = text.partition(":")
    if name == "auto":
        raise DataError(f"{text!r} chooses between candidates itself, during a training: leave it out")
    if text in (PLAIN, BFLOAT16):
        return Candidate(text, None, torch.float32 if text == PLAIN else torch.bfloat16)
    if name != "diloco":
        return Candidate(text, parse_compressor(text))
    every, _, compressor = rest.partition(":")
    if not (every.isascii() and every.isdigit() and int(every)):
        raise DataError(f"invalid candidate {text!r}: use diloco:EVERY with 1 inner step or more, such as diloco:30")
    return Candidate(text, parse_compressor(compressor) if compressor else FOUR_BITS, every=int(every))

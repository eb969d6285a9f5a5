"""`Auto`, a compressor that measures and chooses its bits, and its reducer, which measures coding and exchanges."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bitlane.errors import DataError
from bitlane.policies.protocol import ExchangeSample
from bitlane.support.scalars import as_integer, as_number

from ..codecs import linear
from ..codecs.groups import GROUP, Groups
from ..codecs.wire import CodecId
from ..collectives.averaging import Averaging, Quantizer
from ..collectives.cost_model import AlphaBetaModel
from ..collectives.link import Link
from ..compressor import Layout, Sampler, vector_length
from ..compressors.dense import DenseReducer
from ..compressors.factors import Float32Quantizer
from ..compressors.group_sample import begin_sample
from ..compressors.quantizers import BFloat16Quantizer, LinearQuantizer
from ..compressors.settings import replace_setting
from .chooser import RECENT, AutoChooser
from .measured import BFLOAT16, CHOICES, FLOAT32

TIMED_VALUES = 128 * GROUP  # at most, that are encoded and decoded to measure it


def quantizer_of(bits: int) -> Quantizer:
    """Return the quantizer of a choice of bits."""
    others: dict[int, Quantizer] = {BFLOAT16: BFloat16Quantizer(), FLOAT32: Float32Quantizer()}
    return others.get(bits) or LinearQuantizer(bits, stochastic=True)


class AutoReducer(DenseReducer):
    """The reducer of `Auto`: `bits` are 2 to 8, 16 (bfloat16) or 32 (float32)."""

    def __init__(self, averaging: Averaging, bits: int):
        super().__init__(averaging, True, bits)
        self._exchanges: deque[float] = deque(maxlen=RECENT)  # seconds, with the current bits

    def average(self, vector: Tensor, step: int) -> None:
        before = self.averaging.link.seconds
        super().average(vector, step)
        self._exchanges.append(self.averaging.link.seconds - before)

    @property
    def _quantizer(self) -> Quantizer:
        return quantizer_of(self.bits)

    def sample(self, vector: Tensor, choices: Sequence[int]) -> Sampler:
        """Begin a sample of this rank's gradient and exchanges: an `ExchangeSample`."""
        start, averaging = perf_counter(), self.averaging
        groups, size = averaging.groups, averaging.link.size
        of_gradient = begin_sample(vector, groups, [bits for bits in choices if bits in linear.BITS], False)
        quantizers = [quantizer_of(bits) for bits in choices]
        twice = np.array([averaging.rounds_average(each) for each in quantizers])
        bodies = np.array([each.body_bytes(groups) for each in quantizers])
        sent = bodies * (size - 1) * np.where(twice, 2 / size, 1)
        seconds = np.array([_coding_seconds(each, vector[:TIMED_VALUES]) for each in quantizers])  # [choices, 2]
        times = np.where(twice[:, None], [1 + 1 / size, 2], [1, size])  # a value is encoded, and decoded
        coding = (seconds * times).sum(axis=1) * max(1.0, len(vector) / TIMED_VALUES)
        begun = perf_counter() - start

        def complete(average: Tensor) -> ExchangeSample:
            start, exchange = perf_counter(), median(self._exchanges)
            self._exchanges.clear()
            gradient, values = of_gradient(average), np.array([float(len(average))])
            measuring = begun + perf_counter() - start
            return ExchangeSample(gradient, coding, 1.0 + twice, sent, 1.0 * twice, exchange, values, measuring)

        return complete


def _coding_seconds(quantizer: Quantizer, values: Tensor) -> tuple[float, float]:
    """Return the seconds of encoding and of decoding and adding values; the shorter of two."""
    groups, out, body = Groups.of(len(values)), torch.zeros_like(values), torch.empty(0)

    def encode() -> None:
        nonlocal body
        body = quantizer.encode(values, groups, None, 0)

    return _shorter(encode, values.device), _shorter(lambda: quantizer.decode(body, groups, out, True), values.device)


def _shorter(work: Callable[[], None], device: torch.device) -> float:
    seconds = []
    for _ in range(2):
        start = perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
        seconds.append(perf_counter() - start)
    return min(seconds)


@dataclass(frozen=True)
class Auto:
    """Choose during training: float32, bfloat16, or `QSGD` with 2 to 8 bits.

    The first 12 steps are averaged in bfloat16. Then, and every `period` steps, ranks measure computing, coding, the
    latency and the bandwidth of the link, and the error of each choice beside the noise of the batches. All take the
    fastest choice whose error is allowed (`bitlane.compress.auto`). `DDPCompression.choice` has the last choice and its
    reasons; rank 0 logs each. All choices are without residuals, because a few steps do not show what residuals lose.
    Choices depend on measured times, so runs differ.

    Parameters
    ----------
    tolerance : float, default: 0.01
        Largest squared error of the average over its squared noise. With 0.01 the noise of a step is that of a batch
        that is 1 % smaller, a cautious bound: 0.1 allows fewer bits.
    period : int, default: 100
        Steps between two choices; up to ten times as many if measuring takes more than 1 % of their time.
    seed : int, default: 0
        Seed of stochastic rounding.

    Examples
    --------
    >>> from bitlane.compress import Auto, attach
    >>> compression = attach(ddp, Auto(period=500))  # doctest: +SKIP
    """

    tolerance: float = 0.01
    period: int = 100
    seed: int = 0
    codec: CodecId = field(default=CodecId.MIXED, init=False)
    choices: ClassVar[Sequence[int]] = CHOICES
    observes_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < as_number("tolerance", self.tolerance) <= 1:
            raise DataError(f"tolerance must be above 0 and at most 1; got {self.tolerance}")
        period, seed = as_integer("period", self.period, 1), as_integer("seed", self.seed, 0)
        replace_setting(self, tolerance=float(self.tolerance), period=period, seed=seed)

    @property
    def policy(self) -> Auto:
        """The settings themselves, which choose the bits, too."""
        return self

    def start(self) -> AutoChooser:
        """Return a chooser for the first step."""
        return AutoChooser(self.tolerance, self.period)

    def reducer(self, layout: Layout, link: Link, model: AlphaBetaModel, device: torch.device) -> AutoReducer:
        """Return a new reducer for one rank, as in `Compressor.reducer`."""
        averaging = Averaging(Groups.of(vector_length(layout)), link, model, self.seed, False, device)
        return AutoReducer(averaging, self.start().bits)

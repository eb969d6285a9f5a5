"""Launches whose samples the encoder of the device makes: the host only copies the raw rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import ENCODER_BASE_BITS, ValueType
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.state import ModelState
from bitlane.driver.buffers import SampleBuffers, SourceBuffers
from bitlane.driver.driver import Driver
from bitlane.driver.encoding import Encoding, region_words
from bitlane.driver.job import PAGE, Counters, JobResult
from bitlane.driver.trace import OnEpoch
from bitlane.quantization.source import value_type
from bitlane.support.phases import PhaseClock

from .kept_samples import elsewhere
from .launches import Launch
from .plan import ExecutionPlan
from .samples import SampleEncoder


@dataclass(frozen=True)
class DeviceEncoding:
    """How the encoder of a device makes the samples of a training.

    Attributes
    ----------
    plan : ExecutionPlan
        The plan, with the memory that the source region leaves.
    encoding : Encoding
        Base region, and no draw set.
    """

    plan: ExecutionPlan
    encoding: Encoding


def device_encoding(config: AcceleratorConfig, plan: ExecutionPlan, encoder: SampleEncoder) -> DeviceEncoding | None:
    """Return how the encoder of a device makes the samples; None if the host has to encode them.

    The host encodes tables of other types, scales that the encoder cannot hold, and what `encoding_that_fits` names.
    """
    if encoder.levels is not None or not encoder.device_can_encode(ENCODER_BASE_BITS):
        return None
    return encoding_that_fits(config, plan, value_type(encoder.dtype))


def encoding_that_fits(config: AcceleratorConfig, plan: ExecutionPlan, raw_type: ValueType) -> DeviceEncoding | None:
    """Return how the encoder of a build makes samples of raw values of this type; None if the host has to.

    The host encodes for builds without an encoder, naive sampling, codebooks, more than 14 base bits, and data that
    does not fit the device together with its raw rows.
    """
    geometry = plan.geometry
    if not config.encoder or not plan.shared_base or geometry.codebook or geometry.base_bits > ENCODER_BASE_BITS:
        return None
    encoding = Encoding(geometry, raw_type, True, [])
    padding = PAGE * (1 + plan.draw_sets)  # draw regions are further apart
    left = plan.capacity - -(-encoding.source_words * WORD_BYTES // PAGE) * PAGE - padding
    smaller = replace(plan, capacity=max(left, 0))
    return DeviceEncoding(smaller, encoding) if smaller.launch_epochs else None


def run_encoded_launches(
    driver: Driver,
    how: DeviceEncoding,
    encoder: SampleEncoder,
    state: ModelState,
    on_epoch: OnEpoch | None,
    clock: PhaseClock,
    keep: Callable[[Launch, SampleBuffers], None] | None = None,
) -> Iterator[tuple[Launch, JobResult]]:
    """Run all launches of a plan, as `double_buffer.run_launches`, each after an encoding on the device.

    The phase "encode" counts the device's encoder, and "copy" the raw rows. With `keep` the plan is one launch, and its
    buffers are given to `keep` once the samples are encoded.
    """
    plan, geometry, device = how.plan, how.plan.geometry, driver.device
    apart = region_words(geometry)
    first_sets = min(plan.draw_sets, plan.epochs - plan.first_epoch, plan.launch_epochs) * geometry.draws
    with ExitStack() as stack:
        samples = SampleBuffers(device, geometry, geometry.base_words, first_sets * apart)
        release = stack.enter_context(ExitStack())
        release.callback(samples.free)
        with clock.during("copy"):
            source = stack.enter_context(SourceBuffers(device, geometry, how.encoding.source_words))
            source.fill(encoder.source(geometry, ENCODER_BASE_BITS))
        encoding = how.encoding
        for first in range(plan.first_epoch, plan.epochs, plan.launch_epochs):
            epochs = min(plan.launch_epochs, plan.epochs - first)
            sets = plan.launch_sets(first) * geometry.draws
            counters: list[Counters] = []
            if encoding.writes_base or sets:  # later launches without draws read the samples of the first
                with clock.during("encode"):
                    encoding = replace(encoding, sets=[encoder.device_set(number) for number in sets])
                    counters = driver.encode(encoding, samples, source)
            encoding = replace(encoding, writes_base=False)
            base, draws = [elsewhere(geometry.base_words)], [elsewhere(apart) for _ in sets]
            cycles = sum(each.cycles for each in counters)
            launch = Launch(geometry, base, draws, epochs, True, ends_epoch=True, encoding_cycles=cycles)
            if keep is not None:
                release.pop_all()
                keep(launch, samples)
            with clock.during("train"):
                result = driver.run(launch.job(plan, state), on_epoch, samples)
            state = Launch.next_state(state, result)
            yield launch, result

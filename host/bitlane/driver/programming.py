"""Register values of a run."""

from __future__ import annotations

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import BOUND, WEIGHT_EXPONENT
from bitlane.contract.further import SoftwareConfig
from bitlane.contract.layout import WORD_BYTES
from bitlane.contract.registers import PORT_ADDRESSES, REGISTERS, of_port
from bitlane.errors import DataError, DeviceError

from .buffers import ModelBuffers, SampleBuffers
from .job import Job

OBJECTIVE = ("further_loss", "epsilon", "shrink_step", "shrink_phase")  # registers of `SoftwareConfig`
STRIDE_LIMIT = 1 << REGISTERS["base_stride"].bits
BOUND_MASK = (1 << BOUND.bits) - 1
WEIGHT_EXPONENT_MASK = (1 << WEIGHT_EXPONENT.bits) - 1


def register_values(
    job: Job, samples: SampleBuffers, models: ModelBuffers, config: AcceleratorConfig
) -> dict[str, int]:
    """Return the value of every writable register for a job.

    Parameters
    ----------
    job : Job
    samples, models : SampleBuffers, ModelBuffers
        Buffers of the job.
    config : AcceleratorConfig
        Build of the device: registers of options exist only where it has them.

    Raises
    ------
    DataError
        A set of samples is larger than a stride register holds.
    """
    geometry, settings = job.geometry, job.state.settings
    low, high = settings.bounds
    values = {
        "irq_enable": 1,
        "mode": REGISTERS["mode"].pack(_mode(job)),
        "features": geometry.features,
        "groups": geometry.groups,
        "draw_sets": job.draw_sets,
        "epochs": job.epochs,
        "batch_groups": geometry.batch_groups,
        "step": settings.step,
        "step_negative": settings.step_negative,
        "penalty_step": settings.penalty_step,
        "decay": settings.decay,
        "phase": settings.phase,
        "bounds": low & BOUND_MASK | (high & BOUND_MASK) << BOUND.bits,
        **_port_addresses(samples, models, config.ports),
        **strides(job),
        "trace": models.trace.device_address,
    }
    if config.random_rounding:
        cuts = {"model_cut": settings.model_cut, "scaled_gradient_cut": settings.scaled_gradient_cut}
        values |= {"cuts": REGISTERS["cuts"].pack(cuts), "seed": settings.seed}
    if isinstance(config, SoftwareConfig):
        values |= {name: int(getattr(settings, name)) for name in OBJECTIVE}
    return values


def _port_addresses(samples: SampleBuffers, models: ModelBuffers, ports: int) -> dict[str, int]:
    """The addresses of each port; 0 for samples that a job does not have."""
    every = zip(PORT_ADDRESSES, (samples.base, samples.draws, models.model_in, models.model_out), strict=True)
    return {
        of_port(name, port): buffers[port].device_address if buffers else 0
        for name, buffers in every
        for port in range(ports)
    }


def check_addresses(samples: SampleBuffers, models: ModelBuffers, config: AcceleratorConfig) -> None:
    """Raise DeviceError for a buffer that ends beyond the addresses of the build: the hardware would wrap to 0."""
    buffers = (*samples.base, *samples.draws, *models.model_in, *models.model_out, models.trace)
    for buffer in buffers:
        end = buffer.device_address + buffer.array.nbytes
        if end > 1 << config.address_bits:
            raise DeviceError(
                f"a buffer ends at {end:#x}, beyond the {config.address_bits} address bits of this build: "
                "its memory must be below"
            )


def strides(job: Job) -> dict[str, int]:
    """Return the two stride registers: bytes of a port from one set to the next, 0 for a single set.

    Raises
    ------
    DataError
        A set is larger than a stride register holds.
    """
    regions = {"base_stride": job.base_regions, "draw_stride": job.draw_regions}
    results = {
        name: len(sets[0]) * WORD_BYTES // job.geometry.ports if len(sets) > 1 else 0 for name, sets in regions.items()
    }
    if max(results.values()) >= STRIDE_LIMIT:
        raise DataError(
            f"a draw set takes {max(results.values())} bytes, but with several sets the limit is {STRIDE_LIMIT} bytes "
            "each: use draws='once', or train on fewer rows"
        )
    return results


def _mode(job: Job) -> dict[str, int]:
    """The fields of the mode register."""
    geometry, settings = job.geometry, job.state.settings
    batch_tail, epoch_tail = geometry.tails
    return {
        "base_digits": geometry.base_bits if geometry.codebook else geometry.base_digits,
        "draws": int(geometry.draws),
        "staleness": settings.staleness,
        "unpenalized_intercept": int(settings.unpenalized_intercept),
        "snapshots": int(job.snapshots),
        "loss": int(settings.loss),
        "prox": int(settings.prox),
        "batch_tail": batch_tail,
        "epoch_tail": epoch_tail,
        "weight_exponent": settings.weight_exponent & WEIGHT_EXPONENT_MASK,
    }

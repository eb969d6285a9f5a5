"""The check of the registers at the start of a run, which refuses what the hardware refuses."""

from __future__ import annotations

from bitlane.contract.draws import DrawSet
from bitlane.contract.encoding import ENCODER_BASE_BITS, ValueType, region_bytes
from bitlane.contract.formats import BOUND, DECAY_RANGE, WEIGHT_EXPONENT, Fixed
from bitlane.contract.further import FurtherLoss
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import (
    BURST_BEATS,
    CHUNK,
    CHUNK_MODEL_BYTES,
    CODEBOOK_BITS,
    DIGIT_BITS,
    MAX_DIGITS,
    MAX_EPOCHS,
    MAX_ROWS,
    WORD_BITS,
    WORD_BYTES,
    record_words,
)
from bitlane.contract.modes import ErrorCode, Loss, Prox
from bitlane.contract.prng import MAX_CUT
from bitlane.contract.registers import PORT_ADDRESSES, SOURCE_ADDRESS, of_port
from bitlane.contract.settings import Settings
from bitlane.reference.encoder import EncodeSettings


class Fault(Exception):
    """An error that ends a run early."""

    def __init__(self, code: ErrorCode):
        self.code = code


def check_registers(at: dict[str, int]) -> tuple[Geometry, Settings]:
    """Geometry and settings of the registers. Raise the error of the hardware if they are illegal."""
    words, shards, ports = at["port_bits"] // WORD_BITS, at["shards"], at["ports"]
    columns = words // shards
    tail, last_tail = at["batch_tail"], at["epoch_tail"]
    chunks, max_chunks = -(-at["features"] // (CHUNK * shards)), at["max_features"] // (CHUNK * shards)
    bounds = _signed(at["bounds"], BOUND), _signed(at["bounds"] >> BOUND.bits, BOUND)
    limits = {
        "features": at["max_features"],
        "groups": MAX_ROWS,
        "epochs": MAX_EPOCHS,
        "batch_groups": MAX_ROWS,
        "draw_sets": at["draw_sets"],
    }
    beat, chunk = at["port_bits"] // 8 // ports, CHUNK_MODEL_BYTES * shards // ports
    multiple = {"base_address": beat, "draw_address": beat, "model_in": chunk, "model_out": chunk}
    multiples = {
        "base_stride": beat,
        "draw_stride": beat,
        "trace": record_words(at["outputs"], words // ports) * WORD_BYTES,
        **{of_port(name, port): multiple[name] for port in range(ports) for name in PORT_ADDRESSES},
    }
    if (
        any(not 1 <= at[name] <= limit for name, limit in limits.items())
        or any(at[name] % multiple or at[name] >> at["address_bits"] for name, multiple in multiples.items())
        or any(not 1 <= rows <= columns for rows in (tail, last_tail))
        or not _is_precision(at)
        or not DECAY_RANGE[0] <= at["decay"] <= DECAY_RANGE[1]
        or at["loss"] not in list(Loss)
        or at["further_loss"] not in list(FurtherLoss)
        or bounds[0] > bounds[1]
        or max(at["model_cut"], at["scaled_gradient_cut"]) > MAX_CUT
        or (at["staleness"] and 2 * chunks > max_chunks)
    ):
        raise Fault(ErrorCode.CONFIGURATION)
    rows, batch = _rows(at, columns)
    table = at["level_slots"] > 0
    digits, half = divmod(at["base_digits"], DIGIT_BITS) if table else (at["base_digits"], 0)
    geometry = Geometry(
        features=at["features"],
        rows=rows,
        base_digits=digits,
        draws=bool(at["draws"]),
        batch=batch,
        rows_per_beat=columns,
        outputs=at["outputs"],
        half_digit=bool(half),
        codebook=table,
        shards=shards,
        ports=ports,
    )
    if geometry.row_words > at["max_row_words"] or geometry.level_slots > at["level_slots"]:
        raise Fault(ErrorCode.CONFIGURATION)
    settings = Settings(
        step=at["step"],
        step_negative=at["step_negative"],
        penalty_step=at["penalty_step"],
        decay=at["decay"],
        phase=at["phase"],
        loss=Loss(at["loss"]),
        prox=Prox(at["prox"]),
        bounds=bounds,
        unpenalized_intercept=bool(at["unpenalized_intercept"]),
        staleness=at["staleness"],
        weight_exponent=_signed(at["weight_exponent"], WEIGHT_EXPONENT),
        model_cut=at["model_cut"],
        scaled_gradient_cut=at["scaled_gradient_cut"],
        seed=at["seed"],
        further_loss=FurtherLoss(at["further_loss"]),
        epsilon=at["epsilon"],
        shrink_step=at["shrink_step"],
        shrink_phase=at["shrink_phase"],
    )
    return geometry, settings


def _rows(at: dict[str, int], columns: int) -> tuple[int, int]:
    """Return the rows of an epoch and of a batch, for groups of `columns` rows."""
    full, last_groups = divmod(at["groups"] - 1, at["batch_groups"])
    batch = (at["batch_groups"] - 1) * columns + at["batch_tail"]
    last = last_groups * columns + at["epoch_tail"]
    if full and last > batch:
        raise Fault(ErrorCode.CONFIGURATION)
    rows = full * batch + last
    return rows, batch if full else rows


def check_encoding(at: dict[str, int]) -> EncodeSettings:
    """Return the settings of an encoding. Raise the error of the hardware if its registers are illegal."""
    words, shards, ports = at["port_bits"] // WORD_BITS, at["shards"], at["ports"]
    columns, burst = words // shards, region_bytes(words * WORD_BYTES // ports)
    names = (SOURCE_ADDRESS, "base_address", "draw_address")
    addresses = [of_port(name, port) for name in names for port in range(ports)]
    sets = at["encode_sets"]
    if (
        not 1 <= at["features"] <= at["max_features"]
        or not 1 <= at["groups"] <= MAX_ROWS
        or at["base_digits"] > ENCODER_BASE_BITS // DIGIT_BITS
        or at["value_type"] > max(ValueType)
        or sets > at["encoder"]
        or not (sets or at["encode_base"])
        or any(at[name] >> at["address_bits"] for name in addresses)
        or any(at[name] % burst for name in (*addresses, "draw_stride"))
    ):
        raise Fault(ErrorCode.CONFIGURATION)
    rows = batch = at["groups"]
    if columns > 1:  # else the batches make no difference
        if not 1 <= at["batch_groups"] <= MAX_ROWS or any(
            not 1 <= at[name] <= columns for name in ("batch_tail", "epoch_tail")
        ):
            raise Fault(ErrorCode.CONFIGURATION)
        rows, batch = _rows(at, columns)
    geometry = Geometry(
        features=at["features"],
        rows=rows,
        base_digits=at["base_digits"],
        draws=True,
        batch=batch,
        rows_per_beat=columns,
        outputs=at["outputs"],
        shards=shards,
        ports=ports,
    )
    settings = EncodeSettings(
        value_type=ValueType(at["value_type"]),
        geometry=geometry,
        writes_base=bool(at["encode_base"]),
        sets=sets,
        first_set=DrawSet(at["encode_seed"], at["encode_first"]),
    )
    if settings.source_words > at["source_lines"] * BURST_BEATS * words:
        raise Fault(ErrorCode.CONFIGURATION)
    return settings


def _is_precision(at: dict[str, int]) -> bool:
    """Whether the lanes of the build read such samples. With table lanes `base_digits` counts bits."""
    if at["level_slots"]:
        return at["base_digits"] in CODEBOOK_BITS and bool(at["draws"])
    return 1 <= at["base_digits"] + at["draws"] <= MAX_DIGITS


def _signed(field: int, fmt: Fixed) -> int:
    """The low bits of a register, as a value of a format."""
    value = field & ((1 << fmt.bits) - 1)
    return value - (1 << fmt.bits) if value > fmt.maximum else value

"""Values of registers that a build must refuse."""

from __future__ import annotations

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.encoding import ENCODER_BASE_BITS, ValueType, region_bytes
from bitlane.contract.formats import DECAY_RANGE
from bitlane.contract.layout import CHUNK, CODEBOOK_BITS, DIGIT_BITS, MAX_DIGITS, MAX_EPOCHS, MAX_ROWS, level_slots
from bitlane.contract.modes import Loss
from bitlane.contract.prng import MAX_CUT
from bitlane.contract.registers import REGISTERS, SOURCE_ADDRESS, address_registers, of_port

STRIDES = ("base_stride", "draw_stride")
Values = dict[str, int]  # of registers and fields, by name


def illegal_registers(config: AcceleratorConfig) -> dict[str, Values]:
    """Return, for each rule of `docs/registers.md`, values that break it when the other registers are legal."""
    most, rows = config.max_features, config.rows_per_beat
    singles = {
        "no features": ("features", 0),
        "features": ("features", most + 1),
        "no groups": ("groups", 0),
        "groups": ("groups", MAX_ROWS + 1),
        "no batch": ("batch_groups", 0),
        "batch": ("batch_groups", MAX_ROWS + 1),
        "no batch tail": ("batch_tail", 0),
        "batch tail": ("batch_tail", rows + 1),
        "no epoch tail": ("epoch_tail", 0),
        "epoch tail": ("epoch_tail", rows + 1),
        "no epochs": ("epochs", 0),
        "epochs": ("epochs", MAX_EPOCHS + 1),
        "no draw sets": ("draw_sets", 0),
        "decay below": ("decay", DECAY_RANGE[0] - 1),
        "decay above": ("decay", DECAY_RANGE[1] + 1),
        "loss": ("loss", max(Loss) + 1),
        "bounds": ("bounds", 0xFFFF_0000),
    }
    addresses = address_registers(config.ports)
    singles |= {f"{name} misaligned": (name, config.port_bytes // 2) for name in (*addresses, *STRIDES)}
    beyond = [name for name in addresses if REGISTERS[name].bits > config.address_bits]
    singles |= {f"{name} beyond the port": (name, 1 << config.address_bits) for name in beyond}
    if config.random_rounding:
        for name in ("model_cut", "scaled_gradient_cut"):
            largest = REGISTERS["cuts"].unpack(0xFFFF_FFFF)[name]
            singles |= {f"{name} {cut}": (name, cut) for cut in (MAX_CUT + 1, largest)}
    rules = {rule: {name: value} for rule, (name, value) in singles.items()}
    return rules | (_of_table_lanes(config) if config.table_lanes else _of_digit_lanes(config))


def illegal_encodings(config: AcceleratorConfig) -> dict[str, Values]:
    """Return, for each rule for an encoding, values that break it when the other registers are legal."""
    names = (SOURCE_ADDRESS, "base_address", "draw_address")
    addresses = [of_port(name, port) for name in names for port in range(config.ports)]
    misaligned = region_bytes(config.port_bytes) // 2
    rules: dict[str, Values] = {
        "no features": {"features": 0},
        "features": {"features": config.max_features + 1},
        "no rows": {"groups": 0},
        "rows": {"groups": MAX_ROWS + 1},
        "base digits": {"base_digits": ENCODER_BASE_BITS // DIGIT_BITS + 1},
        "value type": {"value_type": max(ValueType) + 1},
        "draw sets": {"encode_sets": config.encoder + 1},
        "no regions": {"encode_base": 0, "encode_sets": 0},
    }
    if config.rows_per_beat > 1:
        rules |= {"no batch": {"batch_groups": 0}, "batch": {"batch_groups": MAX_ROWS + 1}}
        for tail in ("batch_tail", "epoch_tail"):
            rules |= {f"no {tail}": {tail: 0}, tail: {tail: config.rows_per_beat + 1}}
    rules |= {f"{name} misaligned": {name: misaligned} for name in (*addresses, "draw_stride")}
    beyond = [name for name in addresses if REGISTERS[name].bits > config.address_bits]
    return rules | {f"{name} beyond the port": {name: 1 << config.address_bits} for name in beyond}


def _of_digit_lanes(config: AcceleratorConfig) -> dict[str, Values]:
    most = config.max_features
    rules: dict[str, Values] = {
        "digits": {"base_digits": MAX_DIGITS + 1},
        "no digits": {"base_digits": 0, "draws": 0},
        "two models": {"features": most, "base_digits": 1, "draws": 0, "staleness": 1},
    }
    if config.max_chunks * MAX_DIGITS > config.max_row_words:
        rules["row words"] = {"features": most, "base_digits": MAX_DIGITS, "draws": 0}
    return rules


def _of_table_lanes(config: AcceleratorConfig) -> dict[str, Values]:
    """In table lanes the field base_digits holds base bits."""
    few, many = min(CODEBOOK_BITS), max(CODEBOOK_BITS)
    rules: dict[str, Values] = {
        "no base bits": {"base_digits": few - 1},
        "base bits": {"base_digits": many + 1},
        "most base bits": {"base_digits": REGISTERS["mode"].unpack(0xFFFF_FFFF)["base_digits"]},
        "no draws": {"draws": 0},
    }
    if config.max_chunks * level_slots(few) <= config.level_slots:
        rules["two models"] = {"features": config.max_features, "base_digits": few, "staleness": 1}
    for bits in CODEBOOK_BITS:
        features = CHUNK * (config.level_slots // level_slots(bits)) + 1
        if features <= config.max_features:
            rules[f"levels of {bits} bits"] = {"features": features, "base_digits": bits, "staleness": 0}
    return rules

"""Builds of the accelerator: exact cycles by prediction, and seconds at a stated clock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bitlane.contract.cycles import predict
from bitlane.contract.encoder_cycles import predict_encoding
from bitlane.contract.encoding import ENCODER_BASE_BITS, ValueType
from bitlane.contract.geometry import Geometry
from bitlane.contract.layout import WORD_BITS, WORD_BYTES
from bitlane.contract.precision import Precision
from bitlane.driver.encoding import Encoding
from bitlane.overlays import overlays
from bitlane.quantization.scaling import fit_scaling
from bitlane.training.samples import SampleEncoder
from bitlane_studies.float_sgd import Floats

from .table import BATCHES, EPOCHS

# Share of the cycles without a memory's pauses, by stored bits: `python -m bitlane_verify.benchmarks.dram`, PYNQ-Z2.
DDR3_SHARE = {2: 0.994, 4: 0.979, 8: 0.969}
CARD_CLOCK_MHZ = 300.0  # assumed
DRAW_SETS = 8  # the default of estimators
# Bytes a second over PCIe 3.0 with 16 lanes, as AMD measured with `xbutil validate`: the least of its three banks.
# https://docs.amd.com/r/2024.1-English/Vitis-Tutorials-Hardware-Acceleration/Determine-the-Maximum-Achievable-Throughput
LINK_WRITE, LINK_READ = 8.485e9, 12.155e9
CALL = 50e-6  # seconds to start a transfer from the card and wait for it, assumed


@dataclass(frozen=True)
class PredictedBuild:
    """A build of the accelerator.

    Attributes
    ----------
    title : str
    rows_per_beat, shards, ports : int
    clock_mhz : float
    built : bool
        Whether a bitstream exists.
    shares : dict of int to float
        Share of the cycles that a memory leaves, by stored bits; 1 for bits that are not there.
    """

    title: str
    rows_per_beat: int
    shards: int
    ports: int
    clock_mhz: float
    built: bool
    shares: Mapping[int, float]

    def geometry(self, rows: int, features: int, batch: int, bits: int) -> Geometry:
        """Return the shape of a table on this build."""
        return Geometry.of(Precision(bits), features, rows, batch, self.rows_per_beat, 1, self.shards, self.ports)

    def source_bytes(self, rows: int, features: int, batch: int, bits: int) -> int:
        """Return the bytes of raw float32 rows, their labels and scales for the encoders of the build."""
        encoding = Encoding(self.geometry(rows, features, batch, bits), ValueType.FLOAT32, True, [])
        return encoding.source_words * WORD_BYTES

    def encode(self, rows: int, features: int, batch: int, bits: int) -> float:
        """Return the predicted seconds in which its encoders write a base region and all draw sets at once."""
        shape = self.geometry(rows, features, batch, bits)
        return predict_encoding(shape, ValueType.FLOAT32, True, DRAW_SETS).most / self.clock_mhz / 1e6

    def train(self, rows: int, features: int, batch: int, bits: int) -> float:
        """Return the predicted seconds of 20 epochs, staleness 0."""
        cycles = predict(self.geometry(rows, features, batch, bits), EPOCHS, snapshots=False).cycles
        return cycles / self.clock_mhz / 1e6 / self.shares.get(bits, 1.0)


def shipped() -> PredictedBuild:
    """Return the build of the package for a PYNQ-Z2, with the share that its DDR3 leaves."""
    overlay = overlays()["Pynq-Z2"]
    return PredictedBuild(
        "PYNQ-Z2, in the package", overlay.width // WORD_BITS, 1, 1, overlay.clock_mhz, True, DDR3_SHARE
    )


def card(ports: int, rows_per_beat: int, shards: int) -> PredictedBuild:
    """Return a design with HBM ports of 256 bits, at an assumed clock, with a memory that never stalls."""
    ending = "" if ports == 1 else "s"
    title = f"{ports} port{ending} of 256 bits, not built"
    return PredictedBuild(title, rows_per_beat, shards, ports, CARD_CLOCK_MHZ, False, {})


CARDS = card(1, 4, 1), card(4, 8, 2), card(16, 8, 8)  # shards times rows a beat are the words of all ports


def read_back(shape: Geometry) -> float:
    """Return the seconds until the host has the models from a card."""
    return shape.model_bytes / LINK_READ + CALL


def phase_table(
    host: Mapping[str, float], rows: int, features: int, batch: int, builds: Sequence[PredictedBuild] = CARDS
) -> list[tuple[str, ...]]:
    """Return a fit with 4 bits by phase, in milliseconds: on one core, and with each build on a card.

    The host encodes; see `encoder_table`.

    Parameters
    ----------
    host : dict of str to float
        Measured seconds of a fit on one core by phase: "prepare", "encode", "copy" and "train".
    rows, features, batch : int
        Of the table; features that are stored.
    builds : sequence of PredictedBuild
    """
    columns = [[host["prepare"], host["encode"], host["copy"], host["train"], 0.0]]
    for build in builds:
        shape = build.geometry(rows, features, batch, 4)
        words = shape.base_words + DRAW_SETS * shape.draw_words
        transfer = words * WORD_BYTES / LINK_WRITE
        train = build.train(rows, features, batch, 4)
        columns.append([host["prepare"], host["encode"], transfer, train, read_back(shape)])
    for column in columns:
        column += [sum(column), sum(column[2:]), sum(column[3:])]
    names = ("prepare", "encode", "transfer", "train", "read back", "all", "encoded before", "on the card before")
    head = ("phase, ms", "one core, no card", *(f"{build.ports} x 256 bits" for build in builds))
    return [head, *((name, *(f"{1e3 * c[place]:.1f}" for c in columns)) for place, name in enumerate(names))]


def encoder_table(
    host: Mapping[str, float], rows: int, features: int, batch: int, builds: Sequence[PredictedBuild] = CARDS
) -> list[tuple[str, ...]]:
    """Return a fit with 4 bits by phase, in milliseconds, whose float32 rows the encoders on the card encode.

    Parameters
    ----------
    host : dict of str to float
        Measured seconds on one core of the host: "prepare", and "pack" of the raw rows.
    rows, features, batch : int
        Of the table; features that are stored.
    builds : sequence of PredictedBuild
    """
    columns = []
    for build in builds:
        transfer = build.source_bytes(rows, features, batch, 4) / LINK_WRITE
        encode, train = build.encode(rows, features, batch, 4), build.train(rows, features, batch, 4)
        back = read_back(build.geometry(rows, features, batch, 4))
        phases = [host["prepare"], host["pack"], transfer, encode, train, back]
        columns.append([*phases, sum(phases), sum(phases[1:]), sum(phases[3:]), sum(phases[4:])])
    names = (
        *("prepare", "pack raw rows", "transfer", "encode on the card", "train", "read back", "all"),
        *("prepared before", "raw rows on the card before", "encoded on the card before"),
    )
    head = ("phase, ms", *(f"{build.ports} x 256 bits" for build in builds))
    return [head, *((name, *(f"{1e3 * c[place]:.1f}" for c in columns)) for place, name in enumerate(names))]


def pack_seconds(X: Floats, y: Floats, repeats: int, build: PredictedBuild = CARDS[-1]) -> float:
    """Return the least seconds in which one core packs raw rows, X [rows, n] and y [rows], for a build's encoders."""
    scaling, precision = fit_scaling(X, y[:, None]), Precision(4)
    encoder = SampleEncoder(X, y[:, None], scaling, precision, 0)
    shape = build.geometry(len(X), scaling.stored_features, BATCHES[0], 4)
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        encoder.source(shape, ENCODER_BASE_BITS)
        found.append(time.perf_counter() - begin)
    return min(found)

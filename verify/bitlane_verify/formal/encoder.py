"""Proofs of the encoder: its reads, its order, its words and its write requests."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from amaranth.hdl import Cat, Mux

from bitlane.contract.encoding import ValueType, region_bytes
from bitlane.contract.layout import BURST_BEATS, WORD_BITS
from bitlane_hw.common.payloads import request_layout
from bitlane_hw.encoder.beat_words import BeatWord
from bitlane_hw.encoder.core import EncoderCore
from bitlane_hw.encoder.payloads import encoder_layout
from bitlane_hw.encoder.region_buffer import DEPTH, RegionBuffer
from bitlane_hw.encoder.sequencer import SourceSequencer
from bitlane_hw.encoder.source_reader import SourceReader

from .harness import ProofHarness, implies
from .proof import CONFIG, Proof
from .protocol import read_master, stable, taken
from .read_path import fifo_level

ENCODER = replace(CONFIG, encoder=2)
BASE_BITS, SETS, OUTPUTS, LABEL_CYCLES = 4, 2, 2, 5
CORE_BASE_BITS, CORE_DEPTH = 4, 14
BURST_BITS = (BURST_BEATS - 1).bit_length()
LINE_OFFSET = region_bytes(CONFIG.port_bytes).bit_length() - 1


def source_reader(harness: ProofHarness) -> None:
    """Bursts of 16 beats at multiples of 128 bytes, as many as wanted; there is room for every beat."""
    block, inside = harness.block, harness.inside
    axi, buffer = block.axi, inside["fifo"]
    flight = read_master(harness, axi, WORD_BITS)
    sixteenth = flight.beats[0][:BURST_BITS] == 1
    harness.assume(
        implies(flight.answered, (axi.rid == 0) & (axi.rlast == sixteenth)),
        ~block.load | (block.idle & (inside["room"] == CONFIG.fifo_beats)),
    )
    level = fifo_level(harness, buffer)
    pending = Mux(axi.arvalid, BURST_BEATS, 0)
    answer = harness.past(flight.answered & (axi.rresp != 0))
    harness.always(
        implies(axi.arvalid, (axi.arlen == BURST_BEATS - 1) & (axi.araddr[:LINE_OFFSET] == 0)),
        implies(buffer.component.w_en, buffer.component.w_rdy),
        block.accepted == flight.answered,
        block.idle == (~axi.arvalid & (flight.bursts[0] == 0)),
        block.response == Mux(answer, harness.past(axi.rresp), harness.past(block.response)),
        # invariants
        inside["outstanding"] == flight.bursts[0],
        flight.bursts[0] == (flight.beats[0] + BURST_BEATS - 1) >> BURST_BITS,
        flight.beats[1] == 0,
        flight.bursts[1] == 0,
        inside["room"] + flight.beats[0] + level + pending == CONFIG.fifo_beats,
    )
    harness.cover(taken(block.beats) & (level == 3))
    harness.cover(block.exhausted & harness.ever(block.beats.valid))


def region_buffer(harness: ProofHarness) -> None:
    """Requests are stable, aligned and of 1 to 16 beats; each beat of a burst is there when it is taken.

    Assumed: `room` is respected, so that no FIFO overflows; no word comes after `flush` has risen; the writer takes the
    beats of the burst that it has requested last.
    """
    block, inside = harness.block, harness.inside
    requests, request = block.requests, block.requests.payload
    left, active = inside["left"], inside["active"]
    flush_before = harness.past(block.flush)
    harness.assume(implies(flush_before, block.flush), ~block.load, implies(block.beats.ready, left != 0))
    harness.assume(*(implies(words.valid, ~block.flush & ~flush_before) for words in block.words))
    for i in range(len(block.words)):
        buffer = inside[f"region_{i}"]
        level = fifo_level(harness, buffer)
        component = buffer.component
        harness.assume(implies(block.words[i].valid, level < DEPTH - 2))
        harness.always(
            component.level == level,
            implies(active == i, level >= left),
            implies((active == i) & (left != 0) & ~harness.past(component.w_en), component.r_rdy),
        )
    begun = harness.past(requests.valid & requests.ready)
    harness.always(
        stable(harness, requests),
        implies(requests.valid, (request.beats != 0) & (request.beats <= BURST_BEATS)),
        implies(requests.valid, (request.address[:LINE_OFFSET] == 0) & (left == 0)),
        implies(block.beats.ready, Cat(inside[f"region_{i}"].component.r_rdy & (active == i) for i in range(3)).any()),
        implies(begun, left == harness.past(request.beats)),
        left <= BURST_BEATS,
        (active < len(block.words)) & (inside["turn"] < len(block.words)),
    )
    harness.cover(block.beats.ready & (left == 1) & (active == 2))


def source_sequencer(harness: ProofHarness) -> None:
    """A beat is taken only if it is there and wanted; parts and labels keep their distances."""
    block = harness.block
    settings, beats, flags = block.settings, block.beats, block.flags
    harness.hold(settings)
    harness.assume(settings.value_type <= max(ValueType), settings.base_digits <= BASE_BITS // 2, settings.rows != 0)
    ends = block.part & flags.chunk_last
    chunk_words = Mux(settings.base & (settings.base_digits != 0), settings.base_digits, 1)
    since = harness.ghost(4, "since", 15)  # cycles since the end of a chunk, at most 15
    harness.m.d.sync += since.eq(Mux(ends, 0, Mux(since == 15, 15, since + 1)))
    since_label = harness.ghost(4, "since_label", 15)
    harness.m.d.sync += since_label.eq(Mux(block.label, 0, Mux(since_label == 15, 15, since_label + 1)))
    gap, label_gap = harness.inside["gap"], harness.inside["label_gap"]
    harness.settled(harness.inside["words"], (chunk_words - 1)[: len(harness.inside["words"])])
    harness.always(
        implies(block.entry | block.label | block.part | taken(beats), block.enable & beats.valid),
        implies(block.entry | block.label, taken(beats)),
        block.entry + block.label + block.part <= 1,
        implies(block.part & flags.row_first, block.rows_ready),
        implies(ends | block.label, block.room),
        implies(ends | block.label, since + 1 >= chunk_words),
        implies(block.label, settings.base & (since_label + 1 >= LABEL_CYCLES)),
        implies(block.done, ~block.part & ~block.label & ~block.entry & ~beats.ready),
        # invariants
        implies(gap != 0, since + 1 + gap == chunk_words),
        implies(gap == 0, since + 1 >= chunk_words),
        implies(label_gap != 0, since_label + 1 + label_gap == LABEL_CYCLES),
        implies(label_gap == 0, since_label + 1 >= LABEL_CYCLES),
    )
    harness.cover(block.part & flags.chunk_last & (settings.value_type == ValueType.FLOAT32))
    harness.cover(block.done)


def encoder_core(harness: ProofHarness, assembler_name: str = "assembler") -> None:
    """A chunk is complete only when the words of the chunk before it have left, and a label finds no word.

    Assumed: what `source_sequencer` proves of the distances.
    """
    block, inside = harness.block, harness.inside
    sequencer, assembler = inside["sequencer"], inside[assembler_name]
    settings = block.settings
    harness.hold(settings)
    harness.assume(settings.base_digits <= CORE_BASE_BITS // 2, ~block.begin)
    source = sequencer.component
    ends = source.part & source.flags.chunk_last
    chunk_words = Mux(settings.base & (settings.base_digits != 0), settings.base_digits, 1)
    since = harness.ghost(4, "since", 15)
    harness.m.d.sync += since.eq(Mux(ends, 0, Mux(since == 15, 15, since + 1)))
    harness.assume(implies(ends | source.label, since + 1 >= chunk_words))
    left, label = assembler["left"], assembler["label_2"]
    harness.always(
        implies(assembler["ends_1"], left <= 1),
        implies(label, left == 0),
        implies(taken(block.beats), block.enable),
    )
    harness.cover(block.words[0].valid & (left == 2))
    harness.cover(label)


PROOFS = (
    Proof(
        "source_reader",
        "AXI4 reads of the encoder: bursts of 16 beats, stable, room for all data",
        lambda: SourceReader(CONFIG.address_bits, CONFIG.fifo_beats),
        source_reader,
        covers=32,
    ),
    Proof(
        "region_buffer",
        "write requests of the encoder: 1 to 16 beats, aligned, stable; every beat is there",
        lambda: RegionBuffer(CONFIG.address_bits, 3, request_layout(CONFIG)),
        region_buffer,
        covers=24,
    ),
    Proof(
        "source_sequencer",
        "beats of a source region are taken in order; chunks and labels keep their distances",
        lambda: SourceSequencer(encoder_layout(CONFIG.max_features, BASE_BITS, SETS), BASE_BITS, OUTPUTS, LABEL_CYCLES),
        source_sequencer,
        covers=20,
    ),
    Proof(
        "encoder_core",
        "the words of a chunk have left when the next one is complete",
        lambda: EncoderCore(64, CORE_BASE_BITS, 1, 1),
        encoder_core,
        covers=40,
        depth=CORE_DEPTH,
    ),
    Proof(
        "encoder_core_of_two_words",
        "the same with two rows in two shards side by side: of the last word",
        lambda: EncoderCore(64, CORE_BASE_BITS, 1, 1, (BeatWord(0, 1), BeatWord(1, 0)), 2, 2),
        partial(encoder_core, assembler_name="assembler_1"),
        covers=48,
        depth=CORE_DEPTH,
    ),
)

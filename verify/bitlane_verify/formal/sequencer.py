"""Proofs of the sequencer."""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth.hdl import Mux

from bitlane.contract.config import AcceleratorConfig
from bitlane.contract.formats import LABEL
from bitlane.contract.latencies import BATCH_PAUSE
from bitlane.contract.layout import LABELS_PER_WORD, WORD_BITS
from bitlane_hw.common.payloads import Kind
from bitlane_hw.control.sequencer import Sequencer
from bitlane_hw.memory.burst_generator import BASE, DRAW

from .address_generator import counters_in_range, valid_run
from .harness import ProofHarness, implies, same
from .proof import CONFIG, FAIR, SHARDED, Proof
from .protocol import stable, taken


def _sequencer(harness: ProofHarness, config: AcceleratorConfig = CONFIG) -> Any:
    """Assert the destination of each beat and the conditions that it waits for; return 1 if a token waits."""
    block, inside = harness.block, harness.inside
    settings, digits = block.settings, block.digits.payload
    tokens = inside["address_generator"].component.tokens
    token = tokens.payload
    valid_run(harness, settings, config)
    counters_in_range(harness, inside["address_generator"], settings, config)
    harness.assume(*(stable(harness, beats) for beats in block.beats))

    # Each beat that is taken belongs to the token, and goes unchanged to one destination.
    is_draw, is_label = token.kind == Kind.DRAW, token.kind == Kind.LABEL
    is_digit = is_draw | (token.kind == Kind.BASE)
    base, draw = (taken(block.beats[i]) for i in (BASE, DRAW))
    words = Mux(is_draw, block.beats[DRAW].payload, block.beats[BASE].payload)
    harness.always(
        *(implies(beats.ready, beats.valid & block.enable & tokens.valid) for beats in block.beats),
        (base | draw) == taken(tokens),
        draw == (block.digits.valid & digits.draw),
        base == (block.model.valid | (block.digits.valid & ~digits.draw) | (taken(tokens) & is_label)),
        implies(taken(tokens), is_draw == draw),
        block.model.valid == (taken(tokens) & (token.kind == Kind.MODEL)),
        block.digits.valid == (taken(tokens) & is_digit),
        implies(block.model.valid, same(block.model.payload.words, words)),
        implies(block.digits.valid, same(digits.words, words) & (digits.chunk == token.chunk)),
    )
    output = harness.constant(range(config.outputs), "output")
    harness.assume(output < config.outputs)
    labels = harness.ghost(config.width, "labels")
    with harness.m.If(taken(tokens) & is_label & (token.output == output)):
        harness.m.d.sync += labels.eq(block.beats[BASE].payload)
    for i in range(config.outputs):
        label = labels.word_select(token.phase, WORD_BITS // LABELS_PER_WORD)[: LABEL.bits]
        harness.always(implies(output == i, same(digits.rows[i][0].label, label) & same(inside[f"labels_{i}"], labels)))

    # The conditions that digits wait for, derived from the ports.
    group_ends = block.digits.valid & digits.row_last
    batch_ends = group_ends & digits.end.batch_last
    unpublished = harness.count(batch_ends, block.published, bits=4)
    harness.assume(implies(block.published, unpublished != 0))
    epoch_open = harness.ghost(1, "epoch_open", init=1)
    with harness.m.If(batch_ends):
        harness.m.d.sync += epoch_open.eq(~digits.end.epoch_last)
    with harness.m.Elif(block.epoch_go):
        harness.m.d.sync += epoch_open.eq(1)
    longest = BATCH_PAUSE + 1
    since = harness.ghost(range(longest + 1), "since", init=longest)  # since the end of a batch
    harness.m.d.sync += since.eq(Mux(batch_ends, 1, Mux(since == longest, longest, since + 1)))
    paused = (settings.chunks == 1) & (since <= BATCH_PAUSE)
    loaded = harness.ever(block.loaded)
    harness.settled(inside["one_chunk"], settings.chunks == 1)
    harness.always(
        implies(block.digits.valid, loaded & epoch_open & (unpublished <= settings.staleness)),
        implies(block.digits.valid, ~paused),
        # invariants
        inside["load_wait"] == ~loaded,
        inside["unpublished"] == unpublished,
        unpublished <= settings.staleness + 1,
        inside["epoch_wait"] == ~epoch_open,
        *(inside[f"pause_{i + 1}"] == (inside["one_chunk"] & (since == i + 1)) for i in range(BATCH_PAUSE)),
        (since != 0) & (since <= longest),
    )
    waits = block.enable & tokens.valid & ~taken(tokens)
    harness.always((block.stall_model | block.stall_memory) == waits, ~(block.stall_model & block.stall_memory))
    return waits


def sequencer(harness: ProofHarness, config: AcceleratorConfig = CONFIG) -> None:
    """Every beat goes to its destination in the order of the tokens, and no digit before its conditions hold."""
    _sequencer(harness, config)
    block = harness.block
    harness.cover(block.model.valid & (block.model.payload.part == 3))


def sequencer_digits(harness: ProofHarness) -> None:
    """The same properties, with a run whose models are small enough to reach its digits."""
    _sequencer(harness)
    block, settings = harness.block, harness.block.settings
    harness.assume(settings.chunks == 1, settings.base_digits == 1, settings.draws == 1, settings.batch_groups == 1)
    harness.assume(block.enable, *(beats.valid for beats in block.beats), settings.groups == 2, settings.staleness == 0)
    harness.cover(harness.ever(block.digits.valid & block.digits.payload.row_last) & block.digits.valid)
    harness.cover(block.digits.payload.end.epoch_last & block.digits.valid & harness.ever(block.stall_model))


def sequencer_stale(harness: ProofHarness) -> None:
    """The same properties, with a run of two chunks, draws and staleness 1 that reaches its third batch."""
    _sequencer(harness)
    block, settings, digits = harness.block, harness.block.settings, harness.block.digits
    harness.assume(settings.chunks == 2, settings.base_digits == 1, settings.draws == 1, settings.staleness == 1)
    harness.assume(block.enable, *(beats.valid for beats in block.beats), settings.groups == 3)
    harness.assume(settings.batch_groups == 1, implies(block.published, harness.ever(block.stall_model)))
    ends = digits.valid & digits.payload.row_last & digits.payload.draw & (digits.payload.chunk == 1)
    batches = harness.count(ends, bits=4)
    harness.cover(block.stall_model & (batches == 2) & ~harness.ever(block.published))
    harness.cover(ends & digits.payload.bank & (batches == 2))  # the third batch reads the bank that it writes


def sequencer_live(harness: ProofHarness) -> None:
    """No beat waits for ever.

    Assumed: a beat that the sequencer waits for arrives within FAIR cycles, and so do the events that digits wait for:
    the models are loaded, a batch is published, the results of the epoch are stored.
    """
    waits = _sequencer(harness)
    block, inside = harness.block, harness.inside
    waited = harness.waiting(waits)
    kinds = (inside["load_wait"], inside["unpublished"] > block.settings.staleness, inside["epoch_wait"])
    held = block.stall_model
    for wait in kinds:
        waited_for = harness.within(held & wait, FAIR)
        harness.always(implies(held & wait, waited == waited_for))
    absent_for = harness.within(block.stall_memory, FAIR)
    most = FAIR + BATCH_PAUSE
    harness.always(
        implies(waits, waited < most + FAIR),
        implies(held & ~sum(kinds).any(), waited < BATCH_PAUSE),
        implies(block.stall_memory, waited <= most + absent_for),
    )
    harness.cover(block.model.valid & (harness.past(waited) == FAIR - 1))


PROOFS = (
    Proof(
        "sequencer",
        "each beat in order to one destination; no digit before its conditions hold",
        lambda: Sequencer(CONFIG),
        sequencer,
        8,
    ),
    Proof(
        "sequencer_shards",
        "the same with shards: the labels of eight groups in one beat",
        lambda: Sequencer(SHARDED),
        partial(sequencer, config=SHARDED),
        8,
    ),
    Proof(
        "sequencer_run",
        "the same, with a run that reaches its last digits",
        lambda: Sequencer(CONFIG),
        sequencer_digits,
        60,
    ),
    Proof(
        "sequencer_stale",
        "the same, with two chunks, draws and staleness 1, up to the third batch",
        lambda: Sequencer(CONFIG),
        sequencer_stale,
        110,
    ),
    Proof(
        "sequencer_live",
        "with a fair memory and fair lanes no beat waits for ever",
        lambda: Sequencer(CONFIG),
        sequencer_live,
        10,
    ),
)

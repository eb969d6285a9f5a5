"""Proofs of the pipelines behind the sequencer: each beat is available when it is needed; every batch is published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Mux
from amaranth.lib import data, wiring

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.common.payloads import GroupEnd
from bitlane_hw.datapath.model_core import ModelCore, forward_latency
from bitlane_hw.engine import Engine

from .address_generator import counters_in_range, pass_settled, positions, valid_run
from .harness import ProofHarness, implies
from .proof import CONFIG, Proof
from .read_path import fifo_level

ONE = replace(CONFIG, outputs=1)  # all cores have the same timing
STAGES = forward_latency(ONE)


@dataclass(frozen=True)
class GroupState:
    """Groups in the pipeline.

    Attributes
    ----------
    taken : Signal
        Beats taken of the newest group.
    beats : Signal
        Beats of a group.
    buffered : Signal
        Beats that were taken and that the gradient pass has not read.
    unpublished : Signal
        Batches that were taken and are not published.
    """

    taken: Any
    beats: Any
    buffered: Any
    unpublished: Any


def groups(harness: ProofHarness, core: wiring.Component, settings: data.View) -> GroupState:
    """Follow the groups through the pipeline of a model core, from its digits to the gradient pass.

    The digits come in groups of chunks * digits beats, with any gaps. Asserted: a pass starts after the end of the
    previous one and reads only beats that were taken; each batch is published once, as many cycles after its end as the
    pipeline has stages. Assumed: no model is loaded in the cycle of a pass.
    """
    block, gradient, lanes = core.component, core["gradient"], core["lanes"]
    pass_settled(harness, gradient, settings)
    digits = settings.base_digits + settings.draws
    beats = harness.ghost(range(ONE.max_row_words + 1), "beats")
    harness.m.d.comb += beats.eq(settings.chunks * digits)
    valid, last = block.digits.valid, block.digits.valid & block.digits.payload.row_last
    taken = harness.count(valid, bits=len(beats), clear=last)
    reread = harness.count(
        block.beats.ready,
        bits=len(beats),
        clear=block.beats.ready & (gradient["chunk"] == settings.chunks - 1) & (gradient["digit"] == digits - 1),
    )
    buffered = harness.count(valid, block.beats.ready, bits=10)
    start = {i: core[f"start_{i}"] for i in range(1, STAGES + 1)}
    busy = gradient["busy"]
    in_stages = sum(start.values())
    harness.always(
        implies(block.beats.ready, buffered != 0),
        implies(start[STAGES], ~busy),
        block.beats.ready == (start[STAGES] | busy),
        buffered <= ONE.row_buffer_beats,
        # invariants
        buffered == taken + beats * in_stages + Mux(busy, beats - reread, 0),
        (taken < beats) & (reread < beats) & (busy == (reread != 0)),
        reread == gradient["chunk"] * digits + gradient["digit"],
        (gradient["digit"] < digits) & (gradient["chunk"] < settings.chunks),
        implies(harness.past(valid), (taken != 0) | start[1]),
        implies(busy, taken < STAGES + reread),
    )
    for i, starts in start.items():
        harness.always(
            implies(starts, taken < i),
            implies(starts & busy, beats <= STAGES - i + reread),
            *(implies(starts & start[j], beats <= j - i) for j in range(i + 1, STAGES + 1)),
        )

    # The stages that an unpublished batch can occupy, with their distances from its end, from the oldest to the newest.
    passes = lanes.component.passes
    harness.assume(implies(block.load, ~passes.valid))
    loading = {i: lanes[f"written_load_{i}"] for i in (1, 2, 3)}
    stages = []
    for k in (3, 2, 1):
        is_first = lanes[f"written_chunk_{k}"] == 0
        ends = GroupEnd(lanes[f"end_{k}"]).batch_last
        stages.append((lanes[f"write_{k}"] & ~loading[k] & is_first & ends, STAGES + digits + k))
    out = passes.payload
    stages.append((passes.valid & out.last & (out.chunk == 0) & out.end.batch_last, STAGES + digits))
    stages.append((busy & GroupEnd(gradient["end"]).batch_last & (gradient["chunk"] == 0), STAGES + gradient["digit"]))
    stages += [(start[i] & GroupEnd(core[f"end_{i}"]).batch_last, i) for i in range(STAGES, 0, -1)]
    batch_ends = last & block.digits.payload.end.batch_last
    unpublished = harness.count(batch_ends, block.published, bits=4)
    waited = harness.waiting((unpublished != 0) & ~block.published)
    harness.always(
        implies(block.published, unpublished != 0),
        unpublished == sum(occupied for occupied, _ in stages),
        implies(unpublished != 0, waited <= STAGES + digits + 3),
    )
    older: Any = 0
    for occupied, distance in stages:
        harness.always(implies(occupied & ~older, waited <= distance))
        older = older | occupied
    return GroupState(taken, beats, buffered, unpublished)


def model_core(harness: ProofHarness) -> None:
    """The properties of `groups`, with digits in groups of the size of the run, at any rate."""
    block = harness.block
    settings = block.settings
    valid_run(harness, settings, ONE)
    state = groups(harness, harness.inside, settings)
    harness.assume(
        implies(block.digits.valid, block.digits.payload.row_last == (state.taken == state.beats - 1)),
        state.unpublished <= settings.staleness + 1,  # the sequencer ensures it
    )
    harness.cover(block.beats.ready & (state.buffered == state.beats + 1))
    harness.cover(block.published & (state.unpublished == 1) & (state.beats == 4))
    harness.cover(
        block.published & (state.unpublished == 2) & (settings.chunks == 2) & settings.draws & settings.base_digits[0]
    )


def _engine(harness: ProofHarness) -> tuple[GroupState, Any]:
    """Assert the relation between sequencer, model core and row buffer; return the groups and the buffer."""
    inside, settings = harness.inside, harness.block.settings
    valid_run(harness, settings, ONE)
    sequencer, rows = inside["sequencer"], inside["row_buffer"]
    generator = sequencer["address_generator"]
    counters_in_range(harness, generator, settings, ONE)
    state = groups(harness, inside["core_0"], settings)
    level = fifo_level(harness, rows)
    digits = settings.base_digits + settings.draws
    harness.always(
        implies(rows.component.w_en, rows.component.w_rdy),
        implies(rows.component.r_en, rows.component.r_rdy),
        state.unpublished <= settings.staleness + 1,
        # invariants
        level + inside["retained_valid_1"] == state.buffered,
        state.taken
        == Mux(generator["loading"], 0, generator["chunk"] * digits + positions(generator, settings)["digit"]),
        sequencer["unpublished"] == state.unpublished,
    )
    return state, rows.component


def engine(harness: ProofHarness) -> None:
    """The row buffer has room for every beat, and each beat is available when it is needed."""
    _engine(harness)
    harness.cover(harness.block.ports[0].write.awvalid)


def _run(harness: ProofHarness, **settings: int) -> tuple[GroupState, Any]:
    """Assume a run with these settings and a memory that answers at once, one burst after the other."""
    state, rows = _engine(harness)
    block, read = harness.block, harness.block.ports[0].read
    begun = harness.ever(block.run.load)
    left = harness.ghost(range(BURST_BEATS + 1), "left")  # beats of the burst
    stream = harness.ghost(len(read.rid), "stream")
    with harness.m.If(left != 0):
        harness.m.d.sync += left.eq(left - 1)
    with harness.m.Elif(read.arvalid):
        harness.m.d.sync += [left.eq(read.arlen + 1), stream.eq(read.arid)]
    harness.assume(
        block.run.load == ~begun,
        block.run.enable == begun,
        *(block.settings[name] == value for name, value in settings.items()),
        read.arready == (left == 0),
        read.rvalid == (left != 0),
        implies(read.rvalid, (read.rid == stream) & (read.rlast == (left == 1))),
    )
    return state, rows


def engine_run(harness: ProofHarness) -> None:
    """The same properties, with a run of one chunk that reaches the row buffer."""
    state, rows = _run(harness, chunks=1, base_digits=1, draws=0, batch_groups=1, groups=2, staleness=0)
    harness.cover(rows.r_en & (state.buffered == 1))


def engine_stale(harness: ProofHarness) -> None:
    """The same properties, with a run of two chunks, draws and staleness 1, up to the passes of its second batch."""
    state, rows = _run(harness, chunks=2, base_digits=1, draws=1, batch_groups=1, groups=2, staleness=1)
    core = harness.inside["core_0"].component
    passes = harness.inside["core_0"]["lanes"].component.passes
    harness.cover(rows.r_en & (state.unpublished == 2))
    harness.cover(passes.valid & passes.payload.last & (passes.payload.chunk == 1) & harness.ever(core.published))


PROOFS = (
    Proof(
        "model_core",
        "a pass starts when its group is complete; every batch is published once, at a fixed distance",
        lambda: ModelCore(ONE, 0),
        model_core,
        covers=30,
    ),
    Proof(
        "engine",
        "the row buffer never overflows, and each beat is available when it is needed",
        lambda: Engine(ONE),
        engine,
        covers=4,
    ),
    Proof(
        "engine_run",
        "the same, with a run that reaches the row buffer",
        lambda: Engine(ONE),
        engine_run,
        covers=70,
    ),
    Proof(
        "engine_stale",
        "the same, with two chunks, draws and staleness 1, up to the second batch",
        lambda: Engine(ONE),
        engine_stale,
        covers=130,
    ),
)

"""Behind the sequencer, where nothing waits: each beat is there when it is needed, and every batch is published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Mux

from bitlane_hw.common.payloads import GroupEnd
from bitlane_hw.datapath.model_core import ModelCore, start_latency
from bitlane_hw.engine import Engine

from .bench import ProofHarness, implies
from .order import pass_settled, valid_run, walker_in_range, walker_places
from .proof import CONFIG, Proof
from .reading import fifo_level

ONE = replace(CONFIG, outputs=1)  # all heads go in step
STAGES = start_latency(ONE)


@dataclass(frozen=True)
class Groups:
    """Where the groups are that are under way.

    Attributes
    ----------
    taken: beats of the newest group that were taken. beats: of a group.
    behind: beats that were taken and have not been walked through again.
    unpublished: batches that were taken and are not published.
    """

    taken: Any
    beats: Any
    behind: Any
    unpublished: Any


def groups(bench: ProofHarness, head: Any, settings: Any) -> Groups:
    """Groups follow one another through a head's pipeline, from its digits to the gradient pass.

    Proved of a head whose digits come in groups of chunks * digits beats, with any gaps: a pass begins when the one
    before has ended, and walks through no beat that has not been taken. Each batch is published once, and as many
    cycles after its end as the pipeline has stages. Assumed: no model is loaded in the cycle of a pass.
    """
    block, gradient, lanes = head.component, head["gradient"], head["lanes"]
    pass_settled(bench, gradient, settings)
    digits = settings.base_digits + settings.draws
    beats = bench.ghost(range(ONE.max_row_words + 1), "beats")
    bench.m.d.comb += beats.eq(settings.chunks * digits)
    valid, last = block.digits.valid, block.digits.valid & block.digits.payload.row_last
    taken = bench.count(valid, bits=len(beats), clear=last)
    walked = bench.count(
        block.beats.ready,
        bits=len(beats),
        clear=block.beats.ready & (gradient["chunk"] == settings.chunks - 1) & (gradient["digit"] == digits - 1),
    )
    behind = bench.count(valid, block.beats.ready, bits=10)
    start = {i: head[f"start_{i}"] for i in range(1, STAGES + 1)}
    busy = gradient["busy"]
    in_stages = sum(start.values())
    bench.always(
        implies(block.beats.ready, behind != 0),
        implies(start[STAGES], ~busy),
        block.beats.ready == (start[STAGES] | busy),
        behind <= ONE.row_buffer_beats,
        # invariants
        behind == taken + beats * in_stages + Mux(busy, beats - walked, 0),
        (taken < beats) & (walked < beats) & (busy == (walked != 0)),
        walked == gradient["chunk"] * digits + gradient["digit"],
        (gradient["digit"] < digits) & (gradient["chunk"] < settings.chunks),
        implies(bench.past(valid), (taken != 0) | start[1]),
        implies(busy, taken < STAGES + walked),
    )
    for i, starts in start.items():
        bench.always(
            implies(starts, taken < i),
            implies(starts & busy, beats <= STAGES - i + walked),
            *(implies(starts & start[j], beats <= j - i) for j in range(i + 1, STAGES + 1)),
        )

    # From the oldest to the newest: the places where a batch may be that is not published, and their distances.
    passes = lanes.component.passes
    bench.assume(implies(block.load, ~passes.valid))
    loading = {1: lanes["loading_1"], 2: lanes["written_load_1"], 3: lanes["written_load_2"]}
    places = []
    for k in (3, 2, 1):
        is_first = lanes[f"written_chunk_{k}"] == 0
        ends = GroupEnd(lanes[f"end_{k}"]).batch_last
        places.append((lanes[f"write_{k}"] & ~loading[k] & is_first & ends, STAGES + digits + k))
    out = passes.payload
    places.append((passes.valid & out.last & (out.chunk == 0) & out.end.batch_last, STAGES + digits))
    places.append((busy & GroupEnd(gradient["end"]).batch_last & (gradient["chunk"] == 0), STAGES + gradient["digit"]))
    places += [(start[i] & GroupEnd(head[f"end_{i}"]).batch_last, i) for i in range(STAGES, 0, -1)]
    batch_ends = last & block.digits.payload.end.batch_last
    unpublished = bench.count(batch_ends, block.published, bits=4)
    waited = bench.waiting((unpublished != 0) & ~block.published)
    bench.always(
        implies(block.published, unpublished != 0),
        unpublished == sum(there for there, _ in places),
        implies(unpublished != 0, waited <= STAGES + digits + 3),
    )
    older: Any = 0
    for there, distance in places:
        bench.always(implies(there & ~older, waited <= distance))
        older = older | there
    return Groups(taken, beats, behind, unpublished)


def head(bench: ProofHarness) -> None:
    """With digits that come in groups of the run's size, at any pace."""
    block = bench.block
    settings = block.settings
    valid_run(bench, settings, ONE)
    state = groups(bench, bench.inside, settings)
    bench.assume(
        implies(block.digits.valid, block.digits.payload.row_last == (state.taken == state.beats - 1)),
        state.unpublished <= settings.staleness + 1,  # the sequencer sees to it
    )
    bench.cover(block.beats.ready & (state.behind == state.beats + 1))
    bench.cover(block.published & (state.unpublished == 1) & (state.beats == 4))


def _engine(bench: ProofHarness) -> tuple[Groups, Any]:
    """The row buffer between a sequencer and a head; where the groups are, and the buffer."""
    inside, settings = bench.inside, bench.block.settings
    valid_run(bench, settings, ONE)
    sequencer, rows = inside["sequencer"], inside["row_buffer"]
    walker = sequencer["walker"]
    walker_in_range(bench, walker, settings, ONE)
    state = groups(bench, inside["head_0"], settings)
    level = fifo_level(bench, rows)
    digits = settings.base_digits + settings.draws
    bench.always(
        implies(rows.component.w_en, rows.component.w_rdy),
        implies(rows.component.r_en, rows.component.r_rdy),
        state.unpublished <= settings.staleness + 1,
        # invariants
        level + inside["kept_valid_1"] == state.behind,
        state.taken == Mux(walker["loading"], 0, walker["chunk"] * digits + walker_places(walker, settings)["digit"]),
        sequencer["unpublished"] == state.unpublished,
    )
    return state, rows.component


def engine(bench: ProofHarness) -> None:
    """The row buffer has room for every beat, and every beat is there when it is needed."""
    _engine(bench)
    bench.cover(bench.block.write.awvalid)


def engine_run(bench: ProofHarness) -> None:
    """The same with a memory that answers at once, as far as the rows."""
    state, rows = _engine(bench)
    block, settings = bench.block, bench.block.settings
    begun = bench.ever(block.load)
    bench.assume(
        block.load == ~begun,
        block.enable == begun,
        settings.chunks == 1,
        settings.base_digits == 1,
        ~settings.draws,
        settings.batch_groups == 1,
        settings.groups == 2,
        settings.staleness == 0,
        block.read.arready,
        block.read.rid == 0,
        implies(begun, block.read.rvalid),
    )
    bench.cover(rows.r_en & (state.behind == 1))


PROOFS = (
    Proof(
        "head",
        "a group is walked through again when it is whole; every batch is published, once, soon",
        lambda: ModelCore(ONE, 0),
        head,
        covers=30,
    ),
    Proof(
        "engine",
        "the row buffer never overflows, and has each beat when it is needed",
        lambda: Engine(ONE),
        engine,
        covers=4,
    ),
    Proof(
        "engine_run",
        "the same, with a run that reaches the rows",
        lambda: Engine(ONE),
        engine_run,
        covers=60,
    ),
)

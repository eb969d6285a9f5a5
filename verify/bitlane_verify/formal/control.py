"""Proofs of the control: what is stored where and when, and that a run ends."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, ValueLike

from bitlane.contract.layout import BURST_BEATS, CHUNK_MODEL_BYTES
from bitlane.contract.modes import ErrorCode
from bitlane_hw.control.control import Control

from .harness import ProofHarness, implies
from .proof import CONFIG, FAIR, PORTED, Proof
from .protocol import inside_page, stable, taken

STATES = ("IDLE", "CHECK", "RUN", "STORE", "STORED", "RECORD", "RECORDED", "NEXT", "DRAIN")


def _control(harness: ProofHarness) -> tuple[dict[str, Any], Any]:
    """Assume registers as `Registers` and the checks leave them, and assert the invariants of the states.

    Returns
    -------
    tuple
        The states by name, and 1 unless the run is refused.
    """
    block, inside = harness.block, harness.inside
    settings = block.settings
    harness.hold(settings, block.snapshots, block.model_out[0], block.trace)
    refused = block.refused
    harness.assume(
        implies(
            ~refused,
            (settings.chunks != 0)
            & (settings.chunks <= CONFIG.max_chunks)
            & (settings.epochs != 0)
            & (block.model_out[0][: CHUNK_MODEL_BYTES.bit_length() - 1] == 0)
            & (block.trace[: CONFIG.record_bytes.bit_length() - 1] == 0),
        )
    )
    state = {name: inside.state(name) for name in STATES}
    checked = block.busy & inside["was_busy"]  # from the second cycle of a run on
    valid_run = ~(checked & refused)
    returns = state["IDLE"] & ~harness.past(state["IDLE"], init=1)
    begins_epoch = state["RUN"] & ~harness.past(state["RUN"])
    running = Cat(state[name] for name in STATES[2:-1]).any()
    harness.always(
        Cat(state.values()).any(),
        block.busy == ~state["IDLE"],
        block.clear == (harness.past(block.start & state["IDLE"] & ~block.clear)),
        implies(block.clear, state["IDLE"] & harness.past(block.start)),
        implies(returns, harness.past(block.reads.idle & block.writes.idle)),
        implies(state["CHECK"] & ~harness.past(state["CHECK"]), harness.past(block.clear)),
        inside["stopping"] == (block.error != ErrorCode.NONE),
        implies(running, checked),
        implies(running & ~valid_run, state["RUN"] & (block.error != ErrorCode.NONE)),
        implies(inside["loaded"], ~state["IDLE"] & ~state["CHECK"]),
        implies(running & ~begins_epoch, inside["last_epoch"] == (block.epoch == block.settings.epochs - 1)),
        implies(block.run.enable, valid_run & (running | (state["DRAIN"] & (block.error == ErrorCode.NONE)))),
    )
    harness.settled(inside["last_chunk"], block.settings.chunks - 1)
    harness.assume(
        implies(harness.past(checked) & block.busy, refused == harness.past(refused)),  # the registers are constant
        implies(state["CHECK"] & ~inside["was_busy"], ~block.sizes_done),  # the sizes take two cycles
        implies(begins_epoch, ~block.run.epoch_done),  # an epoch takes more than one cycle
    )
    return state, valid_run


def control_ports(harness: ProofHarness) -> None:
    """Each request finds all writers ready, so that all take it at once; each port has its part of a model.

    Assumed: what `requests.ready` says of several writers together. A writer that is ready stays so until a request is
    taken, and writers without an open burst are ready.
    """
    state, valid_run = _control(harness)
    block, requests = harness.block, harness.block.run.requests
    sent = taken(requests)
    harness.hold(block.model_out[1])
    harness.assume(
        implies(harness.past(requests.ready, init=1) & ~harness.past(sent), requests.ready),
        implies(block.writes.idle, requests.ready),
    )
    chunks = harness.count(sent & state["STORE"], bits=len(block.model_out[0]), clear=state["CHECK"] & block.run.load)
    busy = ~(state["IDLE"] | state["CHECK"] | state["DRAIN"]) & valid_run
    harness.always(
        implies(requests.valid, requests.ready),
        implies(sent & state["STORE"], block.run.storing),
        implies(sent & state["RECORD"], ~block.run.storing),
        # invariants
        *(implies(state[name], requests.ready) for name in STATES if name not in ("STORED", "RECORDED", "DRAIN")),
        *(
            implies(busy, inside == (first + chunks * PORTED.chunk_bytes)[: len(first)])
            for inside, first in (
                (harness.inside["model_address"], block.model_out[0]),
                (harness.inside["model_address_1"], block.model_out[1]),
            )
        ),
        implies(
            state["STORE"] & valid_run,
            requests.payload.addresses.word_select(1, CONFIG.address_bits) == harness.inside["model_address_1"],
        ),
    )
    harness.cover(sent & state["STORE"] & (chunks == 1))


def _requests(harness: ProofHarness, state: dict[str, Any], valid_run: ValueLike) -> None:
    """Assert that all requests are legal, in any order of events."""
    block, inside = harness.block, harness.inside
    requests = block.run.requests
    request = requests.payload
    model, trace = inside["model_address"], inside["trace_address"]
    before = state["CHECK"] | state["IDLE"] | state["DRAIN"] | ~valid_run
    harness.always(
        stable(harness, requests),
        implies(
            requests.valid,
            (request.beats != 0)
            & (request.beats <= BURST_BEATS)
            & inside_page(request.addresses, request.beats - 1, CONFIG.beat_bytes)
            & (request.addresses[: CONFIG.beat_bytes.bit_length() - 1] == 0),
        ),
        requests.valid == (state["STORE"] | state["RECORD"]),
        block.run.store_begin == taken(requests),
        # invariants
        before | (model[: CHUNK_MODEL_BYTES.bit_length() - 1] == 0),
        before | (trace[: CONFIG.record_bytes.bit_length() - 1] == 0),
    )


def control(harness: ProofHarness) -> None:
    """Each epoch that stores the models requests each chunk of each model once, and every epoch then its record."""
    state, valid_run = _control(harness)
    _requests(harness, state, valid_run)
    block, inside, settings = harness.block, harness.inside, harness.block.settings
    begins = state["CHECK"] & block.run.load
    model_sent = taken(block.run.requests) & state["STORE"]
    record_sent = taken(block.run.requests) & state["RECORD"]
    # Chunks stored in this epoch, chunks stored in the run, and records.
    passed = harness.count(model_sent, bits=8, clear=begins | record_sent)
    chunks = harness.count(model_sent, bits=len(block.model_out[0]), clear=begins)
    records = harness.count(record_sent, bits=16, clear=begins)
    chunk = Mux(state["STORED"], passed - 1, passed)[: len(passed)]
    storing = state["STORE"] | state["STORED"]
    busy = ~(state["IDLE"] | state["CHECK"] | state["DRAIN"]) & valid_run
    all_chunks = (settings.chunks * CONFIG.outputs)[: len(passed)]
    address = (block.model_out[0] + chunks * CHUNK_MODEL_BYTES)[: len(block.model_out[0])]
    position = (block.run.store_output * settings.chunks + block.run.store_chunk)[: len(passed)]
    harness.always(
        implies(state["STORE"], block.run.requests.payload.addresses == address),
        implies(storing, block.run.storing & (chunk == position)),
        implies(
            state["RECORD"],
            block.run.store_trace
            & (passed == Mux(block.snapshots | (block.epoch == settings.epochs - 1), all_chunks, 0)),
        ),
        implies(
            state["RECORD"],
            block.run.requests.payload.addresses == (block.trace + records * CONFIG.record_bytes)[: len(block.trace)],
        ),
        implies(block.run.epoch_go, records == (block.epoch + 1)[:16]),
        implies(state["DRAIN"] & (block.error == ErrorCode.NONE), records == settings.epochs),
        # invariants
        implies(busy, inside["model_address"] == address),
        implies(busy, inside["trace_address"] == (block.trace + records * CONFIG.record_bytes)[: len(block.trace)]),
        implies(state["CHECK"], block.epoch == 0),
        implies(busy, block.epoch < settings.epochs),
        implies(busy, records == (block.epoch + (state["RECORDED"] | state["NEXT"]))[:16]),
        implies(storing, (block.run.store_chunk < settings.chunks) & (block.run.store_output < CONFIG.outputs)),
        implies(~storing & ~state["DRAIN"], (block.run.store_chunk == 0) & (block.run.store_output == 0)),
        implies(storing, block.snapshots | (block.epoch == settings.epochs - 1)),
        implies(state["RUN"] | state["RECORDED"] | state["NEXT"], passed == 0),
    )
    harness.cover(state["RECORD"] & (block.run.store_output == 0) & harness.ever(block.run.store_output == 1))
    harness.cover(block.done & (block.error == ErrorCode.NONE) & harness.ever(taken(block.run.requests)))


def control_live(harness: ProofHarness) -> None:
    """A run that must stop ends soon; any other run proceeds as its engine and its memory do.

    Assumed: within FAIR cycles the region sizes are valid, an epoch ends, the writer is ready, and the ports are idle.
    """
    state, _ = _control(harness)
    block = harness.block
    waits = {
        "CHECK": ~block.sizes_done,
        "RUN": ~block.run.epoch_done,
        "STORE": ~block.run.requests.ready,
        "STORED": ~block.run.requests.ready,
        "RECORD": ~block.run.requests.ready,
        "RECORDED": ~block.run.requests.ready,
        "DRAIN": ~(block.reads.idle & block.writes.idle),
    }
    waited = {name: harness.within(state[name] & condition, FAIR) for name, condition in waits.items()}
    stopping = block.busy & (block.error != ErrorCode.NONE)
    stopped_for = harness.waiting(stopping)
    # After an error: the rest of the state, at most two more states that wait for the writer, RUN, and DRAIN.
    harness.always(
        implies(stopping, stopped_for <= 4 * FAIR),
        implies(stopping & state["STORE"], stopped_for <= waited["STORE"]),
        implies(stopping & state["RECORD"], stopped_for <= waited["RECORD"]),
        implies(stopping & state["STORED"], stopped_for <= FAIR + waited["STORED"]),
        implies(stopping & state["RECORDED"], stopped_for <= FAIR + waited["RECORDED"]),
        implies(stopping & state["NEXT"], stopped_for <= 1),
        implies(stopping & state["RUN"], stopped_for <= 2),
        implies(stopping & state["CHECK"], stopped_for <= 1),
        implies(stopping & state["DRAIN"], stopped_for <= 2 * FAIR + 1 + waited["DRAIN"]),
    )
    harness.cover(harness.ever(stopped_for == FAIR) & block.done)


PROOFS = (
    Proof(
        "control",
        "legal requests: each chunk of each model, then the record, at their addresses",
        lambda: Control(CONFIG),
        control,
        20,
    ),
    Proof(
        "control_ports",
        "with two ports: all writers take a request at once, each at its own address",
        lambda: Control(PORTED),
        control_ports,
        20,
    ),
    Proof(
        "control_live",
        "a run that must stop ends after one burst and the draining",
        lambda: Control(CONFIG),
        control_live,
        20,
    ),
)

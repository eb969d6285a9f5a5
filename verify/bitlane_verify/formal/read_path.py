"""Proofs of the read path: the FIFOs, and the AXI reads of the reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ValueLike
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane_hw.memory.reader import Reader

from .address_generator import valid_run
from .burst_generator import Requests, requests
from .harness import Inside, ProofHarness, implies, same
from .proof import CONFIG, FAIR, Proof
from .protocol import InFlight, read_master, stable, taken


class BufferedFifo(wiring.Component):  # type: ignore[misc]
    """The FIFO of the reader and of the row buffer, with streams."""

    def __init__(self, width: int, depth: int):
        self._fifo = fifo.SyncFIFOBuffered(width=width, depth=depth)
        super().__init__({"input": In(stream.Signature(width)), "output": Out(stream.Signature(width))})

    def elaborate(self, platform: object) -> Module:
        """Connect the FIFO to the streams."""
        m = Module()
        m.submodules.fifo = self._fifo
        wiring.connect(m, wiring.flipped(self.input), self._fifo.w_stream)
        wiring.connect(m, self._fifo.r_stream, wiring.flipped(self.output))
        return m


def fifo_level(harness: ProofHarness, inside: Inside) -> Any:
    """Return the number of payloads in a buffered FIFO.

    Asserted: the FIFO has room for `depth` payloads, and a payload reaches the output in the next cycle.
    """
    block = inside.component
    slots = block.depth - 1  # in the memory; the output register holds one more
    held = inside["inner_level"]
    put = block.w_en & block.w_rdy
    harness.always(held <= slots, block.r_rdy | ((held <= 1) & (harness.past(put) == held)))
    return held + block.r_rdy


def buffer(harness: ProofHarness) -> None:
    """The payloads leave in order, none is lost, none is repeated."""
    block, inside = harness.block, harness.inside["fifo"]
    put, got = block.input, block.output
    level = fifo_level(harness, inside)
    slots = inside.component.depth - 1
    held, produce, consume = inside["inner_level"], inside["produce"], inside["consume"]
    puts = harness.count(taken(put))
    gets = harness.count(taken(got))
    number = harness.constant(len(puts), "number")  # index of an arbitrary payload
    expected = harness.ghost(len(put.payload), "expected")
    with harness.m.If(taken(put) & (puts == number)):
        harness.m.d.sync += expected.eq(put.payload)

    def wrapped(slot: ValueLike) -> Any:
        return Mux(slot >= slots, slot - slots, slot)[: len(consume)]

    before = (number - gets)[: len(puts)]  # payloads that leave before that one
    is_in = before < (puts - gets)[: len(puts)]
    at_output = (before == 0) & got.valid
    stored = inside["storage"].peek(wrapped(consume + (before - got.valid)[: len(consume)]), len(put.payload))
    harness.always(
        stable(harness, got),
        implies(taken(got) & (gets == number), same(got.payload, expected)),
        put.ready | (level == slots + 1),
        got.valid | (level <= 1),
        # invariants
        (puts - gets)[: len(puts)] == level,
        (produce < slots) & (consume < slots) & (produce == wrapped(consume + held)),
        implies(is_in & at_output, same(got.payload, expected)),
        implies(is_in & ~at_output, same(stored, expected)),
    )
    harness.cover(taken(got) & (gets == number) & (number == 3) & (level == 4))


@dataclass(frozen=True)
class ReaderState:
    """Internals of a reader.

    Attributes
    ----------
    bursts : Requests
        Requests of its burst generator.
    in_flight : InFlight
        Outstanding reads of its port.
    levels : list
        Payloads in each of its FIFOs.
    pending : Value
        Beats of the burst that is offered.
    """

    bursts: Requests
    in_flight: InFlight
    levels: list[Any]
    pending: Any


def reader_rules(harness: ProofHarness) -> ReaderState:
    """Apply the rules of a reader, and assert the relations between its counts.

    Returns
    -------
    ReaderState
        Its internals.
    """
    block, inside = harness.block, harness.inside
    axi = block.axi
    harness.hold(block.model)
    valid_run(harness, block.settings)
    generator = inside["burst_generator"]
    requested = requests(harness, generator)
    in_flight = read_master(harness, axi, CONFIG.width)
    burst = generator.component.bursts
    pending = Mux(burst.valid, burst.payload.beats, 0)
    levels = []
    for i, beats in enumerate(block.beats):
        buffered = inside[f"fifo_{i}"]
        level = fifo_level(harness, buffered)
        levels.append(level)
        pending_here = Mux(burst.payload.stream == i, pending, 0)
        harness.always(
            (buffered.component.w_en == (in_flight.answered & (axi.rid == i)))
            & same(buffered.component.w_data, axi.rdata),
            implies(buffered.component.w_en, buffered.component.w_rdy),
            same(beats.payload, buffered.component.r_data) & (beats.valid == buffered.component.r_rdy),
            requested.outstanding[i] == in_flight.beats[i] + level + pending_here,
        )
    open_bursts = in_flight.bursts[0] + in_flight.bursts[1]
    answer = harness.past(in_flight.answered & (axi.rresp != 0))
    harness.always(
        inside["outstanding"] == open_bursts,
        block.idle == (~axi.arvalid & (in_flight.beats[0] == 0) & (in_flight.beats[1] == 0)),
        block.accepted == in_flight.answered,
        block.response == Mux(answer, harness.past(axi.rresp), harness.past(block.response)),
    )
    return ReaderState(requested, in_flight, levels, pending)


def reader(harness: ProofHarness) -> None:
    """Bursts are legal; there is room for every beat; the beats of each stream arrive in order."""
    state = reader_rules(harness)
    block = harness.block
    harness.cover(taken(block.beats[0]) & (state.levels[0] == 3))
    harness.cover(harness.ever(block.response != 0) & block.idle & harness.ever(block.axi.rvalid))
    harness.cover(block.axi.rvalid & ~block.accepted)  # an answer to a burst from before a reset


def reader_live(harness: ProofHarness) -> None:
    """A beat that the consumer waits for arrives.

    Assumed: the memory accepts a burst within FAIR cycles and, while beats are outstanding, sends one every FAIR
    cycles. The consumer waits for one stream at a time, for a beat that a token has named, until it arrives.
    """
    state = reader_rules(harness)
    block = harness.block
    wants = harness.anything(2, "wants")
    wanted_before = harness.past(wants)
    any_taken = Cat(taken(beats) for beats in block.beats).any()
    harness.assume(
        *(beats.ready == (wants[i] & beats.valid) for i, beats in enumerate(block.beats)),
        ~wants.all(),
        implies(wanted_before.any() & ~harness.past(any_taken), wants == wanted_before),
        *(implies(wants[i], state.bursts.named[i] != 0) for i in (0, 1)),
    )
    axi = block.axi
    in_flight_beats = state.in_flight.beats[0] + state.in_flight.beats[1]
    refused_for = harness.within(axi.arvalid & ~axi.arready, FAIR)
    silent_for = harness.within((in_flight_beats != 0) & ~axi.rvalid, FAIR)
    waits = Cat(wants[i] & ~beats.valid for i, beats in enumerate(block.beats)).any()
    here = Cat(wants[i] & (state.levels[i] != 0) for i in (0, 1)).any()
    waited = harness.waiting(waits)
    most = 2 * CONFIG.fifo_beats
    arrived = state.levels[0] + state.levels[1]  # beats that cannot come first any more
    since = arrived * 2 * FAIR
    harness.always(
        *(named <= CONFIG.fifo_beats for named in state.bursts.named),
        implies(waits, waited <= most * 2 * FAIR),
        # invariants: a beat arrives every 2 * FAIR cycles; all beats that can arrive are requested or have room
        implies(waits & ~here & (in_flight_beats == 0), waited <= since + refused_for),
        implies(waits & ~here & (in_flight_beats != 0), waited <= since + FAIR + silent_for),
        implies(waits & here, waited <= since),
    )
    harness.cover(waited == FAIR)


PROOFS = (
    Proof(
        "fifo",
        "FIFO of the reader and of the row buffer: in order, nothing lost, not full too early",
        lambda: BufferedFifo(8, 16),
        buffer,
        covers=10,
    ),
    Proof(
        "reader",
        "AXI4 reads: within 4 KiB, 1 to 16 beats, stable, room for all data; both streams in order",
        lambda: Reader(CONFIG),
        reader,
        covers=12,
    ),
    Proof(
        "reader_live",
        "with a fair memory every beat that a token has named arrives",
        lambda: Reader(CONFIG),
        reader_live,
        covers=12,
    ),
)

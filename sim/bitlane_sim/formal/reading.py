"""The reader: AXI reads, and the order of the beats behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Module, Mux
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from bitlane_hw.memory.reader import Reader

from .bench import ProofHarness, implies, same
from .bursts import Requested, requests
from .order import valid_run
from .proof import CONFIG, FAIR, Proof
from .rules import Flight, read_master, stable, taken


class Buffer(wiring.Component):  # type: ignore[misc]
    """The FIFO of the reader and of the rows, with streams."""

    def __init__(self, width: int, depth: int):
        self._fifo = fifo.SyncFIFOBuffered(width=width, depth=depth)
        super().__init__({"put": In(stream.Signature(width)), "got": Out(stream.Signature(width))})

    def elaborate(self, platform: Any) -> Module:
        """The FIFO and two connections."""
        m = Module()
        m.submodules.fifo = self._fifo
        wiring.connect(m, wiring.flipped(self.put), self._fifo.w_stream)
        wiring.connect(m, self._fifo.r_stream, wiring.flipped(self.got))
        return m


def fifo_level(bench: ProofHarness, inside: Any) -> Any:
    """The payloads in a buffered FIFO; proves that there is room for `depth` of them, and what it has is soon there."""
    block = inside.component
    slots = block.depth - 1  # in the memory; one more is at the output
    held = inside["inner_level"]
    put = block.w_en & block.w_rdy
    bench.always(held <= slots, block.r_rdy | ((held <= 1) & (bench.past(put) == held)))
    return held + block.r_rdy


def buffer(bench: ProofHarness) -> None:
    """What comes out is what went in, in order, nothing lost or twice."""
    block, inside = bench.block, bench.inside["fifo"]
    put, got = block.put, block.got
    level = fifo_level(bench, inside)
    slots = inside.component.depth - 1
    held, produce, consume = inside["inner_level"], inside["produce"], inside["consume"]
    puts = bench.count(taken(put))
    gets = bench.count(taken(got))
    number = bench.constant(len(puts), "number")  # of any payload
    kept = bench.ghost(len(put.payload), "kept")
    with bench.m.If(taken(put) & (puts == number)):
        bench.m.d.sync += kept.eq(put.payload)

    def wrapped(place: Any) -> Any:
        return Mux(place >= slots, place - slots, place)[: len(consume)]

    before = (number - gets)[: len(puts)]  # payloads to be taken before that one
    is_in = before < (puts - gets)[: len(puts)]
    at_output = (before == 0) & got.valid
    stored = inside["storage"].peek(wrapped(consume + (before - got.valid)[: len(consume)]), len(put.payload))
    bench.always(
        stable(bench, got),
        implies(taken(got) & (gets == number), same(got.payload, kept)),
        put.ready | (level == slots + 1),
        got.valid | (level <= 1),
        # invariants
        (puts - gets)[: len(puts)] == level,
        (produce < slots) & (consume < slots) & (produce == wrapped(consume + held)),
        implies(is_in & at_output, same(got.payload, kept)),
        implies(is_in & ~at_output, same(stored, kept)),
    )
    bench.cover(taken(got) & (gets == number) & (number == 3) & (level == 4))


@dataclass(frozen=True)
class Read:
    """A reader's insides.

    Attributes
    ----------
    requested, flight: of its requester, of its port. levels: of its FIFOs. pending: beats of the burst that is offered.
    """

    requested: Requested
    flight: Flight
    levels: list[Any]
    pending: Any


def read(bench: ProofHarness) -> Read:
    """The rules of a reader, and how its counts hang together."""
    block, inside = bench.block, bench.inside
    axi = block.axi
    bench.hold(block.model)
    valid_run(bench, block.settings)
    requester = inside["requester"]
    requested = requests(bench, requester)
    flight = read_master(bench, axi, CONFIG.width)
    burst = requester.component.bursts
    pending = Mux(burst.valid, burst.payload.beats, 0)
    levels = []
    for i, beats in enumerate(block.beats):
        buffered = inside[f"fifo_{i}"]
        level = fifo_level(bench, buffered)
        levels.append(level)
        mine = Mux(burst.payload.stream == i, pending, 0)
        bench.always(
            (buffered.component.w_en == (axi.rvalid & (axi.rid == i))) & same(buffered.component.w_data, axi.rdata),
            implies(buffered.component.w_en, buffered.component.w_rdy),
            same(beats.payload, buffered.component.r_data) & (beats.valid == buffered.component.r_rdy),
            requested.owed[i] == flight.beats[i] + level + mine,
        )
    in_flight = flight.bursts[0] + flight.bursts[1]
    answer = bench.past(axi.rvalid & (axi.rresp != 0))
    bench.always(
        inside["outstanding"] == in_flight,
        block.idle == (~axi.arvalid & (flight.beats[0] == 0) & (flight.beats[1] == 0)),
        block.accepted == axi.rvalid,
        block.response == Mux(answer, bench.past(axi.rresp), bench.past(block.response)),
    )
    return Read(requested, flight, levels, pending)


def reader(bench: ProofHarness) -> None:
    """Legal bursts; room for every beat that comes; the beats of each stream in their order."""
    state = read(bench)
    block = bench.block
    bench.cover(taken(block.beats[0]) & (state.levels[0] == 3))
    bench.cover(bench.ever(block.response != 0) & block.idle & bench.ever(block.axi.rvalid))


def reader_live(bench: ProofHarness) -> None:
    """A beat that the consumer waits for comes.

    Assumed: the memory takes a burst within FAIR cycles and, while it owes beats, sends one every FAIR; the consumer
    waits for one stream at a time, for a beat that a token has named, until it has it.
    """
    state = read(bench)
    block = bench.block
    wants = bench.anything(2, "wants")
    wanted_before = bench.past(wants)
    any_taken = Cat(taken(beats) for beats in block.beats).any()
    bench.assume(
        *(beats.ready == (wants[i] & beats.valid) for i, beats in enumerate(block.beats)),
        ~wants.all(),
        implies(wanted_before.any() & ~bench.past(any_taken), wants == wanted_before),
        *(implies(wants[i], state.requested.ahead[i] != 0) for i in (0, 1)),
    )
    axi = block.axi
    flying = state.flight.beats[0] + state.flight.beats[1]
    refused_for = bench.within(axi.arvalid & ~axi.arready, FAIR)
    silent_for = bench.within((flying != 0) & ~axi.rvalid, FAIR)
    waits = Cat(wants[i] & ~beats.valid for i, beats in enumerate(block.beats)).any()
    here = Cat(wants[i] & (state.levels[i] != 0) for i in (0, 1)).any()
    waited = bench.waiting(waits)
    most = 2 * CONFIG.fifo_beats
    gone = state.levels[0] + state.levels[1]  # beats that cannot come first any more
    since = gone * 2 * FAIR
    bench.always(
        *(ahead <= CONFIG.fifo_beats for ahead in state.requested.ahead),
        implies(waits, waited <= most * 2 * FAIR),
        # invariants: every 2 * FAIR cycles a beat comes, and all that can come have been asked for or have room
        implies(waits & ~here & (flying == 0), waited <= since + refused_for),
        implies(waits & ~here & (flying != 0), waited <= since + FAIR + silent_for),
        implies(waits & here, waited <= since),
    )
    bench.cover(waited == FAIR)


PROOFS = (
    Proof(
        "fifo",
        "the buffers of the reader and of the rows: in order, nothing lost, full only when full",
        lambda: Buffer(8, 16),
        buffer,
        covers=10,
    ),
    Proof(
        "reader",
        "AXI4 reads: within 4 KiB, 1 to 16 beats, stable, room for all data; its streams in order",
        lambda: Reader(CONFIG),
        reader,
        covers=12,
    ),
    Proof(
        "reader_live",
        "no named beat is waited for longer than a fair memory makes it",
        lambda: Reader(CONFIG),
        reader_live,
        covers=12,
    ),
)

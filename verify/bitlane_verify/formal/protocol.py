"""Protocol rules of streams and AXI ports: assertions about one side, assumptions about the other."""

# The names in an Inside are looked up at run time: what it and an interface hold is Any.
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Mux, Value, ValueLike
from amaranth.lib import stream, wiring

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.memory.axi import INCR, OKAY, full_size

from .harness import ProofHarness, implies, same

PAGE_BYTES = 4096  # no burst crosses a page


def offered(harness: ProofHarness, valid: ValueLike, ready: ValueLike, *payload: ValueLike) -> Any:
    """Return 1 if valid and payload are those of the previous cycle, unless that offer was taken or there was none."""
    raw = Cat(*(Value.cast(member) for member in payload))
    refused = harness.past(Value.cast(valid) & ~Value.cast(ready))
    return implies(refused, Value.cast(valid) & same(raw, harness.past(raw)))


def stable(harness: ProofHarness, channel: stream.Interface) -> Any:
    """Return `offered` of a stream."""
    return offered(harness, channel.valid, channel.ready, channel.payload)


def taken(channel: stream.Interface) -> Any:
    """Return 1 if a payload of a stream is transferred."""
    return channel.valid & channel.ready


def inside_page(address: ValueLike, length: ValueLike, beat_bytes: int) -> Any:
    """Return 1 if a burst of `length + 1` beats from an address stays within a 4 KiB page."""
    offset = address[: PAGE_BYTES.bit_length() - 1] // beat_bytes
    return offset + length < PAGE_BYTES // beat_bytes


def address_legal(axi: wiring.PureInterface, prefix: str, width: int) -> Any:
    """Return 1 if an address channel requests 1 to 16 full beats, INCR, within a 4 KiB page."""
    signal = {name: getattr(axi, prefix + name) for name in ("addr", "len", "size", "burst", "valid")}
    beat_bytes = width // 8
    legal = (
        (signal["len"] < BURST_BEATS)
        & (signal["size"] == full_size(width))
        & (signal["burst"] == INCR)
        & (signal["addr"][: beat_bytes.bit_length() - 1] == 0)
        & inside_page(signal["addr"], signal["len"], beat_bytes)
    )
    return implies(signal["valid"], legal)


def channel(axi: wiring.PureInterface, prefix: str, *names: str) -> tuple[Any, ...]:
    """Return valid, ready and the named signals of a channel, as arguments of `offered`."""
    return tuple(getattr(axi, prefix + name) for name in ("valid", "ready", *names))


@dataclass(frozen=True)
class InFlight:
    """Outstanding reads, for each ID.

    Attributes
    ----------
    beats : list
        Beats requested and not received.
    bursts : list
        Bursts requested and not complete.
    answered : Value
        A beat of an outstanding burst arrives.
    """

    beats: list[Any]
    bursts: list[Any]
    answered: Any


def read_master(harness: ProofHarness, axi: wiring.PureInterface, width: int) -> InFlight:
    """Apply the rules of an AXI4 read master.

    Asserted: legal bursts that stay until they are taken; read data is always accepted. Assumed of the memory: while
    bursts are outstanding it answers what was requested and nothing else, with one last beat for each burst and 1 to 16
    beats in a burst. While none is, anything may arrive: `InFlight.answered` leaves it out.
    """
    harness.always(
        offered(harness, *channel(axi, "ar", "id", "addr", "len", "size", "burst")),
        address_legal(axi, "ar", width),
        axi.rready == 1,
    )
    asked, outstanding = axi.arvalid & axi.arready, harness.ghost(1, "outstanding")
    answered = axi.rvalid & axi.rready & outstanding
    flight = InFlight([], [], answered)
    for i in (0, 1):
        selected = answered & (axi.rid == i)
        beats = harness.count(Mux(asked & (axi.arid == i), axi.arlen + 1, 0), selected)
        bursts = harness.count(asked & (axi.arid == i), selected & axi.rlast)
        beats_left, bursts_left = (beats - 1)[:16], (bursts - axi.rlast)[:16]
        harness.assume(
            implies(
                selected,
                (beats != 0) & (bursts != 0) & (bursts_left <= beats_left) & (beats_left <= bursts_left * BURST_BEATS),
            )
        )
        harness.always(bursts <= beats, beats <= bursts * BURST_BEATS)
        flight.beats.append(beats)
        flight.bursts.append(bursts)
    harness.m.d.comb += outstanding.eq((flight.bursts[0] != 0) | (flight.bursts[1] != 0))
    return flight


@dataclass(frozen=True)
class WriteState:
    """Writes of a master that begins a burst after the address and all beats of the previous one.

    Attributes
    ----------
    ahead : Value
        1: the address of the current burst was taken, and not its last beat. -1: the other way round. Else 0.
    balance : Signal
        Beats of all addresses that were taken, minus beats that were taken, modulo 256.
    complete : Signal
        Bursts whose address and beats were taken and that are not answered.
    """

    ahead: Any
    balance: Any
    complete: Any


def write_order(harness: ProofHarness, axi: wiring.PureInterface, clear: ValueLike = 0) -> tuple[WriteState, list[Any]]:
    """Follow the addresses and the beats of a write master, which are taken in any order, since the last `clear`.

    Returns
    -------
    tuple
        The counts, and the rules of the master: an address is offered after all beats of the previous burst, a beat
        together with its address or after it, and as many beats as the address says, the last one marked.
    """
    asked, written = axi.awvalid & axi.awready, axi.wvalid & axi.wready
    ended = written & axi.wlast
    ahead = harness.count(asked, ended, bits=2, clear=clear).as_signed()
    balance = harness.count(Mux(asked, axi.awlen + 1, 0), written, bits=8, clear=clear)
    now_complete = Mux(ahead == 1, ended, Mux(ahead == -1, asked, asked & ended))
    complete = harness.count(now_complete, axi.bvalid & axi.bready, clear=clear)
    left = Mux(ahead == 1, balance, (balance + axi.awlen + 1)[:8])
    rules = [
        (ahead >= -1) & (ahead <= 1),
        implies(axi.wvalid, (ahead == 1) | ((ahead == 0) & axi.awvalid)),
        implies(axi.wvalid, (left != 0) & (left <= BURST_BEATS) & (axi.wlast == (left == 1))),
        implies(axi.awvalid, ahead != 1),
        implies(ahead == 1, (balance != 0) & (balance <= BURST_BEATS)),
        implies(ahead == -1, axi.awvalid & (left == 0)),
        implies((ahead == 0) & ~axi.awvalid, balance == 0),
        implies((ahead == 0) & axi.awvalid, (left != 0) & (left <= axi.awlen + 1)),
    ]
    return WriteState(ahead, balance, complete), rules


def write_master(harness: ProofHarness, axi: wiring.PureInterface, width: int) -> WriteState:
    """Apply the rules of an AXI4 write master: no valid signal waits for a ready signal of its burst.

    Asserted: legal bursts; everything stays until it is taken; the rules of `write_order`; all bytes of a beat are
    written; responses are always accepted. Assumed of the memory: one response for each burst whose address and beats
    it has taken, in any order, and no other.
    """
    state, rules = write_order(harness, axi)
    harness.always(
        offered(harness, *channel(axi, "aw", "id", "addr", "len", "size", "burst")),
        address_legal(axi, "aw", width),
        offered(harness, *channel(axi, "w", "data", "strb", "last")),
        implies(axi.wvalid, axi.wstrb.all()),
        axi.bready == 1,
        *rules,
    )
    harness.assume(implies(axi.bvalid, state.complete != 0))
    return state


def lite_slave(harness: ProofHarness, bus: wiring.PureInterface) -> tuple[Any, Any]:
    """Apply the rules of an AXI4-Lite slave.

    Asserted: a response for each transfer and no other; it stays until it is taken; it is OKAY. Assumed of the master:
    an offer stays until it is taken.

    Returns
    -------
    tuple
        Outstanding responses to the addresses and to the data of writes; outstanding responses to reads.
    """
    for prefix, names in (("aw", ("addr",)), ("w", ("data", "strb")), ("ar", ("addr",))):
        harness.assume(offered(harness, *channel(bus, prefix, *names)))
    harness.always(
        offered(harness, *channel(bus, "b", "resp")),
        offered(harness, *channel(bus, "r", "data", "resp")),
        implies(bus.bvalid, bus.bresp == OKAY),
        implies(bus.rvalid, bus.rresp == OKAY),
    )
    answers = bus.bvalid & bus.bready
    addresses = harness.count(bus.awvalid & bus.awready, answers)
    data = harness.count(bus.wvalid & bus.wready, answers)
    reads = harness.count(bus.arvalid & bus.arready, bus.rvalid & bus.rready)
    harness.always(
        implies(bus.bvalid, (addresses != 0) & (data != 0)),
        implies(bus.rvalid, reads != 0),
    )
    return (addresses, data), reads

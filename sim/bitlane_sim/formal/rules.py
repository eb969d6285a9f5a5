"""What every stream and every AXI port must keep to: assertions about one side, assumptions about the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Mux, Value

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.memory.axi import INCR, OKAY, full_size

from .bench import ProofHarness, implies, same

PAGE_BYTES = 4096  # no burst crosses a multiple of it


def offered(bench: ProofHarness, valid: Any, ready: Any, *payload: Any) -> Any:
    """1 where valid and payload are as the cycle before, or that offer was taken, or there was none."""
    raw = Cat(*(Value.cast(part) for part in payload))
    refused = bench.past(Value.cast(valid) & ~Value.cast(ready))
    return implies(refused, Value.cast(valid) & same(raw, bench.past(raw)))


def stable(bench: ProofHarness, channel: Any) -> Any:
    """`offered` for a stream."""
    return offered(bench, channel.valid, channel.ready, channel.payload)


def taken(channel: Any) -> Any:
    """1 where a stream's payload changes hands."""
    return channel.valid & channel.ready


def inside_page(address: Any, length: Any, beat_bytes: int) -> Any:
    """1 where a burst of `length + 1` beats from an address stays within its 4 KiB."""
    place = address[: PAGE_BYTES.bit_length() - 1] // beat_bytes
    return place + length < PAGE_BYTES // beat_bytes


def address_legal(axi: Any, prefix: str, width: int) -> Any:
    """1 where an address channel asks for 1 to 16 whole beats, in order, within 4 KiB."""
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


def channel(axi: Any, prefix: str, *names: str) -> tuple[Any, ...]:
    """valid, ready and some signals of a channel, as `offered` takes them."""
    return tuple(getattr(axi, prefix + name) for name in ("valid", "ready", *names))


@dataclass(frozen=True)
class Flight:
    """What a memory owes: for each ID, the beats and the bursts that were asked for and not answered yet."""

    beats: list[Any]
    bursts: list[Any]


def read_master(bench: ProofHarness, axi: Any, width: int) -> Flight:
    """AXI4 reads. Proved: legal bursts, offered until taken; data is always accepted.

    Assumed of the memory: it answers what was asked and no more, as many last beats as bursts, none of them empty or
    longer than 16 beats.
    """
    bench.always(
        offered(bench, *channel(axi, "ar", "id", "addr", "len", "size", "burst")),
        address_legal(axi, "ar", width),
        axi.rready == 1,
    )
    asked, answered = axi.arvalid & axi.arready, axi.rvalid & axi.rready
    flight = Flight([], [])
    for i in (0, 1):
        mine = answered & (axi.rid == i)
        beats = bench.count(Mux(asked & (axi.arid == i), axi.arlen + 1, 0), mine)
        bursts = bench.count(asked & (axi.arid == i), mine & axi.rlast)
        beats_left, bursts_left = (beats - 1)[:16], (bursts - axi.rlast)[:16]
        bench.assume(
            implies(
                mine,
                (beats != 0) & (bursts != 0) & (bursts_left <= beats_left) & (beats_left <= bursts_left * BURST_BEATS),
            )
        )
        bench.always(bursts <= beats, beats <= bursts * BURST_BEATS)
        flight.beats.append(beats)
        flight.bursts.append(bursts)
    return flight


@dataclass(frozen=True)
class Writes:
    """What is under way at a write port.

    Attributes
    ----------
    left: beats of the burst whose address is gone that have not followed.
    complete: bursts that are wholly gone and not answered.
    """

    left: Any
    complete: Any


def write_master(bench: ProofHarness, axi: Any, width: int) -> Writes:
    """AXI4 writes, data after its address. Proved: legal bursts, everything offered until taken, as many beats as the
    address said and the last one marked; all of a beat written; responses always accepted.

    Assumed of the memory: a response for each burst that it has wholly, and no other.
    """
    bench.always(
        offered(bench, *channel(axi, "aw", "id", "addr", "len", "size", "burst")),
        address_legal(axi, "aw", width),
        offered(bench, *channel(axi, "w", "data", "strb", "last")),
        implies(axi.wvalid, axi.wstrb.all()),
        axi.bready == 1,
    )
    asked, written = axi.awvalid & axi.awready, axi.wvalid & axi.wready
    left = bench.count(Mux(asked, axi.awlen + 1, 0), written, bits=8)
    complete = bench.count(written & axi.wlast, axi.bvalid & axi.bready)
    bench.always(
        implies(axi.wvalid, (left != 0) & (axi.wlast == (left == 1))),
        implies(axi.awvalid, left == 0),
        left <= BURST_BEATS,
    )
    bench.assume(implies(axi.bvalid, complete != 0))
    return Writes(left, complete)


def lite_slave(bench: ProofHarness, bus: Any) -> tuple[Any, Any]:
    """AXI4-Lite. Proved: a response for each transfer and none without, offered until taken, always OKAY.

    Assumed of the master: what it offers stays until it is taken. Returns the responses owed to writes and to reads.
    """
    for prefix, names in (("aw", ("addr",)), ("w", ("data", "strb")), ("ar", ("addr",))):
        bench.assume(offered(bench, *channel(bus, prefix, *names)))
    bench.always(
        offered(bench, *channel(bus, "b", "resp")),
        offered(bench, *channel(bus, "r", "data", "resp")),
        implies(bus.bvalid, bus.bresp == OKAY),
        implies(bus.rvalid, bus.rresp == OKAY),
    )
    answers = bus.bvalid & bus.bready
    addresses = bench.count(bus.awvalid & bus.awready, answers)
    data = bench.count(bus.wvalid & bus.wready, answers)
    reads = bench.count(bus.arvalid & bus.arready, bus.rvalid & bus.rready)
    bench.always(
        implies(bus.bvalid, (addresses != 0) & (data != 0)),
        implies(bus.rvalid, reads != 0),
    )
    return (addresses, data), reads

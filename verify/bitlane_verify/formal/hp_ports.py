"""Proofs of the memory ports: HP ports of a Zynq-7000 and a Zynq UltraScale+, and the blocks that connect to them."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Value, ValueLike
from amaranth.lib import data, wiring

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.memory.axi import INCR, full_size
from bitlane_hw.zynq.axi3 import BUFFERABLE, HP_DATA_BITS
from bitlane_hw.zynq.downsizer import BeatDownsizer, BurstDownsizer
from bitlane_hw.zynq.hp_port import ULTRASCALE_DATA_BITS, ZYNQ_7000, HpPort
from bitlane_hw.zynq.memory_port import MemoryPort
from bitlane_hw.zynq.port_pair import PortPair
from bitlane_hw.zynq.register_slice import RegisterSlice
from bitlane_hw.zynq.upsizer import BurstUpsizer, WordUpsizer

from .harness import Inside, ProofHarness, implies, same
from .proof import FAIR, Proof
from .protocol import channel, inside_page, offered, stable, taken, write_order

WORD_BYTES = HP_DATA_BITS // 8
PAIR_BYTES = 2 * WORD_BYTES


def register_slice(harness: ProofHarness) -> None:
    """Payloads leave in order; there is room for two; the outputs on both sides are registers."""
    block, inside = harness.block, harness.inside
    source, sink = block.input, block.output
    spare, is_spare = inside["spare"], inside["is_spare"]
    puts, gets = harness.count(taken(source)), harness.count(taken(sink))
    number = harness.constant(len(puts), "number")  # index of an arbitrary payload
    expected = harness.ghost(len(source.payload), "expected")
    with harness.m.If(taken(source) & (puts == number)):
        harness.m.d.sync += expected.eq(source.payload)
    level = sink.valid + is_spare
    before = (number - gets)[: len(puts)]
    harness.always(
        stable(harness, sink),
        implies(taken(sink) & (gets == number), same(sink.payload, expected)),
        source.ready | (level == 2),
        sink.valid | (level == 0),
        # invariants
        (puts - gets)[: len(puts)] == level,
        implies((before == 0) & sink.valid, same(sink.payload, expected)),
        implies((before == 1) & is_spare, same(spare, expected)),
    )
    harness.cover(taken(sink) & (gets == number) & (number == 3) & (level == 2))


def burst_downsizer(harness: ProofHarness) -> None:
    """Two legal bursts of words for each burst of L wide beats; each is offered until it is taken, and once."""
    block, inside = harness.block, harness.inside
    bursts, first, second, order = block.bursts, block.first, block.second, block.order
    burst, left, right = bursts.payload, first.payload, second.payload
    harness.assume(stable(harness, bursts), implies(bursts.valid, _is_legal(burst.addr, burst.len, PAIR_BYTES)))
    pairs = burst.len + 1
    words = (left.len + 1, right.len + 1)
    is_one = pairs == 1
    outputs = (first, second, order)
    harness.always(
        *(stable(harness, output) for output in outputs),
        *(implies(output.valid, bursts.valid) for output in outputs),
        implies(second.valid, ~is_one),
        implies(first.valid, _is_legal(left.addr, left.len, WORD_BYTES) & (left.addr == burst.addr)),
        implies(second.valid, _is_legal(right.addr, right.len, WORD_BYTES)),
        implies(second.valid, right.addr == left.addr + words[0] * WORD_BYTES),
        implies(bursts.valid, words[0] + Mux(is_one, 0, words[1]) == 2 * pairs),
        implies(bursts.valid & ~is_one, (words[0] == words[1]) | (words[0] == words[1] + 2)),
        implies(order.valid, (order.payload.len == burst.len) & (order.payload.id == burst.id)),
    )
    waits = [harness.within(output.valid & ~output.ready, FAIR) for output in outputs]
    for i, (output, needed) in enumerate(zip(outputs, (1, ~is_one, 1), strict=True)):
        due = harness.count(taken(bursts) & needed, taken(output), bits=2)  # -1: taken before the burst
        harness.always(
            implies(inside["taken"][i] & needed, due == 3),
            implies(~inside["taken"][i], due == 0),
            implies(~bursts.valid, ~inside["taken"][i]),
            implies(needed == 0, due == 0),
        )
    refused = harness.waiting(bursts.valid & ~bursts.ready)
    harness.always(
        refused < FAIR,
        *(
            implies(output.valid & ~output.ready, refused == waited)
            for output, waited in zip(outputs, waits, strict=True)
        ),
        implies(bursts.valid & ~Cat(*(output.valid & ~output.ready for output in outputs)).any(), bursts.ready),
    )
    harness.cover(taken(bursts) & (burst.len == 6) & inside["taken"][1] & ~inside["taken"][0])


def _is_legal(address: ValueLike, length: ValueLike, beat_bytes: int) -> Any:
    """Return 1 if a burst is aligned and stays within a page."""
    return (address[: beat_bytes.bit_length() - 1] == 0) & inside_page(address, length, beat_bytes)


def beat_downsizer(harness: ProofHarness) -> None:
    """The low word, then the high one; only the high word may be the last one."""
    block = harness.block
    beats, words = block.beats, block.words
    harness.assume(stable(harness, beats))
    is_high = harness.ghost(1, "is_high")
    with harness.m.If(taken(words)):
        harness.m.d.sync += is_high.eq(~is_high)
    harness.always(
        stable(harness, words),
        taken(beats) == (taken(words) & is_high),
        words.valid == beats.valid,
        same(words.payload.data, beats.payload.data.word_select(is_high, HP_DATA_BITS)),
        same(words.payload.strb, beats.payload.strb.word_select(is_high, WORD_BYTES)),
        words.payload.last == (beats.payload.last & is_high),
        harness.inside["high"] == is_high,  # invariant
    )
    harness.cover(taken(words) & words.payload.last)


def word_upsizer(harness: ProofHarness) -> None:
    """Two words make a beat, in order, with the worse response; a word waits only if its beat does."""
    block, inside = harness.block, harness.inside
    words, beats = block.words, block.beats
    harness.assume(stable(harness, words), implies(words.valid, words.payload.resp != 0b01))  # no exclusive accesses
    low = harness.ghost(words.payload.shape(), "low")
    has_low = harness.ghost(1, "has_low")
    with harness.m.If(taken(words)):
        harness.m.d.sync += [has_low.eq(~has_low), low.eq(words.payload)]
    worse = Mux(low.resp > words.payload.resp, low.resp, words.payload.resp)
    harness.always(
        stable(harness, beats),
        beats.valid == (words.valid & has_low),
        taken(beats) == (taken(words) & has_low),
        words.ready == (~has_low | beats.ready),
        implies(beats.valid, same(beats.payload.data, Cat(low.data, words.payload.data))),
        implies(beats.valid, beats.payload.resp == worse),
        # invariants
        inside["has_low"] == has_low,
        implies(has_low, same(inside["low"], low) & (low.resp != 0b01)),
    )
    harness.cover(taken(beats) & (beats.payload.resp == 0b11) & (low.resp == 0b10))


def burst_upsizer(harness: ProofHarness) -> None:
    """Beat n of a burst of L comes from the first stream if n < ceil(L / 2), else from the second one."""
    block, inside = harness.block, harness.inside
    bursts, first, second, beats = block.bursts, block.first, block.second, block.beats
    harness.assume(*(stable(harness, each) for each in (bursts, first, second)))
    begun = harness.ghost(1, "begun")
    burst = harness.ghost(bursts.payload.shape(), "burst")
    number = harness.ghost(5, "number")  # index of the next beat
    last = number == burst.len
    with harness.m.If(taken(beats)):
        harness.m.d.sync += number.eq(number + 1)
    with harness.m.If(bursts.ready):
        harness.m.d.sync += [begun.eq(bursts.valid), number.eq(0), burst.eq(bursts.payload)]
    half = (burst.len + 2) >> 1
    is_second = number >= half
    source = Mux(is_second, Cat(second.payload), Cat(first.payload))
    harness.always(
        stable(harness, beats),
        bursts.ready == (~begun | (taken(beats) & last)),
        beats.valid == (begun & Mux(is_second, second.valid, first.valid)),
        taken(first) == (taken(beats) & ~is_second),
        taken(second) == (taken(beats) & is_second),
        implies(beats.valid, same(Cat(beats.payload.data, beats.payload.resp), source)),
        implies(beats.valid, (beats.payload.last == last) & (beats.payload.id == burst.id)),
        # invariants
        inside["in_burst"] == begun,
        implies(
            begun,
            (number <= burst.len)
            & (inside["is_second"] == is_second)
            & (inside["left"] == Mux(is_second, burst.len - number, half - 1 - number)[:3])
            & implies(~is_second, inside["second_beats"] == burst.len + 1 - half)
            & (beats.payload.id == burst.id),
        ),
    )
    harness.cover(taken(beats) & last & (burst.len == 4) & harness.ever(taken(second)) & bursts.valid)


def _hp_master(harness: ProofHarness, hp: wiring.PureInterface, guard: wiring.Component, port: HpPort) -> None:
    """Assert the rules of an HP port: legal bursts of words that stay until they are taken."""
    word_bytes = port.word_bytes
    harness.always(offered(harness, *channel(hp, "ar", "id", "addr", "len")))
    constant = {"size": full_size(port.data_bits), "burst": INCR}
    constant |= {"cache": BUFFERABLE, "lock": 0, "prot": 0, "qos": 0} if port.is_axi3 else {}
    for prefix in ("ar", "aw"):
        harness.always(
            *(getattr(hp, prefix + name) == value for name, value in constant.items()),
            implies(
                getattr(hp, f"{prefix}valid"),
                _is_legal(getattr(hp, f"{prefix}addr"), getattr(hp, f"{prefix}len"), word_bytes)
                & (getattr(hp, f"{prefix}len") < BURST_BEATS),
            ),
        )
    harness.always(
        hp.awid == 0,
        *((hp.wid == 0,) if port.is_axi3 else ()),
        offered(harness, *channel(hp, "aw", "addr", "len")),
        implies(
            guard["offered"], _is_legal(guard["address"], guard["length"], word_bytes) & (guard["length"] < BURST_BEATS)
        ),  # invariant
    )


def _assume_reads(harness: ProofHarness, axi: wiring.PureInterface, beat_bytes: int) -> None:
    """Assume the rules of the reads of the accelerator, which its own proofs assert."""
    harness.assume(
        offered(harness, *channel(axi, "ar", "id", "addr", "len")),
        implies(axi.arvalid, (axi.arlen < BURST_BEATS) & _is_legal(axi.araddr, axi.arlen, beat_bytes)),
    )


def _slice_legal(harness: ProofHarness, inside: Inside, beat_bytes: int) -> None:
    """Assert the invariants that both addresses in a register slice are legal."""
    out, spare = inside.component.output, _spare(inside)
    harness.always(
        implies(out.valid, _is_legal(out.payload.addr, out.payload.len, beat_bytes)),
        implies(inside["is_spare"], out.valid & _is_legal(spare.addr, spare.len, beat_bytes)),
    )


def _spare(inside: Inside) -> Any:
    """Return the spare payload of a register slice."""
    return data.View(inside.component.output.payload.shape(), inside["spare"])


def _check_writes(
    harness: ProofHarness, axi: wiring.PureInterface, hp: wiring.PureInterface, inside: Inside, most: int
) -> None:
    """Assert that writes send as many words as the address says, the last one marked, with all bytes.

    `hp` is the side of the logic of the guard; `port_guard` proves the side of the HP port. The writes of
    the accelerator are assumed to follow the rules of `write_order`, which `writer` asserts.
    """
    word_bytes = hp.wstrb.shape().width
    words = axi.wstrb.shape().width // word_bytes
    state, rules = write_order(harness, axi)
    harness.assume(
        offered(harness, *channel(axi, "aw", "addr", "len")),
        implies(axi.awvalid, (axi.awlen < most) & _is_legal(axi.awaddr, axi.awlen, words * word_bytes)),
        offered(harness, *channel(axi, "w", "data", "strb", "last")),
        implies(axi.wvalid, axi.wstrb.all()),
        *rules,
    )
    out, spare, is_spare = inside.component.output, _spare(inside), inside["is_spare"]
    held = out.valid + is_spare
    high = harness.inside["write_downsizer"]["high"] if words == 2 else 0
    asked, written = hp.awvalid & hp.awready, hp.wvalid & hp.wready
    balance = harness.count(Mux(asked, hp.awlen + 1, 0), written, bits=10)
    ahead = harness.count(asked, written & hp.wlast, bits=4).as_signed()
    newest_is_last = Mux(is_spare, spare.last, out.payload.last)
    at_end = (state.ahead == -1) | ((state.ahead == 0) & (state.balance == 0) & ~Value.cast(high).any())
    harness.always(
        offered(harness, *channel(hp, "w", "data", "strb", "last")),
        implies(hp.wvalid, hp.wstrb.all() & ((ahead > 0) | hp.awvalid)),
        # invariants
        balance == (words * state.balance.as_signed() - high + held)[:10],
        ahead == (state.ahead + (out.valid & out.payload.last) + (is_spare & spare.last)),
        implies(is_spare, out.valid & spare.strb.all()),
        implies(high, axi.wvalid) if words == 2 else 1,
        implies(at_end & out.valid, newest_is_last),
    )


def memory_port(harness: ProofHarness) -> None:
    """Legal 64-bit bursts of the accelerator are legal at the HP port."""
    block, inside = harness.block, harness.inside
    _assume_reads(harness, block.read, WORD_BYTES)
    _hp_master(harness, block.hp0, inside["guard"], ZYNQ_7000)
    _slice_legal(harness, inside["ar"], WORD_BYTES)
    _check_writes(harness, block.write, inside["guard"].component.logic, inside["w"], BURST_BEATS)
    harness.cover(block.hp0.arvalid & (block.hp0.arlen == 15) & inside["ar"]["is_spare"])
    harness.cover(block.hp0.wvalid & block.hp0.wlast & block.hp0.wready & inside["w"]["is_spare"])


def port_pair(harness: ProofHarness) -> None:
    """Legal bursts of the accelerator are legal at both ports, and the second port never writes."""
    block, inside = harness.block, harness.inside
    port = block.port
    _assume_reads(harness, block.read, 2 * port.word_bytes)
    _slice_legal(harness, inside["ar"], 2 * port.word_bytes)
    for i, hp in enumerate((block.hp0, block.hp1)):
        _hp_master(harness, hp, inside[f"guard{i}"], port)
        _slice_legal(harness, inside[f"ar{i}"], port.word_bytes)
        harness.always(hp.arid == 0)
    _check_writes(harness, block.write, inside["guard0"].component.logic, inside["w"], BURST_BEATS // 2)
    harness.always(~block.hp1.awvalid, ~block.hp1.wvalid)
    harness.cover(block.hp1.arvalid & (block.hp1.arlen == 13))
    harness.cover(block.hp0.wvalid & block.hp0.wlast & block.hp0.wready)


PROOFS = (
    Proof(
        "register_slice",
        "each payload once, in order, stable",
        lambda: RegisterSlice(8),
        register_slice,
        12,
    ),
    Proof("burst_downsizer", "two legal halves of each burst, once each, not late", BurstDownsizer, burst_downsizer, 8),
    Proof("beat_downsizer", "two words of each beat, in order, the last one marked", BeatDownsizer, beat_downsizer, 8),
    Proof("word_upsizer", "two words in each beat, in order, with the worse response", WordUpsizer, word_upsizer, 8),
    Proof("burst_upsizer", "the beats of each burst from the right port, in order", BurstUpsizer, burst_upsizer, 12),
    # These contain a guard, whose counts have no reset.
    Proof(
        "memory_port",
        "AXI3 master: legal bursts and data on one 64-bit port",
        MemoryPort,
        memory_port,
        30,
        powered_up=True,
    ),
    Proof(
        "port_pair",
        "AXI3 masters: the same on two ports for 128 bits",
        PortPair,
        port_pair,
        20,
        powered_up=True,
    ),
    Proof(
        "port_pair_axi4",
        "AXI4 masters: the same on two ports for 256 bits",
        lambda: PortPair(HpPort(32, ULTRASCALE_DATA_BITS, is_axi3=False)),
        port_pair,
        20,
        powered_up=True,
    ),
)

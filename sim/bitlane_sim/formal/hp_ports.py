"""The memory behind AXI3: the Zynq-7000's HP ports, and the blocks of which one or two of them become a memory port."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux
from amaranth.lib import data

from bitlane.contract.layout import BURST_BEATS
from bitlane_hw.memory.axi import INCR, full_size
from bitlane_hw.zynq.axi3 import BUFFERABLE, HP_DATA_BITS
from bitlane_hw.zynq.downsizer import BeatDownsizer, BurstDownsizer
from bitlane_hw.zynq.memory_port import MemoryPort
from bitlane_hw.zynq.port_pair import PortPair
from bitlane_hw.zynq.register_slice import RegisterSlice
from bitlane_hw.zynq.upsizer import BurstUpsizer, WordUpsizer

from .bench import ProofHarness, implies, same
from .proof import FAIR, Proof
from .rules import channel, inside_page, offered, stable, taken

WORD_BYTES = HP_DATA_BITS // 8
PAIR_BYTES = 2 * WORD_BYTES


def register_slice(bench: ProofHarness) -> None:
    """What comes out is what went in, in order; room for two, and both sides' signals are registers."""
    block, inside = bench.block, bench.inside
    put, got = block.put, block.got
    spare, is_spare = inside["spare"], inside["is_spare"]
    puts, gets = bench.count(taken(put)), bench.count(taken(got))
    number = bench.constant(len(puts), "number")  # of any payload
    kept = bench.ghost(len(put.payload), "kept")
    with bench.m.If(taken(put) & (puts == number)):
        bench.m.d.sync += kept.eq(put.payload)
    level = got.valid + is_spare
    before = (number - gets)[: len(puts)]
    bench.always(
        stable(bench, got),
        implies(taken(got) & (gets == number), same(got.payload, kept)),
        put.ready | (level == 2),
        got.valid | (level == 0),
        # invariants
        (puts - gets)[: len(puts)] == level,
        implies((before == 0) & got.valid, same(got.payload, kept)),
        implies((before == 1) & is_spare, same(spare, kept)),
    )
    bench.cover(taken(got) & (gets == number) & (number == 3) & (level == 2))


def burst_splitter(bench: ProofHarness) -> None:
    """Two legal bursts of words for each of L pairs, side by side; each offered until taken, and once."""
    block, inside = bench.block, bench.inside
    bursts, first, second, order = block.bursts, block.first, block.second, block.order
    whole, left, right = bursts.payload, first.payload, second.payload
    bench.assume(stable(bench, bursts), implies(bursts.valid, _legal(whole.addr, whole.len, PAIR_BYTES)))
    pairs = whole.len + 1
    words = (left.len + 1, right.len + 1)
    is_one = pairs == 1
    outputs = (first, second, order)
    bench.always(
        *(stable(bench, output) for output in outputs),
        *(implies(output.valid, bursts.valid) for output in outputs),
        implies(second.valid, ~is_one),
        implies(first.valid, _legal(left.addr, left.len, WORD_BYTES) & (left.addr == whole.addr)),
        implies(second.valid, _legal(right.addr, right.len, WORD_BYTES)),
        implies(second.valid, right.addr == left.addr + words[0] * WORD_BYTES),
        implies(bursts.valid, words[0] + Mux(is_one, 0, words[1]) == 2 * pairs),
        implies(bursts.valid & ~is_one, (words[0] == words[1]) | (words[0] == words[1] + 2)),
        implies(order.valid, (order.payload.len == whole.len) & (order.payload.id == whole.id)),
    )
    waiting_for = [bench.within(output.valid & ~output.ready, FAIR) for output in outputs]
    for i, (output, needed) in enumerate(zip(outputs, (1, ~is_one, 1), strict=True)):
        due = bench.count(taken(bursts) & needed, taken(output), bits=2)  # -1: taken ahead of the whole
        bench.always(
            implies(inside["taken"][i] & needed, due == 3),
            implies(~inside["taken"][i], due == 0),
            implies(~bursts.valid, ~inside["taken"][i]),
            implies(needed == 0, due == 0),
        )
    refused = bench.waiting(bursts.valid & ~bursts.ready)
    bench.always(
        refused < FAIR,
        *(
            implies(output.valid & ~output.ready, refused == waited)
            for output, waited in zip(outputs, waiting_for, strict=True)
        ),
        implies(bursts.valid & ~Cat(*(output.valid & ~output.ready for output in outputs)).any(), bursts.ready),
    )
    bench.cover(taken(bursts) & (whole.len == 6) & inside["taken"][1] & ~inside["taken"][0])


def _legal(address: Any, length: Any, beat_bytes: int) -> Any:
    return (address[: beat_bytes.bit_length() - 1] == 0) & inside_page(address, length, beat_bytes)


def beat_splitter(bench: ProofHarness) -> None:
    """The low word, then the high one, which alone may be the last."""
    block = bench.block
    beats, words = block.beats, block.words
    bench.assume(stable(bench, beats))
    is_high = bench.ghost(1, "is_high")
    with bench.m.If(taken(words)):
        bench.m.d.sync += is_high.eq(~is_high)
    bench.always(
        stable(bench, words),
        taken(beats) == (taken(words) & is_high),
        words.valid == beats.valid,
        same(words.payload.data, beats.payload.data.word_select(is_high, HP_DATA_BITS)),
        same(words.payload.strb, beats.payload.strb.word_select(is_high, WORD_BYTES)),
        words.payload.last == (beats.payload.last & is_high),
        bench.inside["high"] == is_high,  # invariant
    )
    bench.cover(taken(words) & words.payload.last)


def word_joiner(bench: ProofHarness) -> None:
    """Two words a beat, in order, with the worse response; a word waits only where a whole beat does."""
    block, inside = bench.block, bench.inside
    words, beats = block.words, block.beats
    bench.assume(stable(bench, words), implies(words.valid, words.payload.resp != 0b01))  # nothing is exclusive
    low = bench.ghost(words.payload.shape(), "low")
    has_low = bench.ghost(1, "has_low")
    with bench.m.If(taken(words)):
        bench.m.d.sync += [has_low.eq(~has_low), low.eq(words.payload)]
    worse = Mux(low.resp > words.payload.resp, low.resp, words.payload.resp)
    bench.always(
        stable(bench, beats),
        beats.valid == (words.valid & has_low),
        taken(beats) == (taken(words) & has_low),
        words.ready == (~has_low | beats.ready),
        implies(beats.valid, same(beats.payload.data, Cat(low.data, words.payload.data))),
        implies(beats.valid, beats.payload.resp == worse),
        # invariants
        inside["has_low"] == has_low,
        implies(has_low, same(inside["low"], low) & (low.resp != 0b01)),
    )
    bench.cover(taken(beats) & (beats.payload.resp == 0b11) & (low.resp == 0b10))


def burst_joiner(bench: ProofHarness) -> None:
    """Beat n of a burst of L is the next of the first stream where n < ceil(L / 2), else of the second."""
    block, inside = bench.block, bench.inside
    bursts, first, second, beats = block.bursts, block.first, block.second, block.beats
    bench.assume(*(stable(bench, each) for each in (bursts, first, second)))
    begun = bench.ghost(1, "begun")
    burst = bench.ghost(bursts.payload.shape(), "burst")
    number = bench.ghost(5, "number")  # of the beat that is next
    last = number == burst.len
    with bench.m.If(taken(beats)):
        bench.m.d.sync += number.eq(number + 1)
    with bench.m.If(bursts.ready):
        bench.m.d.sync += [begun.eq(bursts.valid), number.eq(0), burst.eq(bursts.payload)]
    half = (burst.len + 2) >> 1
    is_second = number >= half
    source = Mux(is_second, Cat(second.payload), Cat(first.payload))
    bench.always(
        stable(bench, beats),
        bursts.ready == (~begun | (taken(beats) & last)),
        beats.valid == (begun & Mux(is_second, second.valid, first.valid)),
        taken(first) == (taken(beats) & ~is_second),
        taken(second) == (taken(beats) & is_second),
        implies(beats.valid, same(Cat(beats.payload.data, beats.payload.resp), source)),
        implies(beats.valid, (beats.payload.last == last) & (beats.payload.id == burst.id)),
        # invariants
        inside["begun"] == begun,
        implies(
            begun,
            (number <= burst.len)
            & (inside["is_second"] == is_second)
            & (inside["left"] == Mux(is_second, burst.len - number, half - 1 - number)[:3])
            & implies(~is_second, inside["rest"] == burst.len + 1 - half)
            & (beats.payload.id == burst.id),
        ),
    )
    bench.cover(taken(beats) & last & (burst.len == 4) & bench.ever(taken(second)) & bursts.valid)


def _hp_master(bench: ProofHarness, hp: Any) -> None:
    """To be proved of an HP port: legal reads of words, offered until taken; writes but for their data."""
    bench.always(offered(bench, *channel(hp, "ar", "id", "addr", "len")))
    for prefix in ("ar", "aw"):
        of = {name: getattr(hp, prefix + name) for name in ("size", "burst", "cache", "lock", "prot", "qos", "valid")}
        bench.always(
            of["size"] == full_size(HP_DATA_BITS),
            of["burst"] == INCR,
            of["cache"] == BUFFERABLE,
            (of["lock"] == 0) & (of["prot"] == 0) & (of["qos"] == 0),
            implies(of["valid"], _legal(getattr(hp, f"{prefix}addr"), getattr(hp, f"{prefix}len"), WORD_BYTES)),
        )
    bench.always((hp.awid == 0) & (hp.wid == 0), offered(bench, *channel(hp, "aw", "addr", "len")))


def _asks(bench: ProofHarness, axi: Any, beat_bytes: int) -> None:
    """Assumed of the accelerator, which its own proofs show: legal reads that stay until they are taken."""
    bench.assume(
        offered(bench, *channel(axi, "ar", "id", "addr", "len")),
        implies(axi.arvalid, (axi.arlen < BURST_BEATS) & _legal(axi.araddr, axi.arlen, beat_bytes)),
    )


def _slice_legal(bench: ProofHarness, inside: Any, beat_bytes: int) -> None:
    """Invariants: both addresses in a slice are legal."""
    out, spare = inside.component.got, _spare(inside)
    bench.always(
        implies(out.valid, _legal(out.payload.addr, out.payload.len, beat_bytes)),
        implies(inside["is_spare"], out.valid & _legal(spare.addr, spare.len, beat_bytes)),
    )


def _spare(inside: Any) -> Any:
    """The spare payload of a slice."""
    return data.View(inside.component.got.payload.shape(), inside["spare"])


def _writes(bench: ProofHarness, axi: Any, hp: Any, inside: Any, most: int) -> None:
    """Of writes: as many words as the address says, the last one marked, none before its address, all bytes."""
    words = axi.wdata.shape().width // HP_DATA_BITS
    bench.assume(
        offered(bench, *channel(axi, "aw", "addr", "len")),
        implies(axi.awvalid, (axi.awlen < most) & _legal(axi.awaddr, axi.awlen, words * WORD_BYTES)),
        offered(bench, *channel(axi, "w", "data", "strb", "last")),
        implies(axi.wvalid, axi.wstrb.all()),
    )
    asked, written = axi.awvalid & axi.awready, axi.wvalid & axi.wready
    left = bench.count(Mux(asked, axi.awlen + 1, 0), written, bits=8)
    bench.assume(implies(axi.wvalid, (left != 0) & (axi.wlast == (left == 1))), implies(axi.awvalid, left == 0))
    out, spare, is_spare = inside.component.got, _spare(inside), inside["is_spare"]
    held = out.valid + is_spare
    high = bench.inside["splitter_w"]["high"] if words == 2 else 0
    owed = bench.count(Mux(hp.awvalid & hp.awready, hp.awlen + 1, 0), hp.wvalid & hp.wready, bits=10)
    lasts = bench.count(hp.awvalid & hp.awready, hp.wvalid & hp.wready & hp.wlast, bits=4)
    bench.always(
        left <= most,
        offered(bench, *channel(hp, "w", "data", "strb", "last")),
        implies(hp.wvalid, hp.wstrb.all() & (owed != 0) & (lasts != 0)),
        # invariants
        owed == words * left - high + held,
        implies(is_spare, out.valid & spare.strb.all()),
        implies(high, axi.wvalid & (left != 0)) if words == 2 else 1,
        implies((left == 0) & out.valid, Mux(is_spare, spare.last, out.payload.last)),
        lasts == (left != 0) + (out.valid & out.payload.last) + (is_spare & spare.last),
    )


def memory_port(bench: ProofHarness) -> None:
    """The accelerator's legal 64-bit bursts are legal at the HP port."""
    block, inside = bench.block, bench.inside
    _asks(bench, block.read, WORD_BYTES)
    _hp_master(bench, block.hp0)
    _slice_legal(bench, inside["ar"], WORD_BYTES)
    _writes(bench, block.write, block.hp0, inside["w"], BURST_BEATS)
    bench.cover(block.hp0.arvalid & (block.hp0.arlen == 15) & inside["ar"]["is_spare"])
    bench.cover(block.hp0.wvalid & block.hp0.wlast & block.hp0.wready & inside["w"]["is_spare"])


def port_pair(bench: ProofHarness) -> None:
    """The accelerator's legal 128-bit bursts are legal at both HP ports, and the second never writes."""
    block, inside = bench.block, bench.inside
    _asks(bench, block.read, PAIR_BYTES)
    _slice_legal(bench, inside["ar"], PAIR_BYTES)
    for i, hp in enumerate((block.hp0, block.hp1)):
        _hp_master(bench, hp)
        _slice_legal(bench, inside[f"ar{i}"], WORD_BYTES)
        bench.always(hp.arid == 0)
    _writes(bench, block.write, block.hp0, inside["w"], BURST_BEATS // 2)
    bench.always(~block.hp1.awvalid, ~block.hp1.wvalid)
    bench.cover(block.hp1.arvalid & (block.hp1.arlen == 13))
    bench.cover(block.hp0.wvalid & block.hp0.wlast & block.hp0.wready)


PROOFS = (
    Proof("register_slice", "each payload once, in order, stable", lambda: RegisterSlice(8), register_slice, 12),
    Proof("burst_splitter", "two legal halves a burst, each once, none late", BurstDownsizer, burst_splitter, 8),
    Proof("beat_splitter", "two words a beat, in order, last marked", BeatDownsizer, beat_splitter, 8),
    Proof("word_joiner", "two words a beat, in order, the worse response", WordUpsizer, word_joiner, 8),
    Proof("burst_joiner", "each burst's beats from the right port, in order", BurstUpsizer, burst_joiner, 12),
    Proof("memory_port", "AXI3 masters: legal bursts and data of a 64-bit port", MemoryPort, memory_port, 30),
    Proof("port_pair", "the same for two ports that are one of 128 bits", PortPair, port_pair, 20),
)

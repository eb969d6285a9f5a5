"""The cycle model: the exact number of clock cycles of a run if the memory never stalls.

The schedule is that of `docs/design.md`, computed without simulating each cycle. The latency of the memory affects only
the first groups; after them, prefetching is ahead by more than the latency. From then on the end of a batch follows
from the ends of the two batches before it, and this pattern repeats after a few batches. The model holds for regions
that start at multiples of a burst, and for read latencies that the prefetch buffers cover.

A *token* is a beat, in the order in which beats are taken. A *slot* is the cycle of a token in a sequencer that waits
only for its lanes: one slot for each token, except that table lanes take two cycles for a draw word.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .geometry import Geometry
from .latencies import BATCH_PAUSE, DRAW_CYCLES, PORT_CROSSING, PUBLISH_LATENCY, update_latency, words_latency
from .layout import BURST_BEATS, CHUNK_MODEL_WORDS

REQUEST_TO_ADDRESS = 1  # a walked token to its burst on the address channel
DATA_TO_TOKEN = 2  # a beat on the data channel to the cycle in which the sequencer can take it, with one port
CHECK_CYCLES = 1  # the register check, beyond a cycle for each bit of the largest factor
WRITE_OVERHEAD = 2  # a burst on the write port beyond its beats: request, end
LOAD_CYCLES = 6  # from the last beat of the models and the tables to the first digit, one row a beat
NEXT_CYCLES = 2  # from a written record to the next epoch's first digit
FINISH_CYCLES = 1  # from the last write response to done

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MemoryTiming:
    """Timing of a memory that never stalls.

    Attributes
    ----------
    read_latency : int, default=60
        Cycles from an accepted read address to its first beat. Later beats follow one per cycle, bursts in order.
    write_latency : int, default=20
        Cycles from the last accepted beat of a write burst to its response.
    """

    read_latency: int = 60
    write_latency: int = 20


@dataclass(frozen=True)
class CycleCounts:
    """The counters after a run.

    Attributes
    ----------
    cycles : int
        Cycles from start to done.
    epoch_cycles : int64 array [epochs]
        Cycles from start to the end of each epoch.
    beats : int
        Beats read.
    stall_memory : int
        Cycles in which the sequencer waited for the memory.
    stall_model : int
        Cycles in which the sequencer waited for an updated model.
    """

    cycles: int
    epoch_cycles: Int64s
    beats: int
    stall_memory: int
    stall_model: int


def publish_latency(geometry: Geometry, random: bool = False) -> int:
    """Return the cycles from the last beat of a batch to the first read of the updated model."""
    return (
        update_latency(geometry.rows_per_beat, geometry.codebook, random, geometry.shards) + _first_chunk(geometry) - 1
    )


def _first_chunk(geometry: Geometry) -> int:
    """Words of the first chunk of a row."""
    return geometry.half_digit + geometry.digits


def predict(
    geometry: Geometry,
    epochs: int,
    snapshots: bool,
    staleness: int = 0,
    timing: MemoryTiming = MemoryTiming(),
    random_rounding: bool = False,
) -> CycleCounts:
    """Predict the counters of a run on a memory that never stalls.

    Parameters
    ----------
    geometry : Geometry
    epochs : int
    snapshots : bool
        Whether the model of each epoch is written to memory.
    staleness : int, default=0
        A batch reads the model of ``1 + staleness`` batches before.
    timing : MemoryTiming
    random_rounding : bool, default=False
        Whether the build has random rounding. It takes the same time whether it is used or not.

    Returns
    -------
    CycleCounts
    """
    schedule = _Schedule(geometry, staleness, random_rounding)
    largest_factor = max(geometry.base_row_words, geometry.chunks)
    begin = CHECK_CYCLES + largest_factor.bit_length()
    model_beats = geometry.load_beats
    to_epoch_done = words_latency(geometry.ports) + schedule.to_publish + schedule.row - _first_chunk(geometry)
    chunk_beats = CHUNK_MODEL_WORDS // geometry.rows_per_beat
    store = geometry.outputs * geometry.chunks * (chunk_beats + WRITE_OVERHEAD)
    record = geometry.record_words // geometry.port_words + WRITE_OVERHEAD

    clock, stall_memory = schedule.while_latency_shows(begin, model_beats, timing)
    taken = schedule.end_of_epoch(clock)
    stall_model = taken - (begin - 1) - model_beats - geometry.beats - stall_memory

    # Every later epoch finds all its beats there; before its first digit only labels are taken.
    later = _Clock()
    schedule.reach(later, 1, schedule.row - 1)
    length = schedule.end_of_epoch(later)
    epoch_cycles = np.empty(epochs, np.int64)
    for epoch in range(epochs):
        done = taken + to_epoch_done
        epoch_cycles[epoch] = done
        last = epoch == epochs - 1
        written = done + (store if snapshots or last else 0) + record
        if not last:
            stall_model -= taken + geometry.beats
            taken = written + NEXT_CYCLES + length
            stall_model += taken
    return CycleCounts(
        cycles=written + max(timing.write_latency, NEXT_CYCLES) + FINISH_CYCLES,
        epoch_cycles=epoch_cycles,
        beats=model_beats + epochs * geometry.beats,
        stall_memory=stall_memory,
        stall_model=stall_model,
    )


@dataclass
class _Clock:
    """Position in an epoch: the next group, the cycle of the last beat taken, and the ends of the batches so far."""

    group: int = 0
    taken: int = 0
    ends: list[int] = field(default_factory=list)


class _Tokens:
    """The tokens of the groups that share their label beats: a label set. All label sets of an epoch are alike.

    Attributes
    ----------
    count : int
        Tokens of a label set.
    row : int
        Slots of a group without labels.
    base, draw : int64 arrays
        Tokens that are taken from each of the two streams, in order.
    slots : int64 array
        Slot of each token.
    """

    def __init__(self, geometry: Geometry):
        outputs = geometry.outputs
        chunk = [False] * geometry.base_digits + [True] * geometry.draws
        pair = [False] * geometry.half_digit + 2 * chunk  # a half word is two chunks'
        is_draw = np.array(pair * -(-geometry.chunks // 2), np.bool_)[: geometry.row_words]
        waits = geometry.codebook * (DRAW_CYCLES - 1) * (is_draw[1:] & is_draw[:-1])
        slots = np.arange(len(is_draw)) + np.concatenate([[0], np.cumsum(waits)])
        self.row = int(slots[-1]) + 1

        def of_set(positions: npt.NDArray[np.intp], length: int) -> Int64s:
            return outputs + (np.arange(geometry.label_groups)[:, np.newaxis] * length + positions).reshape(-1)

        labels = np.arange(outputs)
        self.count = outputs + geometry.label_groups * len(is_draw)
        self.base = np.concatenate([labels, of_set(np.flatnonzero(~is_draw), len(is_draw))])
        self.draw = of_set(np.flatnonzero(is_draw), len(is_draw))
        self.slots = np.concatenate([labels, of_set(slots, self.row)])

    def first_of_bursts(self, stream: Int64s, beats: int) -> Int64s:
        """Return the tokens, counted from the first label, with which the bursts of a stream of `beats` beats begin."""
        label_set, index = np.divmod(np.arange(0, beats, BURST_BEATS), max(len(stream), 1))
        return label_set * self.count + stream[index]

    def slots_of(self, tokens: Int64s) -> Int64s:
        """Return the slots of tokens counted from the first label."""
        label_set, index = np.divmod(tokens, self.count)
        slots: Int64s = label_set * (self.slots[-1] + 1) + self.slots[index]
        return slots


class _Schedule:
    """The cycles in which the last beats of groups are taken."""

    def __init__(self, geometry: Geometry, staleness: int, random: bool):
        self._geometry = geometry
        self._staleness = staleness
        self._tokens = _Tokens(geometry)
        self.row = self._tokens.row
        self.to_publish = publish_latency(geometry, random) - 1
        rounded = (
            random and not geometry.codebook
        )  # tables come behind the models, and take longer than these are rounded
        adders = (geometry.rows_per_beat - 1).bit_length()
        self.to_load = words_latency(geometry.ports) + LOAD_CYCLES + adders + PUBLISH_LATENCY * rounded
        self._to_token = DATA_TO_TOKEN if geometry.ports == 1 else PORT_CROSSING + 1

    def reach(self, clock: _Clock, group: int, taken: int) -> None:
        """Record that all groups up to `group`, at most the end of the current batch, have been taken."""
        clock.group, clock.taken = group, taken
        if group % self._geometry.batch_groups == 0 or group == self._geometry.groups:
            clock.ends.append(taken)

    def end_of_epoch(self, clock: _Clock) -> int:
        """Return the cycle of the last beat of the epoch, from any group on, if no beat comes late."""
        groups, size = self._geometry.groups, self._geometry.batch_groups
        seen: dict[tuple[int, int], tuple[int, int]] = {}
        while clock.group < groups:
            release = self._release(clock)
            if release is not None:  # what comes depends on this alone, and has come before
                state = clock.group % self._geometry.label_groups, clock.taken - release
                if state in seen:
                    group, taken = seen.pop(state)
                    times = (groups - clock.group) // (clock.group - group)
                    cycles = times * (clock.taken - taken)
                    clock.group += times * (clock.group - group)
                    clock.taken += cycles
                    clock.ends = [end + cycles for end in clock.ends]
                    continue
                seen[state] = clock.group, clock.taken
            stop = min(clock.group - clock.group % size + size, groups)
            end = clock.taken + self._span(clock.group, stop)
            if release is not None:
                end = max(end, release + self.row - 1 + self._span(clock.group + 1, stop))
            self.reach(clock, stop, end)
        return clock.taken

    def while_latency_shows(self, begin: int, model_beats: int, timing: MemoryTiming) -> tuple[_Clock, int]:
        """Return the clock after the first groups, when no beat can be late any more, and the cycles of waiting for
        memory.

        Only the first beat of a burst can be late: the other beats follow one per cycle. So the tokens advance one slot
        per cycle, and each wait delays everything after it by the same number of cycles.
        """
        geometry, clock = self._geometry, _Clock()
        looked_at = min(
            geometry.groups, geometry.label_groups * BURST_BEATS
        )  # then bursts and label sets begin together
        slots, late = self._late_bursts(looked_at, model_beats, timing)
        behind, stall = 0, 0  # the token of slot t is taken in cycle begin + t + behind

        def wait_for_memory(first: int, stop: int) -> None:
            nonlocal behind, stall
            some = slice(*np.searchsorted(slots, [first, stop]))
            wait = max(0, int(late[some].max(initial=0)) - behind)
            behind += wait
            stall += wait

        wait_for_memory(0, model_beats)
        slot = model_beats
        loaded = begin + model_beats - 1 + behind + self.to_load
        for group in range(looked_at):
            labels = geometry.outputs if group % geometry.label_groups == 0 else 0
            release = self._release(clock) if group else loaded
            wait_for_memory(slot, slot + labels)
            slot += labels
            if release is not None:
                behind = max(behind, release - begin - slot)
            last = slot + self.row - 1
            wait_for_memory(slot, last)
            wait_for_memory(last, last + 1)
            self.reach(clock, group + 1, begin + last + behind)
            slot = last + 1
            if behind >= late.max():
                break
        return clock, stall

    def _release(self, clock: _Clock) -> int | None:
        """Return the first cycle in which the first digit of a batch may be taken; None if nothing limits it."""
        if clock.group % self._geometry.batch_groups or not clock.ends:
            return None
        limits = [clock.taken + 1 + BATCH_PAUSE] if self._geometry.chunks == 1 else []
        if len(clock.ends) > self._staleness:
            limits.append(clock.ends[-1 - self._staleness] + self.to_publish + 1)
        return max(limits, default=None)

    def _span(self, first: int, stop: int) -> int:
        """Return the cycles from the last beat before some groups of a batch to the last beat of these groups."""
        outputs = self._geometry.outputs
        labelled = -(-stop // self._geometry.label_groups) - -(-first // self._geometry.label_groups)
        return labelled * outputs + (stop - first) * self.row

    def _late_bursts(self, groups: int, model_beats: int, timing: MemoryTiming) -> tuple[Int64s, Int64s]:
        """Return the first slot of each burst of the models and the first groups, and by how many cycles each is late.

        The delay is relative to a sequencer that takes a token in every slot. One token is requested per cycle, and
        bursts arrive in the order of their tokens.
        """
        geometry, label_sets = self._geometry, -(-groups // self._geometry.label_groups)
        label_beats = label_sets * geometry.outputs
        model = np.arange(0, model_beats, BURST_BEATS)
        base = self._tokens.first_of_bursts(self._tokens.base, label_beats + groups * geometry.base_row_words)
        draw = self._tokens.first_of_bursts(self._tokens.draw, groups * geometry.chunks * geometry.draws)
        tokens = np.concatenate([model, base + model_beats, draw + model_beats])
        slots = np.concatenate([model, *(self._tokens.slots_of(each) + model_beats for each in (base, draw))])
        lengths = np.concatenate(
            [
                np.minimum(beats - BURST_BEATS * np.arange(len(bursts)), BURST_BEATS)
                for bursts, beats in ((model, model_beats), (base, geometry.base_beats), (draw, geometry.draw_beats))
            ]
        )
        order = np.argsort(tokens, kind="stable")
        tokens, slots, lengths = tokens[order], slots[order], lengths[order]
        before = np.cumsum(lengths) - lengths
        asked = tokens + REQUEST_TO_ADDRESS
        arrival = np.maximum.accumulate(asked + timing.read_latency - before) + before
        return slots, arrival + self._to_token - slots

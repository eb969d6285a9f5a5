"""How many clock cycles a run takes: the exact count when the memory never stalls.

The schedule is that of `docs/design.md`, worked out without simulating a cycle: the memory's latency shows
in the first batch only (afterwards prefetching is further ahead than any burst is late), and every later
batch has the same form. Holds for regions that begin at multiples of 128 bytes and for read latencies
that the prefetch buffers cover.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .contract import BURST_WORDS, CHUNK_MODEL_WORDS, LABELS_PER_WORD, MIN_ROW, TRACE_WORDS, UPDATE_LATENCY
from .layout import Geometry

REQUEST_TO_ADDRESS = 1  # a walked token to its burst on the address channel
DATA_TO_TOKEN = 2  # a beat on the data channel to the cycle in which the sequencer can take it
CHECK_CYCLES = 1  # the register check, beyond a cycle for each bit of the largest factor
WRITE_OVERHEAD = 3  # a burst on the write port beyond its words: request, address, end
FETCH_CYCLES = 2  # a chunk from the model memory to the write port
RECORD_CYCLES = 1  # an epoch's record to the write port
NEXT_CYCLES = 2  # from a written record to the next epoch's first digit
FINISH_CYCLES = 1  # from the last write response to done


@dataclass(frozen=True)
class MemoryTiming:
    """A memory that never stalls, in cycles.

    read_latency: from a read address accepted to its first beat; later beats follow one a cycle, bursts in order.
    write_latency: from the last beat of a write burst accepted to its response.
    """

    read_latency: int = 60
    write_latency: int = 20


@dataclass(frozen=True)
class CycleCounts:
    """The counters after a run: cycles from start to done, epoch_cycles[e] at the end of epoch e, and the rest."""

    cycles: int
    epoch_cycles: npt.NDArray[np.int64]
    beats: int
    stall_memory: int
    stall_model: int


@dataclass
class _Clock:
    """Cycle in which the last token was taken, and the stalls counted until then."""

    taken: int
    memory: int
    model: int


def predict(
    geometry: Geometry,
    epochs: int,
    batch: int,
    snapshots: bool,
    timing: MemoryTiming = MemoryTiming(),
) -> CycleCounts:
    """Counters of a run of `epochs` epochs in batches of `batch` rows (the last one partial)."""
    batch = min(batch, geometry.rows)
    starts = np.arange(0, geometry.rows, batch)
    ends = np.minimum(starts + batch, geometry.rows)

    largest_factor = max(geometry.chunks * geometry.base_digits, geometry.chunks)
    begin = CHECK_CYCLES + largest_factor.bit_length()
    clock = _first_batch(geometry, int(ends[0]), begin, timing)
    to_publish = UPDATE_LATENCY - 1 + geometry.digits - 1
    to_epoch_done = to_publish + (geometry.chunks - 1) * geometry.digits
    store = geometry.chunks * (FETCH_CYCLES + CHUNK_MODEL_WORDS + WRITE_OVERHEAD)
    record = RECORD_CYCLES + TRACE_WORDS + WRITE_OVERHEAD

    # Batches but the first of an epoch, all at once: they wait for the update, a label is taken meanwhile.
    lengths, holds = _batch_length(geometry, starts, ends)
    labels_first = starts % LABELS_PER_WORD == 0
    rest = slice(1, None)
    rest_cycles = int(np.sum(to_publish + lengths[rest]))
    rest_holds = int(np.sum(to_publish - labels_first[rest] + holds[rest]))

    epoch_cycles = np.empty(epochs, np.int64)
    for epoch in range(epochs):
        clock.taken += rest_cycles
        clock.model += rest_holds
        done = clock.taken + to_epoch_done
        epoch_cycles[epoch] = done
        last = epoch == epochs - 1
        written = done + (store if snapshots or last else 0) + record
        if last:
            cycles = written + max(timing.write_latency, NEXT_CYCLES) + FINISH_CYCLES
        else:
            first = written + NEXT_CYCLES
            clock.model += first - clock.taken - 2 + int(holds[0])  # one of the cycles takes the label
            clock.taken = first - 1 + int(lengths[0])
    beats = geometry.chunks * CHUNK_MODEL_WORDS + epochs * (geometry.base_words + geometry.draw_words)
    return CycleCounts(cycles, epoch_cycles, beats, clock.memory, clock.model)


def _batch_length(
    geometry: Geometry, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cycles from a batch's first digit to its last, both counted, and how many of them are holds."""
    rows_after_first = ends - starts - 1
    labels = -(-ends // LABELS_PER_WORD) - (starts // LABELS_PER_WORD + 1)
    words = geometry.row_words
    short = max(0, MIN_ROW - words)  # a row without a label
    short_label = max(0, MIN_ROW - words - 1)
    holds = (rows_after_first - labels) * short + labels * short_label
    return (rows_after_first + 1) * words + labels + holds, holds


def _first_batch(geometry: Geometry, rows: int, begin: int, timing: MemoryTiming) -> _Clock:
    """The model and the first `rows` rows, while the memory's latency still shows.

    A burst's first word is the only one that may come late: its other words follow one a cycle. So the
    tokens run one a cycle, each burst pushing all that follow it as far back as it is late.
    """
    model_words = geometry.chunks * CHUNK_MODEL_WORDS
    base, draw = _burst_tokens(geometry, rows)
    model = np.arange(0, model_words, BURST_WORDS)
    tokens = np.concatenate([model, base + model_words, draw + model_words])
    lengths = np.full(len(tokens), BURST_WORDS)
    for bursts, at, words in (
        (base, len(model), geometry.base_words),
        (draw, len(model) + len(base), geometry.draw_words),
    ):
        final = (words - 1) // BURST_WORDS
        if final < len(bursts):
            lengths[at + final] = words - final * BURST_WORDS
    order = np.argsort(tokens, kind="stable")
    tokens, lengths = tokens[order], lengths[order]

    before = np.cumsum(lengths) - lengths
    asked = begin + tokens + REQUEST_TO_ADDRESS
    arrival = np.maximum.accumulate(asked + timing.read_latency - before) + before
    ready = arrival + DATA_TO_TOKEN

    labels = -(-rows // LABELS_PER_WORD)
    total = model_words + labels + rows * geometry.row_words
    if geometry.row_words >= MIN_ROW:
        taken = total - 1 + int(np.max(ready - tokens))
        return _Clock(taken, taken - (begin + total - 1), 0)
    return _short_rows(geometry, rows, begin, dict(zip(tokens.tolist(), ready.tolist(), strict=True)))


def _burst_tokens(geometry: Geometry, rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions, counted from the first label, of the tokens that begin a burst: base stream, draw stream."""
    group = LABELS_PER_WORD * geometry.chunks  # chunks behind a label
    group_tokens = 1 + group * geometry.digits

    labels = -(-rows // LABELS_PER_WORD)
    word = np.arange(0, labels + rows * geometry.chunks * geometry.base_digits, BURST_WORDS)
    which, offset = np.divmod(word, 1 + group * geometry.base_digits)
    chunk, digit = np.divmod(offset - 1, max(geometry.base_digits, 1))
    base = which * group_tokens + np.where(offset == 0, 0, 1 + chunk * geometry.digits + digit)

    word = np.arange(0, rows * geometry.chunks if geometry.draws else 0, BURST_WORDS)
    which, offset = np.divmod(word, group)
    draw = which * group_tokens + 1 + offset * geometry.digits + geometry.base_digits
    return base, draw


def _short_rows(geometry: Geometry, rows: int, begin: int, ready: dict[int, int]) -> _Clock:
    """The same, token by token, for rows so short that their update cannot keep up with their reading."""
    clock = _Clock(begin - 1, 0, 0)
    last_row_end = begin - MIN_ROW
    token = 0

    def take(not_before: int) -> None:
        nonlocal token
        free = clock.taken + 1
        held = max(0, not_before - free)
        clock.taken = max(free + held, ready.get(token, 0))
        clock.model += held
        clock.memory += clock.taken - free - held
        token += 1

    for _ in range(geometry.chunks * CHUNK_MODEL_WORDS):
        take(0)
    for row in range(rows):
        if row % LABELS_PER_WORD == 0:
            take(0)
        for _ in range(geometry.row_words - 1):
            take(0)
        take(last_row_end + MIN_ROW)
        last_row_end = clock.taken
    return clock

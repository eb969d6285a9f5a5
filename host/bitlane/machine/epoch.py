"""An epoch: its batches, in tiles of rows whose words stay in a cache."""

from __future__ import annotations

from bitlane.contract.layout import LABELS_PER_WORD
from bitlane.contract.prng import SEED_BITS, SEED_STEP

from .codebooks import level_dots, select_levels, update_levels
from .digits import digit_dots, update_digits
from .integers import kernel
from .plan import BANK, SEED, Arrays, Regions, Rules, Shape
from .scalar import level_coefficients, scaled_gradients
from .weights import NONE, end_batch, publish

SEED_MASK = (1 << SEED_BITS) - 1


def _find_rows(shape: Shape, arrays: Arrays, regions: Regions, group: int, rows: int) -> None:
    """Find the words and the labels of the rows of a tile, the first of which begins a group."""
    columns, of_group = shape.rows_per_beat, shape.base_row_words
    base, base_at, draw_at, labels = regions.base, arrays.base_at, arrays.draw_at, arrays.labels
    for row in range(rows):
        at, column = group + row // columns, row % columns
        four, index = at // LABELS_PER_WORD, at % LABELS_PER_WORD
        beat = (four + 1) * shape.outputs + at * of_group
        base_at[row] = beat * columns + column
        draw_at[row] = at * shape.chunks * columns + column
        for output in range(shape.outputs):
            beat = four * (shape.outputs + LABELS_PER_WORD * of_group) + output
            field = base[beat * columns + column] >> 16 * index & 0xFFFF
            labels[output, row] = (field ^ 0x8000) - 0x8000


def _tile(shape: Shape, rules: Rules, arrays: Arrays, regions: Regions, rows: int, first_group: int, prox: int) -> None:
    """Process a tile: `first_group` is its first group in the batch, `prox` the proximal operator after it."""
    if shape.codebook:
        select_levels(shape, arrays, regions, rows)
    for output in range(shape.outputs):
        if shape.codebook:
            level_dots(shape, arrays, output, rows)
        else:
            digit_dots(shape, arrays, regions, output, rows)
        scaled_gradients(shape, rules, arrays, output, rows, first_group)
        if shape.codebook:
            level_coefficients(arrays, rows)
            update_levels(shape, rules, arrays, output, rows, prox)
        else:
            update_digits(shape, rules, arrays, regions, output, rows, prox)


def _run_epoch(shape: Shape, rules: Rules, arrays: Arrays, regions: Regions) -> None:
    """Run an epoch."""
    for bank in range(1 + rules.staleness):
        publish(shape, rules, arrays, bank)
    group, columns = 0, shape.rows_per_beat
    for start in range(0, shape.rows, shape.batch):
        batch_rows = min(shape.batch, shape.rows - start)
        done = 0
        while done < batch_rows:
            rows = min(shape.tile_groups * columns, batch_rows - done)
            find_rows(shape, arrays, regions, group, rows)
            prox = end_batch(rules, arrays) if done + rows == batch_rows else NONE
            tile(shape, rules, arrays, regions, rows, done // columns, prox)
            done += rows
            group += -(-rows // columns)
        arrays.counters[SEED] = (arrays.counters[SEED] + SEED_STEP) & SEED_MASK
        publish(shape, rules, arrays, arrays.counters[BANK])
        arrays.counters[BANK] ^= rules.staleness


find_rows = kernel(_find_rows)
tile = kernel(_tile)
run_epoch = kernel(_run_epoch)

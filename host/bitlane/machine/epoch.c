/* An epoch: its batches, in tiles of rows whose words stay in a cache. */

/* Find the words and the labels of the rows of a tile, the first of which begins a group. */
static void find_rows(const struct epoch *e, int64_t group, int64_t rows)
{
    const struct shape shape = e->shape;
    int64_t columns = shape.rows_per_beat, of_group = shape.base_row_words;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = group + row / columns, column = row % columns;
        int64_t four = at / LABELS_PER_WORD, index = at % LABELS_PER_WORD;
        e->arrays.base_at[row] = ((four + 1) * shape.outputs + at * of_group) * columns + column;
        e->arrays.draw_at[row] = at * shape.chunks * columns + column;
        for (int64_t output = 0; output < shape.outputs; output++) {
            int64_t beat = four * (shape.outputs + LABELS_PER_WORD * of_group) + output;
            int64_t field = e->base[beat * columns + column] >> 16 * index;
            e->arrays.labels[output * e->tile_rows + row] = (int16_t)field;
        }
    }
}

/* Process a tile: `first_group` is its first group in the batch, `prox` the proximal operator after it. */
static void run_tile(const struct epoch *e, int64_t rows, int64_t first_group, int64_t prox)
{
    if (e->shape.codebook)
        select_levels(e, rows);
    for (int64_t output = 0; output < e->shape.outputs; output++) {
        if (e->shape.codebook)
            level_dots(e, output, rows);
        else
            digit_dots(e, output, rows);
        scaled_gradients(e, output, rows, first_group);
        if (e->shape.codebook) {
            level_coefficients(e, rows);
            update_levels(e, output, rows, prox);
        } else
            update_digits(e, output, rows, prox);
    }
}

void bitlane_run_epoch(const struct shape *shape, const struct rules *rules, const struct arrays *arrays,
                       const int64_t *base, const int64_t *draws)
{
    int64_t columns = shape->rows_per_beat, padded = shape->chunks * CHUNK, group = 0, *counters = arrays->counters;
    struct epoch e = {*shape, *rules, *arrays, base, draws, padded, shape->tile_groups * columns,
                      padded * (shape->codebook ? 1 : 2)};
    for (int64_t bank = 0; bank <= rules->staleness; bank++)
        publish(&e, bank);
    for (int64_t start = 0; start < shape->rows; start += shape->batch) {
        int64_t batch_rows = least(shape->batch, shape->rows - start);
        for (int64_t done = 0, rows; done < batch_rows; done += rows) {
            rows = least(e.tile_rows, batch_rows - done);
            find_rows(&e, group, rows);
            run_tile(&e, rows, done / columns, done + rows == batch_rows ? end_batch(&e) : PROX_NONE);
            group += (rows + columns - 1) / columns;
        }
        counters[SEED] = (uint32_t)counters[SEED] + SEED_STEP; /* 32 bits, as the reference */
        publish(&e, counters[BANK]);
        counters[BANK] ^= rules->staleness;
    }
}

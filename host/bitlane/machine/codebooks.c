/* Dot products and changes of the weights for codebooks: levels that are looked up, products rounded one by one. */

/* Look up the levels of the rows of a tile that their draws select. */
static void select_levels(const struct epoch *e, int64_t rows)
{
    const struct shape shape = e->shape;
    int64_t columns = shape.rows_per_beat, digits = shape.base_digits, half = shape.half_digit;
    const int32_t *levels = e->arrays.levels;
    for (int64_t row = 0; row < rows; row++) {
        int64_t first = e->arrays.base_at[row], draw = e->arrays.draw_at[row];
        int32_t *drawn[2] = {e->arrays.drawn + row * e->padded, e->arrays.drawn + (e->tile_rows + row) * e->padded};
        for (int64_t chunk = 0; chunk < shape.chunks; chunk++) {
            int64_t start = first + (chunk * digits + half * (chunk / 2 + 1)) * columns;
            int64_t halves = half ? e->base[first + chunk / 2 * (1 + 2 * digits) * columns] >> CHUNK * (chunk % 2) : 0;
            int64_t ends = e->draws[draw + chunk * columns];
            int64_t word = digits ? e->base[start] : 0; /* of the only digit: a code has at most three bits */
            for (int64_t j = 0; j < least(CHUNK, shape.features - chunk * CHUNK); j++) {
                int64_t code = (halves >> j & 1) << 2 * digits | (word >> 2 * j & 3), feature = chunk * CHUNK + j;
                drawn[0][feature] = levels[(code + (ends >> (2 * j + 1) & 1)) * e->padded + feature];
                drawn[1][feature] = levels[(code + (ends >> 2 * j & 1)) * e->padded + feature];
            }
        }
    }
}

/* Store round_half_up(dot_m, 16 - exponent) of both copies of the rows of a tile: sums of at most 17 + 23 + 14 bits. */
static void level_dots(const struct epoch *e, int64_t output, int64_t rows)
{
    const int32_t *weights = e->arrays.published + (e->arrays.counters[BANK] * e->shape.outputs + output) * e->published;
    for (int copy = 0; copy < 2; copy++)
        for (int64_t row = 0; row < rows; row++) {
            const int32_t *drawn = e->arrays.drawn + (copy * e->tile_rows + row) * e->padded;
            int64_t sum = 0;
            for (int64_t j = 0; j < e->shape.features; j++)
                sum += (int64_t)drawn[j] * weights[j];
            e->arrays.dots[copy * e->tile_rows + row] = rounded_dot(sum, LEVEL_FRACTION, e->rules.weight_exponent);
        }
}

/* Subtract the changes by the rows of a tile group by group, then apply the proximal operator. */
static void update_levels(const struct epoch *e, int64_t output, int64_t rows, int64_t prox)
{
    int64_t features = e->shape.features, *changes = e->arrays.changes, clipped = 0;
    int32_t *weights = e->arrays.master + output * e->padded;
    const int32_t *drawn = e->arrays.drawn;
    for (int64_t first = 0, end; first < rows; first = end) {
        end = least(first + e->shape.rows_per_beat, rows);
        memset(changes, 0, (size_t)features * sizeof *changes);
        for (int64_t row = first; row < end; row++)
            for (int copy = 0; copy < 2; copy++) { /* the draws of one copy with the slope of the other */
                const int32_t *levels = drawn + (copy * e->tile_rows + row) * e->padded;
                int64_t c = e->arrays.scaled[(1 - copy) * e->tile_rows + row];
                for (int64_t j = 0; j < features; j++)
                    changes[j] += round_half_up(levels[j] * c, LEVEL_SHIFT);
            }
        int64_t proximal = end == rows && prox != PROX_NONE ? e->rules.proximal : 0;
        for (int64_t j = 0; j < features; j++) {
            int64_t exact = weights[j] - changes[j], master = clip(exact, MASTER_LOW, MASTER_HIGH, &clipped);
            if (j < proximal && master == exact)
                master = proximal_step(prox, &e->rules, master);
            weights[j] = (int32_t)master;
        }
    }
    e->arrays.counters[SATURATIONS] += clipped;
}

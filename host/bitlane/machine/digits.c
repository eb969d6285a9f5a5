/* Dot products and changes of the weights for uniform levels, from the words as they lie in memory. */
#define HALF_DIGITS (HALF / DIGIT_BITS)
#define UNKNOWN (MASTER_HIGH + 1) /* a ceiling that holds for any weight */

/* Write the sums of `plane_sums` over all chunks of two rows. */
static inline void row_sums(int64_t chunks, const int64_t *words, int64_t row, int64_t other, int64_t step,
                            const int32_t *weights, int64_t totals[4])
{
    memset(totals, 0, 4 * sizeof *totals);
    for (int64_t chunk = 0; chunk < chunks; chunk += SUM_CHUNKS) {
        const int64_t *rows[2] = {words + row + chunk * step, words + other + chunk * step};
        plane_sums(rows, step, weights + chunk * LANES, least(SUM_CHUNKS, chunks - chunk), totals);
    }
}

/* Return round_half_up(dot, b - exponent) from the sums over the low and over the high digits of a code.
 *
 * Codes of more than 16 bits are summed as two halves, of at most 16 + 23 + 14 bits, as in bitlane.reference.blocks.
 */
static inline int64_t joined(int64_t digits, int64_t exponent, int64_t low, int64_t high)
{
    int64_t high_bits = DIGIT_BITS * (digits - HALF_DIGITS), bits = high_bits + LARGEST_EXPONENT - exponent;
    if (high_bits <= 0)
        return rounded_dot(low, DIGIT_BITS * digits, exponent);
    low <<= LARGEST_EXPONENT;
    return ((high << LARGEST_EXPONENT) + ((low + (INT64_C(1) << (HALF + bits - 1))) >> HALF)) >> bits;
}

/* Store round_half_up(dot_m, b - exponent) of both copies of the rows of a tile with an output, two rows at a time.
 *
 * A digit of bits h and l adds 2 (2 h - 1) + (2 l - 1) times a weight.
 */
static void digit_dots(const struct epoch *e, int64_t output, int64_t rows)
{
    const struct shape shape = e->shape;
    const int64_t *base_at = e->arrays.base_at, *draw_at = e->arrays.draw_at;
    int64_t bank = e->arrays.counters[BANK] * shape.outputs + output, digits = shape.base_digits;
    int64_t columns = shape.rows_per_beat, total = e->arrays.totals[bank], exponent = e->rules.weight_exponent;
    const int32_t *weights = e->arrays.published + bank * e->published;
    for (int64_t row = 0; row < rows; row += 2) {
        int64_t pair[2] = {row, least(row + 1, rows - 1)}, low[2] = {0, 0}, high[2] = {0, 0}, sums[4];
        for (int64_t digit = 0; digit < digits; digit++) {
            int64_t shift = digit * columns;
            row_sums(shape.chunks, e->base, base_at[pair[0]] + shift, base_at[pair[1]] + shift, digits * columns,
                     weights, sums);
            for (int k = 0; k < 2; k++) {
                if (digit == digits - HALF_DIGITS) {
                    high[k] = low[k];
                    low[k] = 0;
                }
                low[k] = 4 * low[k] + 4 * sums[2 * k + 1] + 2 * sums[2 * k] - 3 * total;
            }
        }
        if (shape.draws)
            row_sums(shape.chunks, e->draws, draw_at[pair[0]], draw_at[pair[1]], columns, weights, sums);
        for (int k = 0; k < 2; k++)
            for (int copy = 0; copy < 2; copy++) {
                int64_t drawn = shape.draws ? 2 * sums[2 * k + 1 - copy] - total : 0;
                e->arrays.dots[copy * e->tile_rows + pair[k]] = joined(digits, exponent, low[k] + drawn, high[k]);
            }
    }
}

/* The terms of the rows of a tile: what they add to weights beside the terms of their bits, and how much at most. */
struct terms {
    int64_t digits;  /* base digits with a P that is not 0; those behind them change nothing */
    int64_t offset;  /* the sum of all P: what each weight gets beside the terms of its bits */
    int64_t largest; /* an upper bound of the size of the change of a weight */
};

/* Fill `terms` for the rows of a tile: M - P of bit l and -(P + M) of bit h, to add to weights, then P.
 *
 * (h == l ? P : M) * (h ? 1 : -1) = (P + M) h + (P - M) l - P.
 */
static struct terms digit_terms(const struct epoch *e, int64_t rows)
{
    const int64_t *scaled = e->arrays.scaled;
    struct terms found = {0, 0, 0};
    for (int64_t digit = 0; digit < e->shape.base_digits + e->shape.draws; digit++) {
        int is_draw = digit == e->shape.base_digits, some = 0;
        int64_t shift = 2 * digit + (is_draw ? DRAW_SHIFT : BASE_SHIFT);
        int32_t *terms = e->arrays.terms + 2 * digit * rows;
        for (int64_t row = 0; row < rows; row++) {
            int64_t s = scaled[row], d = scaled[e->tile_rows + row];
            int64_t p = round_half_up(is_draw ? s : 3 * s, shift), m = round_half_up(is_draw ? d : s, shift);
            some |= p != 0;
            terms[2 * row] = (int32_t)(m - p);
            terms[2 * row + 1] = (int32_t)(-p - m);
            found.offset += p;
            found.largest += largest(size_of(p), size_of(m));
        }
        found.digits += !is_draw && found.digits == digit && some;
    }
    return found;
}

/* Change the weights of a chunk group by group, as the hardware does, and count those that are clipped. */
static void update_by_group(const struct epoch *e, int64_t output, int64_t rows, int64_t chunk, int64_t prox)
{
    int64_t columns = e->shape.rows_per_beat, base_digits = e->shape.base_digits, clipped = 0;
    e->arrays.ceilings[output * e->shape.chunks + chunk] = UNKNOWN;
    for (int64_t j = 0; j < least(CHUNK, e->shape.features - chunk * CHUNK); j++) {
        int64_t feature = chunk * CHUNK + j, exact = 0;
        int32_t *stored = e->arrays.master + output * e->padded + feature;
        int64_t master = *stored;
        for (int64_t first = 0; first < rows; first += columns) {
            int64_t change = 0;
            for (int64_t row = first; row < least(first + columns, rows); row++)
                for (int64_t digit = 0; digit < base_digits + e->shape.draws; digit++) {
                    int64_t word = digit == base_digits
                                       ? e->draws[e->arrays.draw_at[row] + chunk * columns]
                                       : e->base[e->arrays.base_at[row] + (chunk * base_digits + digit) * columns];
                    const int32_t *term = e->arrays.terms + 2 * (digit * rows + row);
                    int64_t low = term[0], high = term[1];
                    change += low * (word >> 2 * j & 1) + high * (word >> (2 * j + 1) & 1) - ((low + high) >> 1);
                }
            exact = master + change;
            master = clip(exact, MASTER_LOW, MASTER_HIGH, &clipped);
        }
        if (prox != PROX_NONE && master == exact && feature < e->rules.proximal)
            master = proximal_step(prox, &e->rules, master);
        *stored = (int32_t)master;
    }
    e->arrays.counters[SATURATIONS] += clipped;
}

/* Subtract the changes by the rows of a tile from the master weights, then apply the proximal operator. */
static void update_digits(const struct epoch *e, int64_t output, int64_t rows, int64_t prox)
{
    struct terms found = digit_terms(e, rows);
    int64_t columns = e->shape.rows_per_beat, base_digits = e->shape.base_digits;
    int32_t *sums = e->arrays.sums;
    for (int64_t chunk = 0; chunk < e->shape.chunks; chunk++) {
        if (!has_room(e, output, chunk, found.largest)) {
            update_by_group(e, output, rows, chunk, prox);
            continue;
        }
        memset(sums, 0, LANES * sizeof *sums);
        for (int64_t digit = 0; digit < found.digits; digit++)
            add_terms(e->base + (chunk * base_digits + digit) * columns, e->arrays.base_at, rows,
                      e->arrays.terms + 2 * digit * rows, sums);
        if (e->shape.draws)
            add_terms(e->draws + chunk * columns, e->arrays.draw_at, rows, e->arrays.terms + 2 * base_digits * rows,
                      sums);
        int32_t *master = e->arrays.master + output * e->padded + chunk * CHUNK;
        int64_t count = least(CHUNK, e->shape.features - chunk * CHUNK);
        for (int64_t j = 0; j < count; j++) /* sums that wrapped are right again: the weight is within 32 bits */
            master[j] = (int32_t)(master[j] + (int64_t)sums[2 * j] + sums[2 * j + 1] + found.offset);
        if (prox != PROX_NONE) {
            for (int64_t j = 0; j < least(count, e->rules.proximal - chunk * CHUNK); j++)
                master[j] = (int32_t)proximal_step(prox, &e->rules, master[j]);
            if (prox == PROX_BOX)
                e->arrays.ceilings[output * e->shape.chunks + chunk] = UNKNOWN;
        }
    }
}

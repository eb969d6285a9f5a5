/* The scalar stage of a row: slopes and loss of its dot products, then s and d. */

/* Return the slope of one copy for a further loss, twice its loss in units of 2**-40, and the number of clipped values. */
static inline int64_t further_slope(const struct rules *rules, int64_t dot, int64_t label, int64_t *copy_loss,
                                    int64_t *clipped)
{
    int64_t loss = rules->further_loss, epsilon = rules->epsilon, ignored = 0;
    if (loss == FURTHER_SQUARED_HINGE || loss == FURTHER_MODIFIED_HUBER) {
        int64_t z = clip(dot, RESIDUAL_LOW, RESIDUAL_HIGH, &ignored), v = largest(ONE - (label >= 0 ? z : -z), 0);
        int64_t size = loss == FURTHER_MODIFIED_HUBER ? least(v, LARGEST_SLOPE) : clip(v, 0, RESIDUAL_HIGH, clipped);
        *copy_loss = loss == FURTHER_MODIFIED_HUBER ? size * (2 * v - size) : size * size;
        return label >= 0 ? -size : size;
    }
    int64_t z = clip(dot, RESIDUAL_LOW, RESIDUAL_HIGH, clipped);
    int64_t r = clip(z - (label << LABEL_SHIFT), RESIDUAL_LOW, RESIDUAL_HIGH, clipped), size = size_of(r);
    if (loss == FURTHER_HUBER) {
        int64_t inside = least(size, epsilon);
        *copy_loss = inside * (2 * size - inside);
        return r < 0 ? -inside : inside;
    }
    int64_t outside = largest(size - epsilon, 0), slope = loss == FURTHER_EPSILON_INSENSITIVE ? ONE : outside;
    *copy_loss = loss == FURTHER_EPSILON_INSENSITIVE ? 2 * slope * outside : outside * outside;
    return outside == 0 ? 0 : r < 0 ? -slope : slope;
}

/* Return the slope of one copy, and its loss and the number of clipped values; squares have no loss of a copy. */
static inline int64_t slope(int64_t loss, int64_t dot, int64_t label, const int64_t *sigmoid, int64_t *copy_loss,
                            int64_t *clipped)
{
    int64_t ignored = 0, z = clip(dot, RESIDUAL_LOW, RESIDUAL_HIGH, loss == LOSS_SQUARES ? clipped : &ignored);
    if (loss == LOSS_SQUARES)
        return clip(z - (label << LABEL_SHIFT), RESIDUAL_LOW, RESIDUAL_HIGH, clipped);
    if (loss == LOSS_HINGE) {
        int64_t margin = ONE - (label >= 0 ? z : -z);
        *copy_loss = largest(margin, 0);
        return margin <= 0 ? 0 : label >= 0 ? -ONE : ONE;
    }
    int64_t cell = (z >= 0 ? z : ~z) >> CELL_BITS, tail = sigmoid[cell];
    *copy_loss = largest(label >= 0 ? -z : z, 0) + sigmoid[SIGMOID_CELLS + cell];
    return (z >= 0 ? ONE - tail : tail) - (label >= 0 ? ONE : 0);
}

/* Store s and d of the rows of a tile for an output; add up losses and saturations.
 *
 * `first_group` is the first group of the tile in its batch.
 */
static void scaled_gradients(const struct epoch *e, int64_t output, int64_t rows, int64_t first_group)
{
    const struct arrays *arrays = &e->arrays;
    const struct rules rules = e->rules;
    int64_t rows_per_beat = e->shape.rows_per_beat, seed = arrays->counters[SEED], total = 0, clipped = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t label = arrays->labels[output * e->tile_rows + row], slopes[2], losses[2] = {0, 0};
        for (int i = 0; i < 2; i++) {
            int64_t dot = arrays->dots[i * e->tile_rows + row];
            slopes[i] = rules.further_loss ? further_slope(&rules, dot, label, losses + i, &clipped)
                                           : slope(rules.loss, dot, label, arrays->sigmoid, losses + i, &clipped);
        }
        if (rules.further_loss)
            total += round_half_up(losses[0] + losses[1], FURTHER_LOSS_SHIFT);
        else if (rules.loss == LOSS_SQUARES)
            total += round_half_up(slopes[0] * slopes[1], LOSS_SHIFT);
        else
            total += (losses[0] + losses[1]) << HALF_LOSS_SHIFT;
        int64_t mantissa = label < 0 ? rules.mantissa_negative : rules.mantissa;
        int64_t shift = label < 0 ? rules.shift_negative : rules.shift;
        for (int i = 0; i < 2; i++) {
            int64_t x = (i == 0 ? slopes[0] + slopes[1] : slopes[1] - slopes[0]) * mantissa;
            int64_t value = clip(round_half_up(x, shift), SCALED_LOW, SCALED_HIGH, &clipped);
            if (rules.scaled_gradient_cut) {
                int64_t group = row / rows_per_beat, column = row % rows_per_beat;
                uint32_t word = random_word(seed, first_group + group, arrays->gradient_lanes[2 * column + i]);
                x = round_at_random(value, word, rules.scaled_gradient_cut);
                value = clip(x, SCALED_LOW, SCALED_HIGH, &clipped);
            }
            arrays->scaled[i * e->tile_rows + row] = value;
        }
    }
    arrays->loss[output] += total;
    arrays->counters[SATURATIONS] += clipped;
}

/* Replace s and d of the rows of a tile by c_1 and c_2. */
static void level_coefficients(const struct epoch *e, int64_t rows)
{
    int64_t *s = e->arrays.scaled, *d = s + e->tile_rows, clipped = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t first = round_half_up(s[row] - d[row], LEVEL_COEFFICIENT_SHIFT);
        int64_t second = round_half_up(s[row] + d[row], LEVEL_COEFFICIENT_SHIFT);
        s[row] = clip(first, LEVEL_SCALED_LOW, LEVEL_SCALED_HIGH, &clipped);
        d[row] = clip(second, LEVEL_SCALED_LOW, LEVEL_SCALED_HIGH, &clipped);
    }
    e->arrays.counters[SATURATIONS] += clipped;
}

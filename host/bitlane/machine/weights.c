/* Master weights: saturation, the proximal operator, and the copy that dot products read. */

static inline int64_t proximal_step(int64_t prox, const struct rules *rules, int64_t master)
{
    if (prox == PROX_L1 || prox == PROX_L1_AND_SHRINK) {
        master = master > 0 ? largest(master - rules->threshold, 0) : least(master + rules->threshold, 0);
        return prox == PROX_L1 ? master : master - (master >> SHRINK_SHIFT);
    }
    if (prox == PROX_L2)
        return master - (master >> SHRINK_SHIFT);
    if (master >= rules->high)
        return rules->high;
    return largest(master, rules->low);
}

/* Advance a phase by a rate; return whether it carries. */
static int carries(int64_t *phase, int64_t rate)
{
    int64_t sum = *phase + rate;
    *phase = sum & ((INT64_C(1) << PHASE_BITS) - 1);
    return (sum >> PHASE_BITS) != 0;
}

/* Advance both phases at the end of a batch; return the proximal operator to apply. */
static int64_t end_batch(const struct epoch *e)
{
    int64_t *counters = e->arrays.counters, prox = e->rules.prox;
    int carried = carries(counters + PHASE, e->rules.rate);
    int shrinks = carries(counters + SHRINK_PHASE, e->rules.shrink_rate);
    if (prox == PROX_L2)
        return carried ? PROX_L2 : PROX_NONE;
    return prox == PROX_L1 && shrinks ? PROX_L1_AND_SHRINK : prox;
}

/* Write the weights that dot products read, and their sums, to a bank. */
static void publish(const struct epoch *e, int64_t bank)
{
    int64_t features = e->shape.features, seed = e->arrays.counters[SEED], cut = e->rules.model_cut, ignored = 0;
    const int64_t *lanes = e->arrays.model_lanes;
    int copies = e->shape.codebook ? 1 : 2;
    for (int64_t output = 0; output < e->shape.outputs; output++) {
        const int32_t *master = e->arrays.master + output * e->padded;
        int32_t *target = e->arrays.published + (bank * e->shape.outputs + output) * e->published;
        int64_t total = 0;
        for (int64_t j = 0; j < features; j++) {
            int64_t seen = master[j];
            if (cut) {
                uint32_t word = random_word(seed, j / CHUNK, lanes[j % CHUNK]);
                seen = clip(round_at_random(seen, word, cut), MASTER_LOW, MASTER_HIGH, &ignored);
            }
            seen >>= CUT_BITS;
            total += seen;
            for (int copy = 0; copy < copies; copy++)
                target[copies * j + copy] = (int32_t)seen;
        }
        e->arrays.totals[bank * e->shape.outputs + output] = total;
    }
}

/* Whether changes of at most this size, in any order, saturate no weight of a chunk; keeps its ceiling. */
static int has_room(const struct epoch *e, int64_t output, int64_t chunk, int64_t change)
{
    int64_t *ceiling = e->arrays.ceilings + output * e->shape.chunks + chunk;
    if (*ceiling + change > MASTER_HIGH) {
        const int32_t *master = e->arrays.master + output * e->padded;
        int64_t end = least((chunk + 1) * CHUNK, e->shape.features);
        *ceiling = 0;
        for (int64_t j = chunk * CHUNK; j < end; j++)
            *ceiling = largest(*ceiling, size_of(master[j]));
    }
    *ceiling += change;
    return *ceiling <= MASTER_HIGH;
}

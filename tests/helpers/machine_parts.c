/* Functions of `bitlane.machine` that tests call one by one: built behind integers.c and lanes.c. */

uint32_t test_random_word(int64_t seed, int64_t index, int64_t lane)
{
    return random_word(seed, index, lane);
}

int64_t test_round_half_up(int64_t x, int64_t n)
{
    return round_half_up(x, n);
}

int64_t test_round_at_random(int64_t x, uint32_t word, int64_t cut)
{
    return round_at_random(x, word, cut);
}

void test_plane_sums(const int64_t *first, const int64_t *second, int64_t step, const int32_t *weights, int64_t count,
                     int64_t *totals)
{
    const int64_t *rows[2] = {first, second};
    plane_sums(rows, step, weights, count, totals);
}

void test_add_terms(const int64_t *words, const int64_t *offsets, int64_t rows, const int32_t *terms, int32_t *sums)
{
    add_terms(words, offsets, rows, terms, sums);
}

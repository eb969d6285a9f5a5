/* Loops of `kernels.c` that tests call one by one: built behind it. All arrays have `count` elements, complete chunks. */

void test_positions(intptr_t count, const double *multipliers, const double *offsets, double top, double *values)
{
    struct rows rows = {.multipliers = multipliers, .offsets = offsets};
    for (intptr_t first = 0; first < count; first += CHUNK)
        positions(&rows, first, top, values + first);
}

void test_codes(intptr_t count, double last, const double *position, uint32_t *code, uint16_t *threshold,
                uint16_t *full)
{
    for (intptr_t first = 0; first < count; first += CHUNK) {
        intervals(position + first, last, code + first);
        thresholds(position + first, code + first, threshold + first, full + first);
    }
}

void test_words(intptr_t count, uint32_t of_row, const uint32_t *feature_offsets, uint16_t *high, uint16_t *low)
{
    for (intptr_t first = 0; first < count; first += CHUNK)
        random_halves(of_row, feature_offsets + first, high + first, low + first);
}

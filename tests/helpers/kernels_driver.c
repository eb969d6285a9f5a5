/* The encoder's kernels as a program, for emulators of other processors: one call, from standard input to output.
 *
 * Input: 13 numbers of 64 bits in the order of `enum number`, then the arrays of `struct rows`. There, integers of the
 * size of a pointer have 64 bits. Output: the words of the regions.
 */
#include "kernels.c"

#include <stdio.h>
#include <stdlib.h>

enum number {
    DRAWS, TYPE, COUNT, COLUMNS, VALUE_BYTES, FEATURES, BASE_BITS, RUNS, RANDOM, SETS, STRIDE, WORDS, POINTER, NUMBERS
};

static void *take(int64_t count, size_t size)
{
    void *array = calloc((size_t)count + 1, size);
    if (!array || fread(array, size, (size_t)count, stdin) != (size_t)count)
        exit(2);
    return array;
}

static intptr_t *take_indices(int64_t count)
{
    int64_t *wide = take(count, sizeof *wide);
    intptr_t *narrow = calloc((size_t)count + 1, sizeof *narrow);
    for (int64_t i = 0; narrow && i < count; i++)
        narrow[i] = (intptr_t)wide[i];
    return narrow;
}

int main(void)
{
    const int64_t *n = take(NUMBERS, sizeof *n);
    int64_t padded = (n[FEATURES] + CHUNK - 1) / CHUNK * CHUNK;
    struct rows rows;
    if (n[POINTER] != (int64_t)sizeof(void *))
        return 3; /* compiled for another kind of processor than the test wants */
    rows.type = (intptr_t)n[TYPE];
    rows.count = (intptr_t)n[COUNT];
    rows.columns = (intptr_t)n[COLUMNS];
    rows.features = (intptr_t)n[FEATURES];
    rows.base_bits = (intptr_t)n[BASE_BITS];
    rows.stride = (intptr_t)n[STRIDE];
    rows.values = take(n[COUNT] * n[COLUMNS], (size_t)n[VALUE_BYTES]);
    rows.multipliers = take(padded, sizeof(double));
    rows.offsets = take(padded, sizeof(double));
    rows.runs = take_indices(3 * n[RUNS]);
    rows.of_rows = take(n[RANDOM] * n[COUNT], sizeof(uint32_t));
    rows.masks = take(n[SETS], sizeof(uint32_t));
    rows.feature_offsets = take(padded, sizeof(uint32_t));
    rows.sets = (intptr_t)n[SETS];
    rows.region = (intptr_t)(n[SETS] ? n[WORDS] / n[SETS] : n[WORDS]);
    rows.row_offsets = take_indices(n[COUNT]);
    rows.words = take(n[WORDS], sizeof(uint64_t));
    if (!n[RANDOM])
        rows.of_rows = NULL;
    if (n[DRAWS])
        bitlane_encode_draws(&rows);
    else
        bitlane_encode_base(&rows);
    return fwrite(rows.words, sizeof(uint64_t), (size_t)n[WORDS], stdout) != (size_t)n[WORDS];
}

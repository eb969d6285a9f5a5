/* Runs gram.c on another machine: reads rows, columns and the codes, and writes what the library's callers read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern const int bitlane_gram_unit, bitlane_gram_offset;
void bitlane_gram_pack(const int8_t *, intptr_t, intptr_t, intptr_t, uint32_t *, uint32_t *);
void bitlane_gram_multiply(const uint32_t *, const uint32_t *, intptr_t, intptr_t, intptr_t, intptr_t, int64_t *);

int main(void)
{
    int32_t shape[2];
    if (fread(shape, sizeof *shape, 2, stdin) != 2)
        return 1;
    size_t rows = (size_t)shape[0], columns = (size_t)shape[1], width = (columns + PANEL - 1) / PANEL * PANEL;
    int8_t *codes = malloc(rows * columns);
    uint32_t *packed = calloc(width * SLICE, sizeof *packed), *shifted = calloc(width * SLICE, sizeof *shifted);
    int64_t *sums = calloc(columns, sizeof *sums);
    int64_t *gram = calloc(width * width, sizeof *gram);
    if (fread(codes, 1, rows * columns, stdin) != rows * columns)
        return 1;
    for (size_t first = 0; first < rows; first += SLICE) {
        intptr_t count = (intptr_t)(rows - first < SLICE ? rows - first : SLICE);
        bitlane_gram_pack(codes + first * columns, count, (intptr_t)columns, 0, packed, shifted);
        bitlane_gram_multiply(packed, shifted, count, (intptr_t)columns, 0, 1, gram);
    }
    for (size_t i = 0; i < rows * columns; i++)
        sums[i % columns] += codes[i];
    for (size_t i = 0; i < columns; i++)
        for (size_t j = i; j < columns; j++)
            gram[i * width + j] -= bitlane_gram_offset * sums[i];
    fwrite(gram, sizeof *gram, width * width, stdout);
    return 0;
}

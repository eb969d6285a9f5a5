/* Exact Gram matrices of small integers, in C99 with gcc's vector types.
 *
 * gram.py builds this file as a library, and calls it through ctypes: `bitlane_gram_pack` for each slice of rows, then
 * `bitlane_gram_multiply` for its products.
 *
 * A unit is 32 bits with the codes of UNIT consecutive rows of a column: what one lane of a product reads. Packed codes
 * are panels of PANEL columns, [panels][depth][PANEL] units, of a slice of at most SLICE rows. A tile of ROWS x COLUMNS
 * products of columns stays in registers over all rows of a slice.
 *
 * vpdpbusd multiplies unsigned by signed bytes. So the columns of a tile are codes + 128, and a product is the sum of
 * (code_j + 128) code_i: the caller subtracts OFFSET times the sum of code_i. All other instructions have OFFSET 0.
 *
 * No sum of 32 bits overflows: a term is at most 255 * 128 in absolute value, and a slice has at most SLICE of them.
 * The pair that vpmaddwd adds is at most 2 * 128 * 128. Sums of slices have 64 bits.
 *
 * The assembly is one instruction or two in each case. gcc 12 moves accumulators to memory and back where intrinsics
 * stand in its place, and takes twice the time.
 */
#include <stdint.h>
#include <string.h>

#if !defined(SLICE) || !defined(PANEL)
#error "gram.c needs the definitions that bitlane.solvers.gram passes"
#endif
#if SLICE % 4 || SLICE > 65793
#error "sums of 32 bits could overflow: 65793 * 255 * 128 is the largest that fits"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "units of codes need a little-endian machine"
#endif

#define VECTOR(bytes)                                                                                                  \
    typedef int32_t vector __attribute__((vector_size(bytes)));                                                        \
    typedef int32_t half __attribute__((vector_size((bytes) / 2)));                                                    \
    typedef int64_t wide __attribute__((vector_size(bytes)))
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512VNNI__)
#define UNIT 4
#define OFFSET 128
#define ROWS 8
#define VECTORS 3
VECTOR(64);
INLINE vector multiply_add(vector sum, vector row, vector column)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(column), "v"(row));
    return sum;
}
#elif defined(__AVX512BW__)
#define UNIT 2
#define ROWS 8
#define VECTORS 3
VECTOR(64);
INLINE vector multiply_add(vector sum, vector row, vector column)
{
    vector pairs;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "=&v"(pairs) : "v"(column), "v"(row));
    return sum;
}
#elif defined(__AVXVNNI__)
#define UNIT 4
#define OFFSET 128
#define ROWS 6
#define VECTORS 2
VECTOR(32);
INLINE vector multiply_add(vector sum, vector row, vector column)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(column), "x"(row));
    return sum;
}
#elif defined(__AVX2__)
#define UNIT 2
#define ROWS 6
#define VECTORS 2
VECTOR(32);
INLINE vector multiply_add(vector sum, vector row, vector column)
{
    vector pairs;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(pairs) : "x"(column), "x"(row));
    return sum;
}
#elif defined(__SSE2__)
#define UNIT 2
#define ROWS 4
#define VECTORS 2
VECTOR(16);
INLINE vector multiply_add(vector sum, vector row, vector column)
{
    __asm__("pmaddwd %2, %1\n\tpaddd %1, %0" : "+x"(sum), "+x"(column) : "x"(row));
    return sum;
}
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#define UNIT 4
#define ROWS 8
#define VECTORS 3
VECTOR(16);
INLINE vector multiply_add(vector sum, vector row, vector column)
{
    return (vector)vdotq_s32((int32x4_t)sum, (int8x16_t)row, (int8x16_t)column);
}
#else /* products of 32 bits: NEON without dot products, and all other machines */
#define UNIT 1
#define ROWS 4
#define VECTORS 2
VECTOR(16);
INLINE vector multiply_add(vector sum, vector row, vector column)
{
    return sum + row * column;
}
#endif
#ifndef OFFSET
#define OFFSET 0
#endif

#define LANES ((intptr_t)(sizeof(vector) / sizeof(int32_t)))
#define COLUMNS (VECTORS * LANES)
#define PRAGMA(text) _Pragma(#text)
#define UNROLL PRAGMA(GCC unroll 8)

/* As gram.py reads it: what it has to subtract, and the sizes of its arrays. */
const int bitlane_gram_unit = UNIT, bitlane_gram_offset = OFFSET;

INLINE uint32_t unit_of(const int8_t *code, intptr_t stride)
{
#if UNIT == 4
    return (uint32_t)(uint8_t)code[0] | (uint32_t)(uint8_t)code[stride] << 8 |
           (uint32_t)(uint8_t)code[2 * stride] << 16 | (uint32_t)(uint8_t)code[3 * stride] << 24;
#elif UNIT == 2
    return (uint32_t)(uint16_t)code[0] | (uint32_t)code[stride] << 16;
#else
    (void)stride;
    return (uint32_t)(int32_t)code[0];
#endif
}

/* Write UNIT rows of `columns` columns as units, from column `first` of the panels on, and add them to sums. */
INLINE void pack_rows(const int8_t *codes, intptr_t stride, intptr_t columns, intptr_t first, intptr_t panel,
                      uint32_t *rows, uint32_t *shifted, int32_t *sums)
{
    for (intptr_t done = 0, take; done < columns; done += take) {
        intptr_t inside = (first + done) % PANEL, at = (first + done) / PANEL * panel + inside;
        const int8_t *from = codes + done;
        uint32_t *row = rows + at, *column = shifted + at;
        take = PANEL - inside < columns - done ? PANEL - inside : columns - done;
        for (intptr_t j = 0; j < take; j++) {
            uint32_t unit = unit_of(from + j, stride);
            row[j] = unit;
            if (OFFSET)
                column[j] = unit ^ 0x80808080;
        }
        for (intptr_t j = 0; j < take; j++) {
            int32_t sum = from[j];
            for (int k = 1; k < UNIT; k++)
                sum += from[j + k * stride];
            sums[done + j] += sum;
        }
    }
}

/* Pack a slice [count][columns], count <= SLICE, as columns `first` and on of `rows` and, with OFFSET, of `shifted`,
 * and add each column to sums [columns]. Missing rows of the last units are zeros. */
void bitlane_gram_pack(const int8_t *codes, intptr_t count, intptr_t columns, intptr_t first, uint32_t *rows,
                       uint32_t *shifted, int32_t *sums)
{
    intptr_t depth = (count + UNIT - 1) / UNIT, full = count / UNIT;
    for (intptr_t k = 0; k < full; k++)
        pack_rows(codes + k * UNIT * columns, columns, columns, first, depth * PANEL, rows + k * PANEL,
                  shifted + k * PANEL, sums);
    if (full == depth)
        return;
    for (intptr_t done = 0; done < columns; done += PANEL) { /* `rest` holds the last rows of a panel */
        int8_t rest[UNIT * PANEL] = {0};
        intptr_t take = columns - done < PANEL ? columns - done : PANEL;
        for (intptr_t i = full * UNIT; i < count; i++)
            memcpy(rest + (i - full * UNIT) * PANEL, codes + i * columns + done, (size_t)take);
        pack_rows(rest, PANEL, take, first + done, depth * PANEL, rows + full * PANEL, shifted + full * PANEL,
                  sums + done);
    }
}

/* Add the products of ROWS columns with COLUMNS columns to `gram`, whose rows have `width` sums. */
static void tile(const uint32_t *row, const uint32_t *column, intptr_t depth, int64_t *gram, intptr_t width)
{
    vector sums[ROWS][VECTORS];
    int32_t found[ROWS * COLUMNS];
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < VECTORS; v++) sums[i][v] = (vector){0};
    for (intptr_t k = 0; k < depth; k++) {
        vector columns[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) memcpy(&columns[v], column + v * LANES, sizeof(vector));
        UNROLL for (int i = 0; i < ROWS; i++)
        {
            vector same = (vector){0} + (int32_t)row[i];
            UNROLL for (int v = 0; v < VECTORS; v++) sums[i][v] = multiply_add(sums[i][v], same, columns[v]);
        }
        row += PANEL;
        column += PANEL;
    }
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < VECTORS; v++) memcpy(found + i * COLUMNS + v * LANES, &sums[i][v], sizeof(vector));
    for (intptr_t i = 0; i < ROWS; i++)
        for (intptr_t j = 0; j < COLUMNS; j += LANES / 2) {
            half sums32;
            wide total;
            memcpy(&sums32, found + i * COLUMNS + j, sizeof sums32);
            memcpy(&total, gram + i * width + j, sizeof total);
            total += __builtin_convertvector(sums32, wide);
            memcpy(gram + i * width + j, &total, sizeof total);
        }
}

/* Add the products of a packed slice to gram [PANEL panels][PANEL panels]: tiles on and above the diagonal, of every
 * `step`-th panel from `start` on, so that threads share the work. */
void bitlane_gram_multiply(const uint32_t *rows, const uint32_t *shifted, intptr_t count, intptr_t columns,
                           intptr_t start, intptr_t step, int64_t *gram)
{
    intptr_t depth = (count + UNIT - 1) / UNIT, panels = (columns + PANEL - 1) / PANEL;
    for (intptr_t panel = start; panel < panels; panel += step)
        for (intptr_t inside = 0; inside < PANEL && panel * PANEL + inside < columns; inside += COLUMNS) {
            intptr_t first = panel * PANEL + inside, end = first + COLUMNS < columns ? first + COLUMNS : columns;
            const uint32_t *column = (OFFSET ? shifted : rows) + panel * depth * PANEL + inside;
            for (intptr_t i = 0; i < end; i += ROWS)
                tile(rows + i / PANEL * depth * PANEL + i % PANEL, column, depth, gram + i * panels * PANEL + first,
                     panels * PANEL);
        }
}

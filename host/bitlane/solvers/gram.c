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

#define VECTOR(size)                                                                                                   \
    typedef int32_t vector __attribute__((vector_size(size)));                                                         \
    typedef int32_t half __attribute__((vector_size((size) / 2)));                                                    \
    typedef int64_t wide __attribute__((vector_size(size)))
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
/* Interleaves two vectors of 16 bytes; gcc before 12 has no shufflevector. */
typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint16_t shorts __attribute__((vector_size(16)));
#define LOW_BYTES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_BYTES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_SHORTS 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_SHORTS 4, 12, 5, 13, 6, 14, 7, 15
#if defined(__clang__)
#define MIX(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif
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

/* Write UNIT rows of `count` columns as units. */
INLINE void pack_units(const int8_t *restrict codes, intptr_t stride, intptr_t count, uint32_t *restrict row,
                       uint32_t *restrict column)
{
    for (intptr_t j = 0; j < count; j++) {
        uint32_t unit = unit_of(codes + j, stride);
        row[j] = unit;
        if (OFFSET)
            column[j] = unit ^ 0x80808080;
    }
}

#if UNIT == 4
/* The same for PANEL columns, in a third of the time. */
INLINE void pack_full(const int8_t *codes, intptr_t stride, uint32_t *row, uint32_t *column)
{
    for (intptr_t j = 0; j < PANEL; j += 16) {
        bytes of[4];
        UNROLL for (int k = 0; k < 4; k++) memcpy(&of[k], codes + k * stride + j, sizeof(bytes));
        shorts low01 = (shorts)MIX(bytes, of[0], of[1], LOW_BYTES), low23 = (shorts)MIX(bytes, of[2], of[3], LOW_BYTES);
        shorts high01 = (shorts)MIX(bytes, of[0], of[1], HIGH_BYTES);
        shorts high23 = (shorts)MIX(bytes, of[2], of[3], HIGH_BYTES);
        bytes units[4] = {
            (bytes)MIX(shorts, low01, low23, LOW_SHORTS),
            (bytes)MIX(shorts, low01, low23, HIGH_SHORTS),
            (bytes)MIX(shorts, high01, high23, LOW_SHORTS),
            (bytes)MIX(shorts, high01, high23, HIGH_SHORTS),
        };
        UNROLL for (int k = 0; k < 4; k++)
        {
            bytes turned = units[k] ^ 0x80;
            memcpy(row + j + 4 * k, &units[k], sizeof(bytes));
            if (OFFSET)
                memcpy(column + j + 4 * k, &turned, sizeof(bytes));
        }
    }
}
#else
INLINE void pack_full(const int8_t *codes, intptr_t stride, uint32_t *row, uint32_t *column)
{
    pack_units(codes, stride, PANEL, row, column);
}
#endif

/* Pack `count` rows of `take` columns, at most PANEL, of a table with `columns` columns. */
INLINE void pack_panel(const int8_t *codes, intptr_t count, intptr_t columns, intptr_t take, uint32_t *row,
                       uint32_t *column)
{
    int8_t rest[UNIT * PANEL] = {0};
    for (; count >= UNIT; count -= UNIT) {
        if (take == PANEL)
            pack_full(codes, columns, row, column);
        else
            pack_units(codes, columns, take, row, column);
        codes += UNIT * columns;
        row += PANEL;
        column += OFFSET ? PANEL : 0;
    }
    for (intptr_t i = 0; i < count; i++)
        memcpy(rest + i * PANEL, codes + i * columns, (size_t)take);
    if (count)
        pack_units(rest, PANEL, take, row, column);
}

/* Pack a slice [count][columns], count <= SLICE, as columns `first` and on of `rows` and, with OFFSET, of `shifted`.
 * Missing rows of the last units are zeros. */
void bitlane_gram_pack(const int8_t *codes, intptr_t count, intptr_t columns, intptr_t first, uint32_t *rows,
                       uint32_t *shifted)
{
    intptr_t panel = (count + UNIT - 1) / UNIT * PANEL;
    for (intptr_t done = 0, take; done < columns; done += take) {
        intptr_t inside = (first + done) % PANEL, at = (first + done) / PANEL * panel + inside;
        take = PANEL - inside < columns - done ? PANEL - inside : columns - done;
        pack_panel(codes + done, count, columns, take, rows + at, shifted + at);
    }
}

/* Add the products of ROWS columns with COLUMNS columns to `gram`, whose rows have `width` sums. */
static void tile(const uint32_t *row, const uint32_t *column, intptr_t depth, int64_t *gram, intptr_t width)
{
    vector sums[ROWS][VECTORS];
    int32_t found[ROWS * COLUMNS];
    UNROLL for (int i = 0; i < ROWS; i++)
        UNROLL for (int v = 0; v < VECTORS; v++) sums[i][v] = (vector){0};
    for (int i = 0; i < ROWS; i++) /* what the sums are added to comes from memory meanwhile */
        for (intptr_t j = 0; j < COLUMNS; j += 8)
            __builtin_prefetch(gram + i * width + j, 1, 2);
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

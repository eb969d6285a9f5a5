/* Encoding of rows in one pass, in C99: positions, codes, random words, draws and digits, with the bits of numpy.
 *
 * c_kernels.py builds this file as a library with the constants of the contract, which it defines on the command line,
 * and calls it through ctypes. The file needs no other code, and no more than 32 bits in a pointer.
 *
 * Every loop runs over the 32 features of a chunk. A compiler knows its length and makes vector instructions of it, and
 * nothing needs memory of the size of a row. The arrays of the features are padded with zeros to complete chunks: a
 * multiplier and an offset of 0 make a position of 0, which makes codes and draws of 0.
 */
#include <float.h>
#include <stdint.h>
#include <string.h>

#if !defined(POSITION_FRACTION) || !defined(CUT) || !defined(CHUNK) || !defined(ROUND_KEYS)
#error "kernels.c needs the definitions that bitlane.quantization.c_kernels passes"
#endif
#if defined(__FAST_MATH__) || FLT_EVAL_METHOD < 0 || FLT_EVAL_METHOD == 2
#error "this compiler does not round each operation to a double, so that bits would differ"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the words of the accelerator need a little-endian machine"
#endif

#define INTERVAL ((double)(INT64_C(1) << POSITION_FRACTION))
#define DRAW_UNIT ((double)(1 << CUT))
#define INTEGERS 4503599627370496.0 /* 2**52: doubles from here on are integers */

enum value_type { UINT8, INT16, FLOAT32, FLOAT64 };

/* As `KernelArguments` in c_kernels.py. */
struct rows {
    const void *values; /* [count][columns], of `type` */
    intptr_t type;      /* enum value_type */
    intptr_t count, columns;
    const double *multipliers, *offsets; /* [features, padded] */
    intptr_t features, base_bits;
    const intptr_t *runs;            /* [][3]: the first feature, its column, the number of features */
    const uint32_t *of_rows;         /* [count]; NULL for base codes without random words */
    const uint32_t *masks;           /* [sets]: bits of the random words that a draw set inverts */
    intptr_t sets;                   /* of draws */
    const uint32_t *feature_offsets; /* [features, padded] */
    const intptr_t *row_offsets;     /* [count]: index in `words` of the first word of each row */
    intptr_t stride;                 /* from one word of a row to the next */
    uint64_t *words;                 /* a region; of draws [sets] */
    intptr_t region;                 /* words of a region */
};

/* Write `count` values of a row, from feature `first` on, and return the run of the feature after them. */
#define LOADER(name, type)                                                                                             \
    static const intptr_t *name(const type *row, const intptr_t *run, intptr_t first, intptr_t count, double *value)   \
    {                                                                                                                  \
        intptr_t done = 0, inside = first - run[0];                                                                    \
        if (run[2] - inside >= CHUNK && count == CHUNK) { /* a loop whose length the compiler knows */                 \
            for (int j = 0; j < CHUNK; j++)                                                                            \
                value[j] = (double)row[run[1] + inside + j];                                                           \
            return run + (run[2] - inside == CHUNK ? 3 : 0);                                                           \
        }                                                                                                              \
        while (done < count) {                                                                                         \
            intptr_t skip = first + done - run[0], left = run[2] - skip;                                               \
            intptr_t take = left < count - done ? left : count - done;                                                 \
            const type *from = row + run[1] + skip;                                                                    \
            for (intptr_t j = 0; j < take; j++)                                                                        \
                value[done + j] = (double)from[j];                                                                     \
            done += take;                                                                                              \
            run += take == left ? 3 : 0;                                                                               \
        }                                                                                                              \
        return run;                                                                                                    \
    }
LOADER(load_uint8, uint8_t)
LOADER(load_int16, int16_t)
LOADER(load_float32, float)
LOADER(load_float64, double)

static const intptr_t *load(const struct rows *rows, intptr_t row, intptr_t first, const intptr_t *run, double *value)
{
    intptr_t start = row * rows->columns, left = rows->features - first, count = left < CHUNK ? left : CHUNK;
    for (intptr_t j = count; j < CHUNK; j++)
        value[j] = 0.0;
    switch (rows->type) {
    case UINT8:
        return load_uint8((const uint8_t *)rows->values + start, run, first, count, value);
    case INT16:
        return load_int16((const int16_t *)rows->values + start, run, first, count, value);
    case FLOAT32:
        return load_float32((const float *)rows->values + start, run, first, count, value);
    default:
        return load_float64((const double *)rows->values + start, run, first, count, value);
    }
}

/* The floor without a library: a sum with 2**52 rounds to the nearest integer. */
static inline double floor_of(double x)
{
    double shift = x < 0.0 ? -INTEGERS : INTEGERS;
    double near = (x + shift) - shift;
    near -= near > x ? 1.0 : 0.0;
    return x > -INTEGERS && x < INTEGERS ? near : x;
}

/* Values become positions, in place. */
static void positions(const struct rows *rows, intptr_t first, double top, double *value)
{
    const double *multipliers = rows->multipliers + first, *offsets = rows->offsets + first;
    for (int j = 0; j < CHUNK; j++) {
        double position = floor_of(value[j] * multipliers[j]) + offsets[j];
        position = position > 0.0 ? position : 0.0;
        value[j] = position < top ? position : top;
    }
}

/* Positions move by half an interval, as naive sampling needs them. */
static void from_middles(double last, double *position)
{
    for (int j = 0; j < CHUNK; j++) {
        double moved = position[j] - 0.5 * INTERVAL;
        moved = moved > 0.0 ? moved : 0.0;
        position[j] = moved < last * INTERVAL ? moved : last * INTERVAL;
    }
}

/* Base codes; `last` is the largest. */
static void intervals(const double *position, double last, uint32_t *code)
{
    for (int j = 0; j < CHUNK; j++) {
        double interval = position[j] * (1.0 / INTERVAL);
        code[j] = (uint32_t)(interval < last ? interval : last);
    }
}

/* Thresholds of draws: 16 bits, and the bit above, with which a draw is always 1. */
static void thresholds(const double *position, const uint32_t *code, uint16_t *threshold, uint16_t *full)
{
    for (int j = 0; j < CHUNK; j++) {
        double inside = position[j] - (double)code[j] * INTERVAL;
        int32_t found = (int32_t)((inside + 0.5 * DRAW_UNIT) * (1.0 / DRAW_UNIT));
        threshold[j] = (uint16_t)found;
        full[j] = (uint16_t)(found >> 16);
    }
}

static inline uint16_t rotated(uint16_t half, int left)
{
    return (uint16_t)(half << left | half >> (16 - left));
}

/* The halves of the random words of a row. */
static void random_halves(uint32_t of_row, const uint32_t *feature_offsets, uint16_t *high, uint16_t *low)
{
    static const uint16_t keys[] = {ROUND_KEYS};
    for (int j = 0; j < CHUNK; j++) {
        uint32_t word = of_row + feature_offsets[j];
        uint16_t left = (uint16_t)(word >> 16), right = (uint16_t)word;
        for (size_t round = 0; round < sizeof keys / sizeof *keys; round++) {
            uint16_t mixed = right ^ (rotated(left, 1) & rotated(left, 8)) ^ rotated(left, 2) ^ keys[round];
            right = left;
            left = mixed;
        }
        high[j] = left;
        low[j] = right;
    }
}

/* One digit, 0 to 3, of the bytes of a chunk as a word: feature j in bits 2j + 1 and 2j. */
static uint64_t packed(const uint8_t *bytes, int digit)
{
    uint8_t quarters[CHUNK / 4];
    uint64_t word;
    for (int k = 0; k < CHUNK / 4; k++) {
        uint32_t four;
        memcpy(&four, bytes + 4 * k, sizeof four);
        four = four >> 2 * digit & 0x03030303;
        four = (four | four >> 6) & 0x000F000F;
        quarters[k] = (uint8_t)(four | four >> 12);
    }
    memcpy(&word, quarters, sizeof word);
    return word;
}

/* Write the draw words of rows for several draw sets of a group. */
void bitlane_encode_draws(const struct rows *rows)
{
    double last = (double)((INT64_C(1) << rows->base_bits) - 1), top = (last + 1.0) * INTERVAL;
    for (intptr_t i = 0; i < rows->count; i++) {
        const intptr_t *run = rows->runs;
        uint64_t *word = rows->words + rows->row_offsets[i];
        for (intptr_t first = 0; first < rows->features; first += CHUNK) {
            double position[CHUNK];
            uint32_t code[CHUNK];
            uint16_t high[CHUNK], low[CHUNK], threshold[CHUNK], full[CHUNK];
            run = load(rows, i, first, run, position);
            positions(rows, first, top, position);
            intervals(position, last, code);
            thresholds(position, code, threshold, full);
            random_halves(rows->of_rows[i], rows->feature_offsets + first, high, low);
            for (intptr_t set = 0; set < rows->sets; set++) {
                uint16_t of_high = (uint16_t)(rows->masks[set] >> 16), of_low = (uint16_t)rows->masks[set];
                uint8_t draws[CHUNK];
                for (int j = 0; j < CHUNK; j++) {
                    uint16_t u1 = high[j] ^ of_high, u2 = low[j] ^ of_low;
                    draws[j] = (uint8_t)(((u1 < threshold[j]) | full[j]) << 1 | (u2 < threshold[j]) | full[j]);
                }
                word[set * rows->region] = packed(draws, 0);
            }
            word += rows->stride;
        }
    }
}

/* Write the base words of rows. */
void bitlane_encode_base(const struct rows *rows)
{
    double last = (double)((INT64_C(1) << rows->base_bits) - 1), top = (last + 1.0) * INTERVAL;
    int digits = (int)rows->base_bits / 2;
    for (intptr_t i = 0; i < rows->count; i++) {
        const intptr_t *run = rows->runs;
        uint64_t *words = rows->words + rows->row_offsets[i];
        for (intptr_t first = 0; first < rows->features; first += CHUNK) {
            double position[CHUNK];
            uint32_t code[CHUNK];
            run = load(rows, i, first, run, position);
            positions(rows, first, top, position);
            if (rows->of_rows)
                from_middles(last, position);
            intervals(position, last, code);
            if (rows->of_rows) { /* naive sampling: one draw; the last code has a threshold of 0 */
                uint16_t high[CHUNK], low[CHUNK], threshold[CHUNK], full[CHUNK];
                thresholds(position, code, threshold, full);
                random_halves(rows->of_rows[i], rows->feature_offsets + first, high, low);
                for (int j = 0; j < CHUNK; j++)
                    code[j] += (uint32_t)((high[j] < threshold[j]) | full[j]);
            }
            for (int digit = 0; digit < digits; digit++) {
                static const int in_byte = 4;
                uint8_t bytes[CHUNK];
                if (digit % in_byte == 0)
                    for (int j = 0; j < CHUNK; j++)
                        bytes[j] = (uint8_t)(code[j] >> 2 * digit);
                words[(digits - 1 - digit) * rows->stride] = packed(bytes, digit % in_byte);
            }
            words += digits * rows->stride;
        }
    }
}

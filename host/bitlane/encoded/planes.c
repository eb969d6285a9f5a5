/* Digit planes of blocks of rows: floats to planes, planes to codes, planes to the words of the accelerator, draws.
 *
 * planes.py builds this file behind kernels.c of bitlane.quantization, whose loaders, positions and packing it uses.
 *
 * Plane k of a block is uint64 [rows][chunks]: the k-th radix-4 digit of the codes, the most significant one first.
 * Byte t of a row of a plane holds features 4t to 4t + 3, feature f of them in bits 2f and 2f + 1.
 */

/* --- values to planes --- */

/* Write the first `digits` planes of rows. `rows->region` is the distance of two planes in words; the words of a row lie side by side.
 * Count in clipped[j] how often feature j is beyond its scale by more than 2**-24 of it. All values are finite. */
void bitlane_encode_planes(const struct rows *rows, intptr_t digits, int64_t *clipped)
{
    double last = (double)((INT64_C(1) << rows->base_bits) - 1), top = (last + 1.0) * INTERVAL;
    double slack = top * (1.0 / 33554432.0) + 1.0; /* 2**-25: the scale is half of the range */
    int below = (int)(rows->base_bits - 2 * digits);
    for (intptr_t i = 0; i < rows->count; i++) {
        const intptr_t *run = rows->runs;
        uint64_t *words = rows->words + rows->row_offsets[i];
        for (intptr_t first = 0; first < rows->features; first += CHUNK) {
            const double *multipliers = rows->multipliers + first, *offsets = rows->offsets + first;
            double position[CHUNK];
            uint32_t code[CHUNK];
            int32_t beyond = 0;
            run = load(rows, i, first, run, position);
            for (int j = 0; j < CHUNK; j++) {
                double place = position[j] * multipliers[j] + offsets[j];
                beyond |= place < -slack || place > top + slack;
            }
            if (beyond) /* rare */
                for (int j = 0; j < CHUNK && first + j < rows->features; j++) {
                    double place = position[j] * multipliers[j] + offsets[j];
                    clipped[first + j] += place < -slack || place > top + slack;
                }
            positions(rows, first, top, position);
            intervals(position, last, code);
            for (int digit = 0; digit < (int)digits; digit++) {
                static const int in_byte = 4;
                uint8_t bytes[CHUNK];
                if (digit % in_byte == 0)
                    for (int j = 0; j < CHUNK; j++)
                        bytes[j] = (uint8_t)(code[j] >> (below + 2 * digit));
                words[(digits - 1 - digit) * rows->region] = packed(bytes, digit % in_byte);
            }
            words++;
        }
    }
}

/* --- planes to codes --- */

/* The 4 x 4 digits of four bytes, transposed: digit f of byte k becomes digit k of byte f. */
static inline uint32_t transposed(uint32_t x)
{
    uint32_t moved = (x ^ x >> 6) & 0x00CC00CC;
    x ^= moved ^ moved << 6;
    moved = (x ^ x >> 12) & 0x0000F0F0;
    return x ^ moved ^ moved << 12;
}

/* Write the signed codes of a chunk of `digits` planes, a constant. The loop has a length that a compiler knows. */
static inline void chunk_codes(const uint8_t *plane, intptr_t stride, int digits, uint8_t *code)
{
    uint32_t codes[CHUNK / 4];
    uint8_t bytes[4][CHUNK / 4];
    for (int digit = 0; digit < digits; digit++)
        memcpy(bytes[digit], plane + digit * stride, CHUNK / 4);
    for (int t = 0; t < CHUNK / 4; t++) {
        uint32_t x = bytes[0][t];
        for (int digit = 1; digit < digits; digit++)
            x = x << 8 | bytes[digit][t];
        x = transposed(x);
        if (digits < 4)
            x = (x | 0x80808080u) - 0x01010101u * (1u << (2 * digits - 1));
        codes[t] = x ^ 0x80808080u;
    }
    memcpy(code, codes, CHUNK);
}

/* Write the signed codes of rows of `digits` planes, a constant. The last chunk of a row is written complete where there
 * is room: the next row overwrites what is too much. */
static inline void all_codes(const uint64_t *planes, intptr_t stride, intptr_t chunks, intptr_t count,
                             intptr_t features, int digits, uint8_t *code)
{
    const uint8_t *end = code + count * features;
    for (intptr_t i = 0; i < count; i++) {
        const uint8_t *plane = (const uint8_t *)(planes + i * chunks);
        uint8_t *next = code + features;
        for (intptr_t chunk = 0; chunk < chunks; chunk++, plane += CHUNK / 4, code += CHUNK) {
            if (end - code >= CHUNK) {
                chunk_codes(plane, stride, digits, code);
            } else {
                uint8_t last[CHUNK];
                chunk_codes(plane, stride, digits, last);
                memcpy(code, last, (size_t)(next - code < CHUNK ? next - code : CHUNK));
            }
        }
        code = next;
    }
}

/* Write int8 codes [count][features] of rows whose first plane begins at `planes`; a row of a plane has `chunks` words,
 * and two planes are `stride` words apart. Codes have two bits a plane. */
void bitlane_plane_codes(const uint64_t *planes, intptr_t stride, intptr_t chunks, intptr_t count, intptr_t features,
                         intptr_t digits, int8_t *codes)
{
    switch (digits) {
    case 1:
        all_codes(planes, 8 * stride, chunks, count, features, 1, (uint8_t *)codes);
        return;
    case 2:
        all_codes(planes, 8 * stride, chunks, count, features, 2, (uint8_t *)codes);
        return;
    case 3:
        all_codes(planes, 8 * stride, chunks, count, features, 3, (uint8_t *)codes);
        return;
    default:
        all_codes(planes, 8 * stride, chunks, count, features, 4, (uint8_t *)codes);
    }
}

/* --- planes to words --- */

/* As `ChosenRows` in planes.py. */
struct chosen {
    const intptr_t *addresses, *strides; /* [count]: where plane 0 of each row is, and how far the next plane, in bytes */
    intptr_t count, chunks;
    intptr_t first, digits;      /* planes to read */
    const intptr_t *row_offsets; /* [count]: index in `words` of the first word of each row */
    intptr_t chunk_step, digit_step;
    uint64_t *words;
};

#define AHEAD 4 /* rows that are fetched before they are needed */

static inline void fetch(const intptr_t *addresses, const intptr_t *strides, intptr_t row, intptr_t first,
                         intptr_t digits, intptr_t chunks)
{
    for (intptr_t digit = first; digit < first + digits; digit++)
        for (intptr_t byte = 0; byte < 8 * chunks; byte += 64)
            __builtin_prefetch((const char *)(addresses[row] + digit * strides[row] + byte));
}

/* Move the words of rows. */
void bitlane_move_planes(const struct chosen *rows)
{
    for (intptr_t i = 0; i < rows->count; i++) {
        uint64_t *words = rows->words + rows->row_offsets[i];
        if (i + AHEAD < rows->count)
            fetch(rows->addresses, rows->strides, i + AHEAD, rows->first, rows->digits, rows->chunks);
        for (intptr_t digit = 0; digit < rows->digits; digit++) {
            const uint64_t *from = (const uint64_t *)(rows->addresses[i] + (rows->first + digit) * rows->strides[i]);
            uint64_t *to = words + digit * rows->digit_step;
            for (intptr_t chunk = 0; chunk < rows->chunks; chunk++)
                to[chunk * rows->chunk_step] = from[chunk];
        }
    }
}

/* --- draws --- */

#if defined(__AVX512BW__)
#define VECTOR 64
#elif defined(__AVX2__)
#define VECTOR 32
#else
#define VECTOR 16
#endif
#define LANES (VECTOR / 2)
#define PARTS (CHUNK / LANES)
#define MOST_SETS 16

typedef uint16_t lanes __attribute__((vector_size(VECTOR)));
typedef uint64_t wide __attribute__((vector_size(VECTOR)));

/* As `DrawnRows` in planes.py. Lane 4i + q of a chunk is feature 8q + i, so that a word, seen as four numbers of 16
 * bits, has the digits of lanes 4i to 4i + 3 in the same two bits of the four. */
struct drawn {
    const intptr_t *addresses, *strides;
    intptr_t count, chunks;
    intptr_t first, digits;                  /* planes below the base digits */
    const uint32_t *of_rows;                 /* [count] */
    const uint32_t *masks;                   /* [sets] */
    intptr_t sets;                           /* at most 16 */
    const uint16_t *high_offsets, *low_offsets; /* [chunks][CHUNK], in the order of lanes */
    uint64_t last_chunk;                     /* digits of stored features in the last chunk */
    const intptr_t *row_offsets;
    intptr_t stride;
    uint64_t *words; /* [sets] regions */
    intptr_t region;
};

/* Vectors by macros, since functions with them have other conventions on each machine. */
#define TURNED(x, left) ((x) << (left) | (x) >> (16 - (left)))
#define ALL(x) ((lanes){0} + (uint16_t)(x))

void bitlane_plane_draws(const struct drawn *rows)
{
    static const uint16_t keys[] = {ROUND_KEYS};
    uint16_t by_lane[3][CHUNK];
    lanes up[PARTS], first_bit[PARTS], second_bit[PARTS];
    for (int lane = 0; lane < CHUNK; lane++) {
        by_lane[0][lane] = (uint16_t)(1 << (14 - 2 * (lane / 4)));
        by_lane[1][lane] = (uint16_t)(2 << 2 * (lane / 4));
        by_lane[2][lane] = (uint16_t)(1 << 2 * (lane / 4));
    }
    memcpy(up, by_lane[0], sizeof up);
    memcpy(first_bit, by_lane[1], sizeof first_bit);
    memcpy(second_bit, by_lane[2], sizeof second_bit);
    uint16_t middle = (uint16_t)(1 << (15 - 2 * rows->digits));
    for (intptr_t i = 0; i < rows->count; i++) {
        uint16_t of_high = (uint16_t)(rows->of_rows[i] >> 16), of_low = (uint16_t)rows->of_rows[i];
        const uint64_t *plane = (const uint64_t *)(rows->addresses[i] + rows->first * rows->strides[i]);
        intptr_t stride = rows->strides[i] / 8;
        if (i + AHEAD < rows->count)
            fetch(rows->addresses, rows->strides, i + AHEAD, rows->first, rows->digits, rows->chunks);
        for (intptr_t chunk = 0; chunk < rows->chunks; chunk++) {
            uint64_t drawn[MOST_SETS] = {0};
            uint64_t kept = chunk + 1 == rows->chunks ? rows->last_chunk : ~UINT64_C(0);
            for (int part = 0; part < PARTS; part++) {
                lanes threshold = ALL(middle), high, low, offset;
                for (intptr_t digit = 0; digit < rows->digits; digit++) {
                    lanes word = (lanes)((wide){0} + plane[digit * stride + chunk]);
                    threshold |= (word * up[part] & 0xC000) >> (2 * (int)digit);
                }
                memcpy(&offset, rows->low_offsets + chunk * CHUNK + part * LANES, sizeof offset);
                low = ALL(of_low) + offset;
                lanes carry = (lanes)(low < offset); /* -1 */
                memcpy(&offset, rows->high_offsets + chunk * CHUNK + part * LANES, sizeof offset);
                high = ALL(of_high) + offset - carry;
                for (size_t round = 0; round < sizeof keys / sizeof *keys; round++) {
                    lanes mixed = low ^ (TURNED(high, 1) & TURNED(high, 8)) ^ TURNED(high, 2) ^ keys[round];
                    low = high;
                    high = mixed;
                }
                for (intptr_t set = 0; set < rows->sets; set++) {
                    uint16_t mask_high = (uint16_t)(rows->masks[set] >> 16), mask_low = (uint16_t)rows->masks[set];
                    wide ends = (wide)(((lanes)((high ^ mask_high) < threshold) & first_bit[part]) |
                                       ((lanes)((low ^ mask_low) < threshold) & second_bit[part]));
                    uint64_t word = ends[0] | ends[1];
                    for (int k = 2; k < VECTOR / 8; k++)
                        word |= ends[k];
                    drawn[set] |= word;
                }
            }
            for (intptr_t set = 0; set < rows->sets; set++)
                rows->words[set * rows->region + rows->row_offsets[i] + chunk * rows->stride] = drawn[set] & kept;
        }
    }
}

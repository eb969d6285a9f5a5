/* Sums over the bits of words: the vector operations of the dot products and of the gradients.
 *
 * A word holds the bits l and h of 32 features side by side: bit 2 j is l of feature j, bit 2 j + 1 is h. So it is a
 * mask of 64 lanes as it lies in memory. Weights are stored twice, once for each bit: then lane i of a sum belongs to
 * bit i. A block is the lanes of four vectors, whose sums stay in registers: a word is one block with AVX-512, two with
 * AVX2, and four with SSE2 or NEON.
 */
#define LANES 64
/* Lanes of 32 bits: the vectors of a lane add up to 64 weights of at most 2**23 in size each. */
#define SUM_CHUNKS 64
#define VECTORS 4
/* Their loops are unrolled, so that arrays of vectors are registers. */
#define EACH_VECTOR(v) _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)

#if defined(__AVX512F__)
#include <immintrin.h>
#define WIDTH 16
#elif defined(__AVX2__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
#define BLOCK (VECTORS * WIDTH)

typedef int32_t vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t unaligned_vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int64_t wide __attribute__((vector_size(4 * WIDTH)));

static inline vector load_vector(const int32_t *from)
{
    return *(const unaligned_vector *)from;
}

#if defined(__AVX512F__)
static inline __attribute__((always_inline)) void add_where(uint64_t bits, const vector *terms, vector *sums)
{
    EACH_VECTOR(v)
        sums[v] = (vector)_mm512_mask_add_epi32((__m512i)sums[v], (__mmask16)(bits >> WIDTH * v), (__m512i)sums[v],
                                                (__m512i)terms[v]);
}
#else
/* Lane i of vector v tests bit WIDTH v + i of the block's bits, at most 32, which all lanes have. */
static inline __attribute__((always_inline)) void add_where(uint64_t bits, const vector *terms, vector *sums)
{
#if WIDTH == 8
    const vector first = {1, 2, 4, 8, 16, 32, 64, 128};
#else
    const vector first = {1, 2, 4, 8};
#endif
    vector everywhere = (vector){0} + (int32_t)bits;
    EACH_VECTOR(v) {
        vector tested = first << WIDTH * v;
        sums[v] += ((everywhere & tested) == tested) & terms[v];
    }
}
#endif

/* Add the sums of the lanes of both bits to `totals`. */
static inline __attribute__((always_inline)) void add_up(const vector *sums, int64_t *totals)
{
    wide low = {0}, high = {0};
    EACH_VECTOR(v) {
        wide pairs = (wide)sums[v];
        low += (pairs << 32) >> 32;
        high += pairs >> 32;
    }
    for (int i = 0; i < WIDTH / 2; i++) {
        totals[0] += low[i];
        totals[1] += high[i];
    }
}

/* Add the weights whose bits l, or h, are 1 to `totals`: of l and of h of the first row, then of the second.
 *
 * `rows` are the first words of two rows; `count` words of each, at most SUM_CHUNKS, are `step` apart. The weights of a
 * chunk are LANES int32 of at most 24 bits. Two rows share each read of a weight.
 */
static inline __attribute__((always_inline)) void plane_sums(const int64_t *const rows[2], int64_t step, const int32_t *weights, int64_t count,
                              int64_t totals[4])
{
    for (int first = 0; first < LANES; first += BLOCK) {
        vector sums[2][VECTORS] = {{{0}}};
        for (int64_t chunk = 0; chunk < count; chunk++) {
            vector terms[VECTORS];
            EACH_VECTOR(v)
                terms[v] = load_vector(weights + chunk * LANES + first + WIDTH * v);
            add_where((uint64_t)rows[0][chunk * step] >> first, terms, sums[0]);
            add_where((uint64_t)rows[1][chunk * step] >> first, terms, sums[1]);
        }
        add_up(sums[0], totals);
        add_up(sums[1], totals + 2);
    }
}

/* Add a term of each row to the sums, LANES int32 that wrap, whose bit is 1.
 *
 * The word of row r is words[offsets[r]]; its terms for l and for h are terms[2 r] and terms[2 r + 1].
 */
static inline __attribute__((always_inline)) void add_terms(const int64_t *words, const int64_t *offsets, int64_t rows, const int32_t *terms,
                             int32_t *sums)
{
    for (int first = 0; first < LANES; first += BLOCK) {
        vector lanes[VECTORS];
        EACH_VECTOR(v)
            lanes[v] = load_vector(sums + first + WIDTH * v);
        for (int64_t row = 0; row < rows; row++) {
            int64_t pair;
            memcpy(&pair, terms + 2 * row, sizeof pair);
            vector term = (vector)((wide){0} + pair), same[VECTORS] = {term, term, term, term};
            add_where((uint64_t)words[offsets[row]] >> first, same, lanes);
        }
        EACH_VECTOR(v)
            *(unaligned_vector *)(sums + first + WIDTH * v) = lanes[v];
    }
}

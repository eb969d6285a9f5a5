/* One read of int8 rows for K linear models: scores, losses, slopes and gradients, in C99 with vectors of 16 floats.
 *
 * passes.py builds this file and calls it through ctypes. Every sum of floats has a fixed order, which depends neither
 * on the vector instructions nor on the number of threads, and no product is fused with a sum: all machines, and the
 * numpy version in reference_pass.py, return the same bits.
 *
 * A tile of 16 rows is decoded into floats, which stay in cache for all K models. Gradients are summed in float over
 * groups of GROUP rows; whoever calls adds the groups in float64.
 */
#include <float.h>
#include <stdint.h>
#include <string.h>

#if !defined(GROUP) || GROUP % 16
#error "passes.c needs the definitions that bitlane.solvers.passes passes"
#endif
#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "this compiler does not round each operation to its type, so that bits would differ"
#endif

#define LANES 16
#define TILE 16 /* rows */
#define INLINE static inline __attribute__((always_inline))

/* In memory, vectors begin at any float. */
typedef float vector __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(64)));
typedef double doubles __attribute__((vector_size(64)));
typedef float half __attribute__((vector_size(32), may_alias));
typedef float quarter __attribute__((vector_size(16)));

enum loss { SQUARES, LOG, HINGE, SQUARED_HINGE };

/* As `PassArguments` in passes.py. Arrays of rows begin at the first row of the block. */
struct pass {
    const int8_t *codes; /* [rows][columns] */
    intptr_t rows, columns, models;
    intptr_t loss;           /* enum loss */
    float width;             /* of the smooth part of hinge */
    const float *reaches;    /* [models]: of hinge, the width over which curvatures are taken */
    intptr_t certify;        /* whether `losses` are those of hinge without smoothing, and `conjugates` are wanted */
    const float *weights;    /* [models][padded columns], for codes as integers */
    const float *bias;       /* [models] */
    const float *const *targets;     /* [models], each [rows]; so the others */
    const float *const *row_weights; /* NULL: 1 */
    const float *const *offsets;     /* added to the scores; NULL: 0 */
    const float *scaled;             /* [models][3]: factors of slopes above and below 0, what is added to slopes */
    float *const *scores, *const *curvatures; /* NULL: not wanted */
    float *tile;                     /* [TILE][padded columns]: a scratch of the thread */
    float *slopes;                   /* [models][TILE]: a scratch of the thread */
    float *gradients;                /* [groups][models][padded columns] */
    double *sums;                    /* [groups][models][3]: of slopes, losses, and conjugates or sizes of slopes */
};

INLINE vector broadcast(float number)
{
    return number - (vector){0};
}

INLINE vector choose(integers mask, vector yes, vector no)
{
    return (vector)((mask & (integers)yes) | (~mask & (integers)no));
}

INLINE vector largest(vector a, vector b)
{
    return choose(a > b, a, b);
}

/* 2 atanh(t), |t| <= 1/3, to 1e-9 of the result. */
INLINE vector twice_atanh(vector t)
{
    vector s = t * t, sum = broadcast(1.0f / 15);
    sum = sum * s + 1.0f / 13;
    sum = sum * s + 1.0f / 11;
    sum = sum * s + 1.0f / 9;
    sum = sum * s + 1.0f / 7;
    sum = sum * s + 0.2f;
    sum = sum * s + 1.0f / 3;
    return t * (sum * s + 1.0f) * 2.0f;
}

/* exp(x), -87 <= x <= 0. */
INLINE vector exponential(vector x)
{
    vector shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2**23: the nearest integer is in the low bits */
    vector whole = shifted - 12582912.0f;
    vector r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
    vector sum = broadcast(1.0f / 5040);
    sum = sum * r + 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    return (vector)((integers)sum + ((integers)shifted << 23));
}

/* log(x), x a normal number above 0. */
INLINE vector logarithm(vector x)
{
    integers exponent = (((integers)x - 0x3f3504f3) >> 23); /* of x / sqrt(1/2) */
    vector m = (vector)((integers)x - (exponent << 23));
    return __builtin_convertvector(exponent, vector) * 0.693147181f + twice_atanh((m - 1.0f) / (m + 1.0f));
}

/* x log(x), which is 0 at 0. */
INLINE vector entropy(vector x)
{
    vector floor = broadcast(1e-30f);
    return x * logarithm(largest(x, floor));
}

/* Slope, loss and second derivative of the loss at scores z. */
INLINE void of_loss(const struct pass *p, intptr_t k, vector z, vector y, vector *slope, vector *loss,
                    vector *curvature)
{
    vector zero = {0}, one = broadcast(1);
    if (p->loss == SQUARES) {
        vector r = z - y;
        *slope = r, *loss = 0.5f * (r * r), *curvature = one;
        return;
    }
    vector margin = y * z;
    if (p->loss == LOG) {
        vector size = choose(margin > 0, margin, -margin), most = broadcast(87);
        vector e = exponential(-choose(size > most, most, size));
        vector share = choose(margin > 0, e, one) / (one + e);
        *slope = -y * share, *curvature = e / ((one + e) * (one + e));
        *loss = twice_atanh(e / (e + 2.0f)) - choose(margin > 0, zero, margin);
    } else if (p->loss == SQUARED_HINGE) {
        vector lacking = largest(one - margin, zero);
        *slope = -2.0f * y * lacking, *loss = lacking * lacking, *curvature = choose(lacking > 0, one + one, zero);
    } else {
        vector lacking = one - margin, inside = lacking / p->width + 0.5f;
        vector share = largest(inside, zero);
        share = choose(share > 1.0f, one, share);
        float reach = p->reaches[k];
        vector near = choose(lacking > 0, lacking, -lacking);
        *slope = -y * share, *curvature = choose(near < 0.5f * reach, one / reach, zero);
        if (p->certify)
            *loss = largest(lacking, zero);
        else
            *loss = choose(inside < 1.0f, 0.5f * p->width * (share * share), lacking);
    }
}

/* The conjugate of the loss at a slope. */
INLINE vector conjugate(const struct pass *p, vector slope, vector y)
{
    if (p->loss == SQUARES)
        return slope * (0.5f * slope + y);
    vector a = -y * slope;
    if (p->loss == LOG)
        return entropy(a) + entropy(1.0f - a);
    if (p->loss == HINGE)
        return -a;
    return 0.25f * (a * a) - a;
}

/* Numbers of `count` rows, and 0 for the other rows of the tile. */
INLINE vector load_rows(const float *from, intptr_t count)
{
    vector loaded = {0};
    memcpy(&loaded, from, (size_t)count * sizeof *from);
    return loaded;
}

INLINE void store_rows(float *to, vector from, intptr_t count)
{
    float all[TILE];
    memcpy(all, &from, sizeof all);
    memcpy(to, all, (size_t)count * sizeof *to);
}

INLINE void add(doubles sums[2], vector x)
{
    half low, high;
    memcpy(&low, &x, sizeof low), memcpy(&high, (char *)&x + sizeof low, sizeof high);
    sums[0] += __builtin_convertvector(low, doubles), sums[1] += __builtin_convertvector(high, doubles);
}

/* Sum of 16 lanes: lane i with lane i + 8, then i + 4, i + 2, i + 1. */
INLINE float folded(const float *s)
{
    half low, high;
    memcpy(&low, s, sizeof low);
    memcpy(&high, s + 8, sizeof high);
    low += high;
    quarter first, last;
    memcpy(&first, &low, sizeof first);
    memcpy(&last, (const float *)&low + 4, sizeof last);
    first += last;
    return (first[0] + first[2]) + (first[1] + first[3]);
}

INLINE double folded_doubles(const doubles sums[2])
{
    doubles s = sums[0] + sums[1];
    for (int step = 4; step; step /= 2)
        for (int i = 0; i < step; i++)
            s[i] += s[i + step];
    return s[0];
}

static void decode(const int8_t *codes, intptr_t rows, intptr_t columns, intptr_t padded, float *tile)
{
    for (intptr_t i = 0; i < rows; i++, codes += columns, tile += padded) {
        const int8_t *restrict row = codes;
        float *restrict to = tile;
        for (intptr_t j = 0; j < columns; j++)
            to[j] = (float)row[j];
        for (intptr_t j = columns; j < padded; j++)
            to[j] = 0;
    }
    memset(tile, 0, (size_t)((TILE - rows) * padded) * sizeof *tile);
}

/* The loops over columns have vectors of the processor's size, PARTS for 16 lanes, and as many as its registers hold. */
#if defined(__AVX512F__)
#define NATIVE 64
#define WIDE 4 /* models at a time */
#define HEIGHT 4 /* rows at a time */
#elif defined(__AVX2__)
#define NATIVE 32
#define WIDE 2
#define HEIGHT 2
#else
#define NATIVE 16
#define WIDE 2
#define HEIGHT 1
#endif
#define PARTS (64 / NATIVE)
#define STRIP (8 * PARTS) /* vectors of a strip of columns */
typedef float native __attribute__((vector_size(NATIVE), aligned(4), may_alias));

/* Scores of `height` rows for `wide` models. */
INLINE void scores(const native *rows, const native *weights, intptr_t chunks, int height, int wide, float *z)
{
    native sums[8][4][PARTS] = {0};
    for (intptr_t c = 0; c < chunks * PARTS; c += PARTS)
#pragma GCC unroll 8
        for (int i = 0; i < height; i++)
#pragma GCC unroll 4
            for (int k = 0; k < wide; k++)
#pragma GCC unroll 4
                for (int p = 0; p < PARTS; p++)
                    sums[i][k][p] += rows[i * chunks * PARTS + c + p] * weights[k * chunks * PARTS + c + p];
#pragma GCC unroll 8
    for (int i = 0; i < height; i++)
#pragma GCC unroll 4
        for (int k = 0; k < wide; k++) {
            float lanes[LANES];
            memcpy(lanes, sums[i][k], sizeof lanes);
            z[k * TILE + i] = folded(lanes);
        }
}

/* Add `count` vectors of the rows of a tile times their slopes to the gradients of `wide` models, `across` vectors at a
 * time. */
INLINE void outer(const native *rows, const float *slopes, intptr_t vectors, intptr_t count, int across, int wide,
                  native *gradients)
{
    intptr_t c = 0;
    for (; c + across <= count; c += across) {
        native sums[4][4];
#pragma GCC unroll 4
        for (int k = 0; k < wide; k++)
#pragma GCC unroll 4
            for (int a = 0; a < across; a++)
                sums[k][a] = gradients[k * vectors + c + a];
        for (int i = 0; i < TILE; i++)
#pragma GCC unroll 4
            for (int k = 0; k < wide; k++)
#pragma GCC unroll 4
                for (int a = 0; a < across; a++)
                    sums[k][a] += rows[i * vectors + c + a] * slopes[k * TILE + i];
#pragma GCC unroll 4
        for (int k = 0; k < wide; k++)
#pragma GCC unroll 4
            for (int a = 0; a < across; a++)
                gradients[k * vectors + c + a] = sums[k][a];
    }
    for (; c < count; c++)
        for (int k = 0; k < wide; k++)
            for (int i = 0; i < TILE; i++)
                gradients[k * vectors + c] += rows[i * vectors + c] * slopes[k * TILE + i];
}

static void tile_scores(const struct pass *p, intptr_t chunks, float *z)
{
    const native *rows = (const native *)p->tile, *weights = (const native *)p->weights;
    intptr_t k = 0, vectors = chunks * PARTS;
    for (; k + WIDE <= p->models; k += WIDE)
        for (int i = 0; i < TILE; i += HEIGHT)
            scores(rows + i * vectors, weights + k * vectors, chunks, HEIGHT, WIDE, z + k * TILE + i);
    for (; k + 2 <= p->models; k += 2)
        for (int i = 0; i < TILE; i += HEIGHT)
            scores(rows + i * vectors, weights + k * vectors, chunks, HEIGHT, 2, z + k * TILE + i);
    for (; k < p->models; k++)
        for (int i = 0; i < TILE; i += 2 * HEIGHT)
            scores(rows + i * vectors, weights + k * vectors, chunks, 2 * HEIGHT, 1, z + k * TILE + i);
}

/* All models of a strip of columns in turn, while its rows are in the nearest cache. */
static void tile_gradients(const struct pass *p, intptr_t chunks, float *gradients)
{
    intptr_t vectors = chunks * PARTS;
    for (intptr_t c = 0; c < vectors; c += STRIP) {
        const native *rows = (const native *)p->tile + c;
        native *all = (native *)gradients + c;
        intptr_t k = 0, count = vectors - c < STRIP ? vectors - c : STRIP;
        for (; k + WIDE <= p->models; k += WIDE)
            outer(rows, p->slopes + k * TILE, vectors, count, 2, WIDE, all + k * vectors);
        for (; k + 2 <= p->models; k += 2)
            outer(rows, p->slopes + k * TILE, vectors, count, 4, 2, all + k * vectors);
        for (; k < p->models; k++)
            outer(rows, p->slopes + k * TILE, vectors, count, 4, 1, all + k * vectors);
    }
}

/* Slopes of a tile, in place of its scores. `sums` [models][3][2]. */
static void tile_slopes(const struct pass *p, intptr_t row, intptr_t count, doubles (*sums)[3][2])
{
    vector one = broadcast(1);
    for (intptr_t k = 0; k < p->models; k++) {
        vector z = load_rows(p->slopes + k * TILE, TILE) + p->bias[k], slope, loss, curvature;
        vector y = load_rows(p->targets[k] + row, count), weight = one;
        if (p->row_weights)
            weight = load_rows(p->row_weights[k] + row, count);
        for (intptr_t i = count; i < TILE; i++)
            weight[i] = 0;
        if (p->offsets)
            z += load_rows(p->offsets[k] + row, count);
        of_loss(p, k, z, y, &slope, &loss, &curvature);
        if (p->certify) {
            const float *scaled = p->scaled + 3 * k;
            slope = slope * choose(slope > 0, broadcast(scaled[0]), broadcast(scaled[1])) + scaled[2];
            add(sums[k][2], weight * conjugate(p, slope, y));
        }
        slope *= weight;
        if (!p->certify)
            add(sums[k][2], choose(slope > 0, slope, -slope));
        add(sums[k][0], slope), add(sums[k][1], weight * loss);
        memcpy(p->slopes + k * TILE, &slope, sizeof slope);
        if (p->scores)
            store_rows(p->scores[k] + row, z, count);
        if (p->curvatures)
            store_rows(p->curvatures[k] + row, weight * curvature, count);
    }
}

/* Groups `first` to `last` - 1 of a block. */
void bitlane_pass(const struct pass *p, intptr_t first, intptr_t last)
{
    intptr_t chunks = (p->columns + LANES - 1) / LANES, padded = chunks * LANES;
    doubles sums[p->models][3][2];
    for (intptr_t group = first; group < last; group++) {
        float *gradients = p->gradients + group * p->models * padded;
        memset(gradients, 0, (size_t)(p->models * padded) * sizeof *gradients);
        memset(sums, 0, sizeof sums);
        for (intptr_t row = group * GROUP; row < (group + 1) * GROUP && row < p->rows; row += TILE) {
            intptr_t count = p->rows - row < TILE ? p->rows - row : TILE;
            decode(p->codes + row * p->columns, count, p->columns, padded, p->tile);
            tile_scores(p, chunks, p->slopes);
            tile_slopes(p, row, count, sums);
            tile_gradients(p, chunks, gradients);
        }
        for (intptr_t k = 0; k < p->models; k++)
            for (int s = 0; s < 3; s++)
                p->sums[(group * p->models + k) * 3 + s] = folded_doubles(sums[k][s]);
    }
}

/* Add the gradients of groups, in order, to `totals` [models][padded columns]. */
void bitlane_add_groups(const float *gradients, intptr_t groups, intptr_t count, double *totals)
{
    for (intptr_t group = 0; group < groups; group++, gradients += count)
        for (intptr_t j = 0; j < count; j++)
            totals[j] += (double)gradients[j];
}

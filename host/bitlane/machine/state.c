/* The accelerator in C99, with the bits of bitlane.reference.machine: what its functions get.
 *
 * library.py joins the files of this folder in the order of its `SOURCES`, builds them as one library with the
 * constants of the contract, which it defines on the command line, and calls it through ctypes. Integers have 64 bits,
 * as in the reference; where fewer are enough, the comments say why. FLAGS of bitlane.support.c_library let signed
 * sums wrap.
 */
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the words of the accelerator need a little-endian machine"
#endif

/* As `Shape` in plan.py. */
struct shape {
    int64_t features, chunks, rows, batch, rows_per_beat, outputs, base_digits, half_digit, draws, codebook;
    int64_t base_row_words, tile_groups;
};

/* As `Rules` in plan.py. */
struct rules {
    int64_t loss, further_loss, epsilon, mantissa, shift, mantissa_negative, shift_negative;
    int64_t rate;            /* what the phase grows by at a batch's end */
    int64_t shrink_rate;     /* the same of the shrinks beside a threshold */
    int64_t prox, threshold; /* of L1 */
    int64_t low, high;       /* the box, as master weights */
    int64_t proximal;        /* features, from the first, that the proximal operator changes */
    int64_t staleness, weight_exponent, model_cut, scaled_gradient_cut;
};

enum { PHASE, SHRINK_PHASE, SEED, SATURATIONS, BANK }; /* in `counters` */

/* As `Arrays` in plan.py, where their shapes stand. */
struct arrays {
    int32_t *master;
    int64_t *ceilings;
    int32_t *published;
    int64_t *totals, *loss, *counters, *base_at, *draw_at, *labels, *dots, *scaled;
    int32_t *terms, *sums;
    int64_t *changes;
    int32_t *drawn, *levels;
    int64_t *sigmoid, *model_lanes, *gradient_lanes;
};

/* An epoch in work: the arguments of bitlane_run_epoch, and sizes that follow from them. */
struct epoch {
    struct shape shape;
    struct rules rules;
    struct arrays arrays;
    const int64_t *base, *draws; /* regions */
    int64_t padded;              /* features with those that fill the last chunk */
    int64_t tile_rows;           /* rows that the arrays of a tile have room for */
    int64_t published;           /* int32 of an output's published weights */
};

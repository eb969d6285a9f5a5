/* Least value, largest value and sum of each column of some rows, in one pass: C99, with numpy's sums over rows.
 * column_bounds.py builds this file. */
#include <stdint.h>

enum value_type { UINT8, INT16, FLOAT32, FLOAT64 };

/* The columns go in strips, whose bounds and sums a cache holds. */
#define STRIP 512

#define BOUNDS(name, type)                                                                                             \
    static intptr_t name(const type *values, intptr_t count, intptr_t n, double *low, double *high, double *total)     \
    {                                                                                                                  \
        intptr_t bad = 0;                                                                                              \
        for (intptr_t first = 0; first < n; first += STRIP) {                                                          \
            intptr_t width = n - first < STRIP ? n - first : STRIP;                                                    \
            type least[STRIP], most[STRIP];                                                                            \
            double sum[STRIP];                                                                                         \
            int32_t wrong[STRIP];                                                                                      \
            for (intptr_t j = 0; j < width; j++) {                                                                     \
                least[j] = most[j] = values[first + j];                                                                \
                sum[j] = 0.0;                                                                                          \
                wrong[j] = 0;                                                                                          \
            }                                                                                                          \
            for (intptr_t i = 0; i < count; i++) {                                                                     \
                const type *row = values + i * n + first;                                                              \
                for (intptr_t j = 0; j < width; j++) {                                                                 \
                    type value = row[j];                                                                               \
                    least[j] = value < least[j] ? value : least[j];                                                    \
                    most[j] = value > most[j] ? value : most[j];                                                       \
                    wrong[j] += !(value - value == 0);                                                                 \
                    sum[j] += (double)value;                                                                           \
                }                                                                                                      \
            }                                                                                                          \
            for (intptr_t j = 0; j < width; j++) {                                                                     \
                low[first + j] = (double)least[j];                                                                     \
                high[first + j] = (double)most[j];                                                                     \
                total[first + j] = sum[j];                                                                             \
                bad += wrong[j];                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
        return bad;                                                                                                    \
    }
BOUNDS(of_uint8, uint8_t)
BOUNDS(of_int16, int16_t)
BOUNDS(of_float32, float)
BOUNDS(of_float64, double)

/* Write the bounds and the sums of values [count][n], and return how many values are not finite. */
intptr_t bitlane_column_bounds(const void *values, intptr_t type, intptr_t count, intptr_t n, double *low, double *high,
                               double *total)
{
    switch (type) {
    case UINT8:
        return of_uint8(values, count, n, low, high, total);
    case INT16:
        return of_int16(values, count, n, low, high, total);
    case FLOAT32:
        return of_float32(values, count, n, low, high, total);
    default:
        return of_float64(values, count, n, low, high, total);
    }
}

/* Coordinate descent on a quadratic function with an L1 penalty, in C99. coordinates.py builds this file; its numpy
 * version does the same operations in the same order, so that both return the same bits. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "this compiler does not round each operation to its type, so that bits would differ"
#endif

/* Minimise over each of `count` chosen parameters in turn, and return the sum of the squared moves by their curvatures.
 * `hessian` is [n][n], and the other arrays, as in `State` in coordinates.py, are [n]. */
double bitlane_coordinate_sweep(const double *hessian, const double *point, const double *lasso, double *step,
                                double *restrict gradient, const intptr_t *chosen, intptr_t count, intptr_t n)
{
    double moved = 0;
    for (intptr_t i = 0; i < count; i++) {
        intptr_t j = chosen[i];
        const double *row = hessian + j * n;
        double curvature = row[j], wanted = point[j] + step[j] - gradient[j] / curvature;
        double beyond = fabs(wanted) - lasso[j] / curvature;
        double change = copysign(beyond > 0 ? beyond : 0, wanted) - point[j] - step[j];
        if (change == 0)
            continue;
        step[j] += change;
        for (intptr_t k = 0; k < n; k++)
            gradient[k] += change * row[k];
        moved += change * change * curvature;
    }
    return moved;
}

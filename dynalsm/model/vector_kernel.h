/* Distances between vectors of 32-bit floats, computed in 64-bit floats.
 *
 * Every sum is made of VECTOR_LANES partial sums that are added up in one fixed order, whatever the
 * width of the machine's registers, and products are never fused into sums (setup.py says
 * -ffp-contract=off); so a score has the same bits on every machine, and a vector compared with
 * itself gives exactly the sum of its squares.
 *
 * Thread safety: pure functions over the caller's memory.
 */

#ifndef DYNALSM_VECTOR_KERNEL_H
#define DYNALSM_VECTOR_KERNEL_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define VECTOR_LANES 16

/* One build for every register width, chosen when the module is loaded; glibc only. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__)
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_CLONES
#endif

typedef double vector_lanes __attribute__((vector_size(VECTOR_LANES * sizeof(double))));
typedef float vector_floats __attribute__((vector_size(VECTOR_LANES * sizeof(float))));

static inline double vector_fold(const vector_lanes *sums) {
    double total = 0.0;
    int lane;
    for (lane = 0; lane < VECTOR_LANES; lane++) total += (*sums)[lane];
    return total;
}

/* Sum of products, and sum of squared differences, of one row with the query. */
#define VECTOR_ROW(name, term)                                                                     \
    static inline __attribute__((always_inline)) double name(                                      \
        const float *row, const float *query, size_t dimensions) {                                 \
        vector_lanes sums = {0.0};                                                                 \
        vector_floats a, b;                                                                        \
        size_t at, whole = dimensions / VECTOR_LANES * VECTOR_LANES;                                \
        for (at = 0; at < whole; at += VECTOR_LANES) {                                             \
            memcpy(&a, row + at, sizeof a);                                                        \
            memcpy(&b, query + at, sizeof b);                                                      \
            {                                                                                      \
                vector_lanes x = __builtin_convertvector(a, vector_lanes);                         \
                vector_lanes y = __builtin_convertvector(b, vector_lanes);                         \
                term;                                                                              \
            }                                                                                      \
        }                                                                                          \
        if (whole < dimensions) {                                                                  \
            memset(&a, 0, sizeof a);                                                               \
            memset(&b, 0, sizeof b);                                                               \
            memcpy(&a, row + whole, (dimensions - whole) * sizeof(float));                         \
            memcpy(&b, query + whole, (dimensions - whole) * sizeof(float));                       \
            {                                                                                      \
                vector_lanes x = __builtin_convertvector(a, vector_lanes);                         \
                vector_lanes y = __builtin_convertvector(b, vector_lanes);                         \
                term;                                                                              \
            }                                                                                      \
        }                                                                                          \
        return vector_fold(&sums);                                                                 \
    }

VECTOR_ROW(vector_dot_row, sums += x * y)
VECTOR_ROW(vector_gap_row, x -= y; sums += x * x)

/* out[i] = dot product (or squared distance) of row rows[i] of the matrix; rows NULL: row i. */
VECTOR_CLONES static void vector_dots(
    const float *matrix, size_t dimensions, const float *query, const long long *rows,
    size_t count, double *out) {
    size_t i;
    for (i = 0; i < count; i++)
        out[i] = vector_dot_row(matrix + (rows ? (size_t)rows[i] : i) * dimensions, query, dimensions);
}

VECTOR_CLONES static void vector_gaps(
    const float *matrix, size_t dimensions, const float *query, const long long *rows,
    size_t count, double *out) {
    size_t i;
    for (i = 0; i < count; i++)
        out[i] = vector_gap_row(matrix + (rows ? (size_t)rows[i] : i) * dimensions, query, dimensions);
}

#endif

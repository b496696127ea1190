/* The slots for rows made at run time. A kernel is a function without context, so that each slot has functions of its
 * own, which know their program. */
#include "program.h"

#include <stdlib.h>
#include <string.h>

static nd_program nd_programs[ND_SLOTS][2];
static nd_isa nd_own;
static nd_row *nd_own_rows;
static int nd_used;

#define T float
#define N(name) nd_program_##name##_f32
#include "program_steps.h"
#undef T
#undef N
#define T double
#define N(name) nd_program_##name##_f64
#include "program_steps.h"
#undef T
#undef N

#define ND_ROW(k) nd_own_rows[nd_own.nrows - ND_SLOTS + (k)]
#define ND_SLOT(k)                                                                                                    \
    static void fill_f32_##k(ptrdiff_t n, const void *const *x, void *y, void *const *d) {                            \
        nd_program_fill_f32(&nd_programs[k][ND_F32], n, x, y, d, ND_ROW(k).nin, 1);                                   \
    }                                                                                                                 \
    static void fill_f64_##k(ptrdiff_t n, const void *const *x, void *y, void *const *d) {                            \
        nd_program_fill_f64(&nd_programs[k][ND_F64], n, x, y, d, ND_ROW(k).nin, 1);                                   \
    }                                                                                                                 \
    static void back_f32_##k(ptrdiff_t n, const void *const *x, void *y, void *const *d) {                            \
        nd_program_fill_f32(&nd_programs[k][ND_F32], n, x, y, d, ND_ROW(k).nin, 0);                                   \
    }                                                                                                                 \
    static void back_f64_##k(ptrdiff_t n, const void *const *x, void *y, void *const *d) {                            \
        nd_program_fill_f64(&nd_programs[k][ND_F64], n, x, y, d, ND_ROW(k).nin, 0);                                   \
    }
#define ND_FUNCTIONS(k) {{fill_f32_##k, fill_f64_##k}, {back_f32_##k, back_f64_##k}},
#define ND_EIGHT(X, t) X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7)
/* Octal numbers, so that eight times eight slots are counted without a gap. */
#define ND_ALL(X)                                                                                                     \
    ND_EIGHT(X, 0) ND_EIGHT(X, 01) ND_EIGHT(X, 02) ND_EIGHT(X, 03) ND_EIGHT(X, 04) ND_EIGHT(X, 05) ND_EIGHT(X, 06)    \
    ND_EIGHT(X, 07)

ND_ALL(ND_SLOT)
static const struct { nd_fill fill[2], back[2]; } nd_slots[ND_SLOTS] = {ND_ALL(ND_FUNCTIONS)};

const nd_isa *nd_extended(const nd_isa *isa) {
    if (isa == NULL || nd_own_rows) return isa == NULL ? NULL : &nd_own;
    nd_own_rows = calloc((size_t)isa->nrows + ND_SLOTS, sizeof *nd_own_rows);
    if (nd_own_rows == NULL) return NULL;
    memcpy(nd_own_rows, isa->rows, (size_t)isa->nrows * sizeof *nd_own_rows);
    nd_own = *isa;
    nd_own.rows = nd_own_rows;
    nd_own.nrows = isa->nrows + ND_SLOTS;
    return &nd_own;
}

int nd_add_program(const char *name, int nin, const unsigned char *coef, const unsigned char *needs,
                   const nd_program *programs) {
    if (nd_used == ND_SLOTS) return -1;
    const int k = nd_used++;
    nd_row *row = &ND_ROW(k);
    row->name = name;
    row->nin = nin;
    row->value_inside = 1;
    for (int i = 0; i < ND_MAXIN; i++) {
        row->coef[i] = i < nin ? coef[i] : ND_COEF_ZERO;
        row->needs[i] = i < nin ? needs[i] : 0;
    }
    for (int t = 0; t < 2; t++) {
        nd_programs[k][t] = programs[t];
        row->fill[t] = nd_slots[k].fill[t];
        row->back[t] = nd_slots[k].back[t];
    }
    return nd_own.nrows - ND_SLOTS + k;
}

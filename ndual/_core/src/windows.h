/* Lane windows: which terms reach which lanes of an output. Included by driver.c alone; everything is static.
 */
#ifndef NDUAL_WINDOWS_H
#define NDUAL_WINDOWS_H

#include <string.h>

#include "ndual_kernels.h"

/* Lanes that the same terms reach: an operand whose tangents are known to vanish outside of a window of lanes takes no
 * part in the others. */
#define ND_MAXSEGMENT (2 * ND_MAXIN + 1)
typedef struct { ptrdiff_t first, count; int k, term[ND_MAXIN]; } nd_segment;
typedef struct { int count, k, back; ptrdiff_t nlanes, lo[ND_MAXIN]; nd_segment s[ND_MAXSEGMENT]; } nd_windows;

/* Every other call walks blocks and lanes backwards: it starts with what the call before it wrote last, which is still
 * in L1. A race between threads is harmless: the order changes no bit. */
static unsigned nd_turn;

static void nd_cut(nd_windows *w, int k, const nd_in *const *in, ptrdiff_t nlanes) {
    w->count = 0;
    w->k = k;
    w->nlanes = nlanes;
    for (int j = 0; j < k; j++) w->lo[j] = in[j]->lo;
    for (ptrdiff_t at = 0; at < nlanes;) {
        nd_segment *s = &w->s[w->count++];
        ptrdiff_t end = nlanes;
        s->first = at;
        s->k = 0;
        for (int j = 0; j < k; j++) {
            if (at < in[j]->lo) {
                if (in[j]->lo < end) end = in[j]->lo;
            } else if (at < in[j]->hi) {
                s->term[s->k++] = j;
                if (in[j]->hi < end) end = in[j]->hi;
            }
        }
        s->count = end - at;
        at = end;
    }
}

static void nd_lanes(const nd_windows *w, nd_combine combine, size_t size, ptrdiff_t n, const int *kinds,
                     const void *const *c, const char *const *t, const ptrdiff_t *tlane, char *out, ptrdiff_t outlane) {
    if (w->count == 1 && w->s[0].k == w->k && w->k && !w->back) {
        combine(n, w->nlanes, w->k, kinds, c, t, tlane, out, outlane);
        return;
    }
    for (int g = 0; g < w->count; g++) {
        const nd_segment *s = &w->s[w->back ? w->count - 1 - g : g];
        ptrdiff_t last = w->back ? s->count - 1 : 0, sign = w->back ? -1 : 1;
        int kind[ND_MAXIN];
        const void *coef[ND_MAXIN];
        const char *from[ND_MAXIN];
        ptrdiff_t lane[ND_MAXIN];
        char *to = out + s->first * outlane;
        for (int i = 0; i < s->k; i++) {
            int j = s->term[i];
            kind[i] = kinds[j];
            coef[i] = c[j];
            lane[i] = sign * tlane[j];
            from[i] = t[j] + (s->first + last - w->lo[j]) * tlane[j];
        }
        if (s->k) combine(n, s->count, s->k, kind, coef, from, lane, to + last * outlane, sign * outlane);
        else for (ptrdiff_t l = 0; l < s->count; l++) memset(to + l * outlane, 0, n * size);
    }
}

#endif

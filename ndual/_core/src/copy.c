/* nd_copy: strided copies of items of any size, for values and lanes alike. */
#include "strided.h"

void nd_copy(size_t itemsize, int ndim, const ptrdiff_t *shape, char *dst, const ptrdiff_t *ds, const char *src,
             const ptrdiff_t *ss) {
    nd_stream s[2];
    nd_geometry g;
    const ptrdiff_t *strides[2] = {ds, ss};
    ptrdiff_t index[ND_MAXDIM] = {0};
    for (int d = 0; d < ndim; d++)
        if (shape[d] == 0) return;
    s[0].p = dst;
    s[1].p = (char *)src;
    nd_coalesce(&g, s, 2, ndim, shape, strides);
    int inner = g.ndim - 1;
    if (g.size == 1) {
        memmove(dst, src, itemsize);
        return;
    }
    for (;;) {
        if (s[0].p != s[1].p)
            nd_copy_run(itemsize, g.shape[inner], s[0].p, s[0].stride[inner], s[1].p, s[1].stride[inner]);
        int d = inner - 1;
        for (; d >= 0; d--) {
            s[0].p += s[0].stride[d];
            s[1].p += s[1].stride[d];
            if (++index[d] < g.shape[d]) break;
            s[0].p -= s[0].stride[d] * g.shape[d];
            s[1].p -= s[1].stride[d] * g.shape[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

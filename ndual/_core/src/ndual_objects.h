/* Objects at the speed of floats: the lanes of scalars, and freelists.
 *
 * The lanes of one dual scalar are w numbers, w a constant after inlining. Pointers, never structs by value: a struct copy
 * moves [v, p0], [p1, p2] … and the products load [p0, p1] …, so that every load waits for two stores (27 ns an
 * operation at width 8). Zero times anything is zero: form the products plainly, and again only if a NaN came out. */
#ifndef NDUAL_OBJECTS_H
#define NDUAL_OBJECTS_H
#include <Python.h>

#if defined(__GNUC__)
#define ND_ALWAYS static inline __attribute__((always_inline))
#define ND_NEVER static __attribute__((noinline, cold))
#else
#define ND_ALWAYS static __inline
#define ND_NEVER static
#endif

ND_NEVER void nd_lanes_again(int w, double *r, double d, const double *a, double e, const double *b) {
    for (int i = 0; i < w; i++) {
        r[i] = d == 0 || a[i] == 0 ? 0 : d * a[i];
        if (b) r[i] += e == 0 || b[i] == 0 ? 0 : e * b[i];
    }
}

ND_ALWAYS int nd_lanes_nan(int w, const double *r) {
    int nan = 0;
    for (int i = 0; i < w; i++) nan |= r[i] != r[i];
    return nan;
}

ND_ALWAYS void nd_lanes_copy(int w, double *__restrict r, const double *a) {
    for (int i = 0; i < w; i++) r[i] = a[i];
}

ND_ALWAYS void nd_lanes_add(int w, double *__restrict r, const double *a, const double *b) {
    for (int i = 0; i < w; i++) r[i] = a[i] + b[i];
}

ND_ALWAYS void nd_lanes_subtract(int w, double *__restrict r, const double *a, const double *b) {
    for (int i = 0; i < w; i++) r[i] = a[i] - b[i];
}

ND_ALWAYS void nd_lanes_negative(int w, double *__restrict r, const double *a) {
    for (int i = 0; i < w; i++) r[i] = -a[i];
}

ND_ALWAYS void nd_lanes1(int w, double *__restrict r, double d, const double *a) {
    for (int i = 0; i < w; i++) r[i] = d * a[i];
    if (nd_lanes_nan(w, r)) nd_lanes_again(w, r, d, a, 0, 0);
}

ND_ALWAYS void nd_lanes2(int w, double *__restrict r, double d, const double *a, double e, const double *b) {
    for (int i = 0; i < w; i++) r[i] = d * a[i] + e * b[i];
    if (nd_lanes_nan(w, r)) nd_lanes_again(w, r, d, a, e, b);
}

/* Freelists. Cython's clear the object and go through PyObject_Init, 5 ns that a product of scalars cannot spare; ours
 * hand an object back as it was left, and its maker writes every field. The list runs through the first field. */
#define ND_WIDTHS 17
#define ND_KEPT 256

#if defined(Py_TRACE_REFS) || defined(Py_REF_DEBUG) || defined(Py_GIL_DISABLED)
#define ND_FREELIST 0
#else
#define ND_FREELIST 1
#endif

typedef struct {
    PyObject *head;
    int count;
} nd_freelist;

/* An object of the list, or NULL. */
ND_ALWAYS PyObject *nd_pop(nd_freelist *list) {
    PyObject *o = list->head;
    if (o == NULL) return NULL;
    list->head = *(PyObject **)(o + 1);
    list->count--;
    Py_SET_REFCNT(o, 1);
    return o;
}

/* Whether the list took a dead object. */
ND_ALWAYS int nd_push(nd_freelist *list, PyObject *o) {
    if (!ND_FREELIST || list->count >= ND_KEPT) return 0;
    *(PyObject **)(o + 1) = list->head;
    list->head = o;
    list->count++;
    return 1;
}

static nd_freelist nd_scalars[ND_WIDTHS];

ND_NEVER PyObject *nd_scalar_fresh(PyTypeObject *type) {
    PyObject *o = (PyObject *)PyObject_Malloc((size_t)type->tp_basicsize);
    return o == NULL ? PyErr_NoMemory() : PyObject_Init(o, type);
}

ND_ALWAYS PyObject *nd_scalar_new(int w, PyTypeObject *type) {
    PyObject *o = nd_pop(&nd_scalars[w]);
    return o == NULL ? nd_scalar_fresh(type) : o;
}

static void nd_scalar_dealloc(PyObject *o) {
    int w = (int)((Py_TYPE(o)->tp_basicsize - (Py_ssize_t)sizeof(PyObject)) / (Py_ssize_t)sizeof(double)) - 2;
    if (!nd_push(&nd_scalars[w], o)) PyObject_Free(o);
}

/* Numbers of a level that records; width 0 stands for them. */
ND_ALWAYS PyObject *nd_codual_new(PyTypeObject *type) { return nd_scalar_new(0, type); }

static void nd_codual_dealloc(PyObject *o) {
    if (!nd_push(&nd_scalars[0], o)) PyObject_Free(o);
}
#endif

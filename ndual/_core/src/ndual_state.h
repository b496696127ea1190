/* What one thread knows about the derivative it is taking: read by every operation on a dual, so it must cost one load.
 * A level has an id that is never used again; a dual whose id is not the running one is stale, foreign or nested. */
#ifndef NDUAL_STATE_H
#define NDUAL_STATE_H
#include <Python.h>

#if defined(_MSC_VER)
#define ND_THREAD __declspec(thread)
#elif defined(__ELF__) && defined(__GLIBC__)
/* The default model calls __tls_get_addr from a shared object (2 to 3 ns an operation); this one is a load. */
#define ND_THREAD __thread __attribute__((tls_model("initial-exec")))
#else
#define ND_THREAD _Thread_local
#endif

typedef struct nd_state {
    unsigned long long id;    /* of the running level; 0: none */
    PyObject *level;          /* the running Level, borrowed: it outlives its run */
    PyTypeObject *scalar;     /* the scalar class of its width, NULL beyond the widest */
    int exact;                /* values of sin/cos-like rows bit-equal to NumPy's */
    int debug;
    int compared;             /* an active value was compared */
} nd_state;

static ND_THREAD nd_state nd_tls;
#endif

/* What one thread knows about the derivatives it is taking: read by every operation on a dual, so it must cost one load.
 * A level has an id that is never used again. The level at hand is that of the last operation; a dual of another id is
 * one of an outer or inner derivative, to which the thread then turns, or it is stale or foreign. */
#ifndef NDUAL_STATE_H
#define NDUAL_STATE_H
#include <Python.h>
#include "ndual_tape.h"

#if defined(_MSC_VER)
#define ND_THREAD __declspec(thread)
#elif defined(__ELF__) && defined(__GLIBC__)
/* The default model calls __tls_get_addr from a shared object (2 to 3 ns an operation); this one is a load. */
#define ND_THREAD __thread __attribute__((tls_model("initial-exec")))
#else
#define ND_THREAD _Thread_local
#endif

typedef struct nd_state {
    unsigned long long id;    /* of the level at hand; 0: no derivative is running */
    PyObject *level;          /* the Level at hand, borrowed: it outlives its run */
    PyObject *top;            /* the innermost running Level, borrowed */
    PyObject *home;           /* the Level whose code runs: the innermost, or one further out inside of a rule; borrowed */
    PyObject *swept;          /* the Level whose tape is being swept, which has ended; borrowed */
    PyTypeObject *scalar;     /* the scalar class of its width, NULL beyond the widest */
    nd_tape *tape;            /* the list of the level at hand if it records; NULL: it carries lanes */
    int exact;                /* values of sin/cos-like rows bit-equal to NumPy's */
    int compared_passes;      /* values are compared between passes, and must not hang on what moves in one */
    int debug;                /* check what rules and operations give */
    int copy_constants;       /* copy plain arrays that a tape reads, instead of making them read-only */
    int compared;             /* an active value of the level at hand was compared */
} nd_state;
#endif

/* The Wengert list of reverse mode: one node for each operation on numbers, in the order of the program, and one for each
 * event of arrays, which stands for an object kept beside the list. Recording is inlined into the scalar class; the
 * sweep is that of the reverse add-on.
 *
 * A node of an operation adds da times its cotangent to that of node a, and db times it to that of node b; -1 is none.
 * The special kinds keep in `at` what they are about: an offset in the memory of buffer number b, or entry number b. */
#ifndef NDUAL_TAPE_H
#define NDUAL_TAPE_H
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { ND_NODE_NONE = -1, ND_NODE_LOAD = -2, ND_NODE_STORE = -3, ND_NODE_ENTRY = -4 };

typedef struct nd_tape_node {
    int32_t a, b;
    union { double da; ptrdiff_t at; };
    union { double db; ptrdiff_t from; };
} nd_tape_node;

typedef struct nd_tape {
    nd_tape_node *node;
    ptrdiff_t count, room;
} nd_tape;

/* Room for one more node; 0 if there is none to be had. */
static inline int nd_tape_room(nd_tape *tape) {
    ptrdiff_t room;
    nd_tape_node *more;
    if (tape->count < tape->room) return 1;
    room = tape->room < 512 ? 1024 : 2 * tape->room;
    if (room > INT32_MAX) return 0;
    more = (nd_tape_node *)realloc(tape->node, (size_t)room * sizeof(nd_tape_node));
    if (more == NULL) return 0;
    tape->node = more;
    tape->room = room;
    return 1;
}
#endif

/* Rows made at run time: an expression as a list of steps over blocks, most of them inner loops of NumPy or SciPy. A row
 * of such steps is a row of the table like any other, in one of the slots behind the compiled ones.
 */
#ifndef NDUAL_PROGRAM_H
#define NDUAL_PROGRAM_H
#include "ndual_kernels.h"

#define ND_SLOTS 64
#define ND_REGISTERS 16

/* Where operands are: x0 to x2, y, the partials (written only), registers, constants. */
enum { ND_AT_Y = 3, ND_AT_PARTIAL = 4, ND_AT_REGISTER = 8, ND_AT_CONSTANT = 32 };

/* Conditions are numbers, 1 or 0. */
enum { ND_LOOP, ND_COPY, ND_LT, ND_LE, ND_GT, ND_GE, ND_EQ, ND_NE, ND_AND, ND_OR, ND_NOT, ND_SELECT };

typedef struct {
    unsigned char op, need; /* need: bit 0 if the value hangs on it, bits 1 to 3 the partials */
    unsigned char count;    /* of operands */
    short to, from[3];
    nd_loop loop;
} nd_step;

typedef struct {
    int count;
    nd_step *steps;
    void *constants; /* of the dtype */
} nd_program;

/* A copy of an instruction set whose table has room for more rows; NULL if there is no memory for it. */
const nd_isa *nd_extended(const nd_isa *isa);

/* Adds a row to it, which keeps the name and what the programs point to; a program without steps: none for this dtype.
 * Returns its index, or -1 if there is no slot left. */
int nd_add_program(const char *name, int nin, const unsigned char *coef, const unsigned char *needs,
                   const nd_program *programs);
#endif

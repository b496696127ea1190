/* All row kernels of one instruction set. The build compiles this file once per set with NDUAL_ISA naming it
 * (baseline, v3, v4) and the matching machine flags; select.c picks one at import.
 *
 * Everything but the exported table is static: a shared helper would be taken by the linker from whichever object
 * comes first, possibly with instructions that this processor lacks.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "exponential.h"
#include "ndual_kernels.h"
#include "portable.h"
#include "sincos.h"

#define ND_JOIN_(a, b) a##b
#define ND_JOIN(a, b) ND_JOIN_(a, b)
#define ND_STRING_(a) #a
#define ND_STRING(a) ND_STRING_(a)

#define T double
#define U uint64_t
#define N(name) name##_f64
#define M(name) name
#define ABSMASK 0x7fffffffffffffffu
#define NANCARRY 0x000fffffffffffffu
#define SMALLEST_NORMAL 2.2250738585072014e-308
#define LARGEST 1.7976931348623157e308
#include "accumulate.h"
#include "combine.h"
#include "rows_by_hand.h"
#include "rows_f64.h"
#undef T
#undef U
#undef N
#undef M
#undef ABSMASK
#undef NANCARRY
#undef SMALLEST_NORMAL
#undef LARGEST

#define T float
#define U uint32_t
#define N(name) name##_f32
#define M(name) name##f
#define ABSMASK 0x7fffffffu
#define NANCARRY 0x007fffffu
#define SMALLEST_NORMAL 1.17549435e-38f
#define LARGEST 3.40282347e38f
#include "accumulate.h"
#include "combine.h"
#include "rows_by_hand.h"
#include "rows_f32.h"

#include "table.h"

const nd_isa ND_JOIN(nd_isa_, NDUAL_ISA) = {
    ND_STRING(NDUAL_ISA), rows, sizeof rows / sizeof *rows, {combine_f32, combine_f64}, {finite_f32, finite_f64},
    {{give_f32, sums_f32, fold_f32, affine_f32, sum_f32, dot_f32},
     {give_f64, sums_f64, fold_f64, affine_f64, sum_f64, dot_f64}},
};

/* Which instruction set this processor gets. Only here do the names of the compiled sets appear. */
#include <string.h>

#include "ndual_kernels.h"

extern const nd_isa nd_isa_baseline;
#ifdef NDUAL_HAVE_V3
extern const nd_isa nd_isa_v3;
#endif
#ifdef NDUAL_HAVE_V4
extern const nd_isa nd_isa_v4;
#endif

/* Single features rather than "x86-64-v3": gcc before 12 and clang before 17 do not know the level names here. */
static int has_v3(void) {
#ifdef NDUAL_HAVE_V3
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi")
           && __builtin_cpu_supports("bmi2");
#else
    return 0;
#endif
}

static int has_v4(void) {
#ifdef NDUAL_HAVE_V4
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq")
           && __builtin_cpu_supports("avx512vl");
#else
    return 0;
#endif
}

const nd_isa *nd_select(const char *force) {
#if defined(NDUAL_HAVE_V3) || defined(NDUAL_HAVE_V4)
    __builtin_cpu_init();
#endif
#ifdef NDUAL_HAVE_V4
    if (has_v4() && (force == NULL || strcmp(force, "v4") == 0)) return &nd_isa_v4;
#endif
#ifdef NDUAL_HAVE_V3
    if (has_v3() && (force == NULL || strcmp(force, "v3") == 0)) return &nd_isa_v3;
#endif
    if (force == NULL || strcmp(force, "baseline") == 0) return &nd_isa_baseline;
    return NULL;
}

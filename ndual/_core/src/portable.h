/* What compilers spell differently. */
#ifndef NDUAL_PORTABLE_H
#define NDUAL_PORTABLE_H

#ifdef __GNUC__
#define ND_ALWAYS_INLINE inline __attribute__((always_inline))
#define ND_NOINLINE __attribute__((noinline))
#elif defined(_MSC_VER)
#define ND_ALWAYS_INLINE __forceinline
#define ND_NOINLINE __declspec(noinline)
#else
#define ND_ALWAYS_INLINE inline
#define ND_NOINLINE
#endif

/* No round of the loop that follows reads what another one writes: where the output is the very memory of an input, a
 * compiler that asks for overlap would take its scalar loop. Clang gets none: its pragma of this meaning warns wherever it
 * cannot be followed, under sanitizers for one. */
#if defined(__GNUC__) && !defined(__clang__)
#define ND_EACH_ALONE _Pragma("GCC ivdep")
#elif defined(_MSC_VER)
#define ND_EACH_ALONE __pragma(loop(ivdep))
#else
#define ND_EACH_ALONE
#endif

#endif

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

#endif

/* Pooled memory for the blocks of arrays: fresh pages cost 3 to 10 times the arithmetic on them, so freed blocks are
 * kept, by size class, up to a cap. Every caller holds the GIL, which is the lock. Only memory lives here. */
#ifndef NDUAL_POOL_H
#define NDUAL_POOL_H
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_MSC_VER)
#include <intrin.h>
static inline int nd_log2(unsigned long long x) {
    unsigned long index;
    _BitScanReverse64(&index, x);
    return (int)index;
}
#else
static inline int nd_log2(unsigned long long x) { return 63 - __builtin_clzll(x); }
#endif

#if defined(__linux__)
#include <sys/mman.h>
#endif

#define ND_POOL_ALIGN 64
#define ND_POOL_HUGE ((size_t)2 << 20) /* bytes of a huge page: blocks from there on lie in such */
#define ND_POOL_CLASSES 192 /* four per octave, from 64 bytes on: powers of two alone waste up to half */

typedef struct nd_node {
    struct nd_node *next;
} nd_node;

static struct {
    nd_node *free[ND_POOL_CLASSES];
    size_t held, limit, live, peak;
} nd_pool = {{0}, 0, (size_t)256 << 20, 0, 0};

/* The class of a request and, in *rounded, the bytes that the class gives. */
static inline int nd_pool_class(size_t bytes, size_t *rounded) {
    size_t size = bytes <= 64 ? 64 : bytes;
    int octave = nd_log2((unsigned long long)(size - 1) | 63);
    size_t base = (size_t)1 << octave, quarter = base >> 2;
    size_t steps = size <= base ? 0 : (size - base + quarter - 1) / quarter;
    *rounded = base + steps * quarter;
    return (octave - 5) * 4 + (int)steps;
}

/* Before each block: its class, then what malloc gave. */
static void *nd_pool_system(size_t bytes, int size_class) {
    const size_t align = bytes >= ND_POOL_HUGE ? ND_POOL_HUGE : ND_POOL_ALIGN;
    char *raw = (char *)malloc(bytes + align + ND_POOL_ALIGN);
    char *start;
    if (raw == NULL) return NULL;
    start = (char *)(((uintptr_t)raw + ND_POOL_ALIGN + align - 1) & ~(uintptr_t)(align - 1));
#if defined(MADV_HUGEPAGE)
    if (align == ND_POOL_HUGE) (void)madvise(start, bytes / ND_POOL_HUGE * ND_POOL_HUGE, MADV_HUGEPAGE);
#endif
    ((void **)start)[-1] = raw;
    ((intptr_t *)start)[-2] = size_class;
    return start;
}

static inline void *nd_pool_alloc(size_t bytes, int *size_class) {
    size_t rounded;
    int k = nd_pool_class(bytes, &rounded);
    void *block;
    *size_class = k;
    if (k >= ND_POOL_CLASSES) return NULL;
    block = nd_pool.free[k];
    if (block != NULL) {
        nd_pool.free[k] = ((nd_node *)block)->next;
        nd_pool.held -= rounded;
    } else if ((block = nd_pool_system(rounded, k)) == NULL) {
        return NULL;
    }
    nd_pool.live += rounded;
    if (nd_pool.live > nd_pool.peak) nd_pool.peak = nd_pool.live;
    return block;
}

static inline size_t nd_pool_bytes(int size_class) {
    size_t base = (size_t)1 << (size_class / 4 + 5);
    return base + (size_t)(size_class % 4) * (base >> 2);
}

static inline void nd_pool_free(void *block, int size_class) {
    size_t bytes = nd_pool_bytes(size_class);
    nd_pool.live -= bytes;
    if (nd_pool.held + bytes > nd_pool.limit) {
        free(((void **)block)[-1]);
        return;
    }
    ((nd_node *)block)->next = nd_pool.free[size_class];
    nd_pool.free[size_class] = (nd_node *)block;
    nd_pool.held += bytes;
}

/* Give blocks back to the system until no more than the limit is held. */
static void nd_pool_trim(size_t limit) {
    int k;
    for (k = ND_POOL_CLASSES - 1; k >= 0 && nd_pool.held > limit; k--) {
        while (nd_pool.free[k] != NULL && nd_pool.held > limit) {
            nd_node *node = nd_pool.free[k];
            nd_pool.free[k] = node->next;
            nd_pool.held -= nd_pool_bytes(k);
            free(((void **)node)[-1]);
        }
    }
}

/* NumPy's own arrays can come from the pool too (its NEP 49): what rules compute is as large as what kernels do. */
static void *nd_pool_malloc(void *ctx, size_t bytes) {
    int size_class;
    (void)ctx;
    return nd_pool_alloc(bytes, &size_class);
}

static void *nd_pool_calloc(void *ctx, size_t count, size_t size) {
    void *block = size && count > SIZE_MAX / size ? NULL : nd_pool_malloc(ctx, count * size);
    if (block != NULL) memset(block, 0, count * size);
    return block;
}

static void nd_pool_release(void *ctx, void *block, size_t bytes) {
    (void)ctx;
    (void)bytes;
    if (block != NULL) nd_pool_free(block, (int)((intptr_t *)block)[-2]);
}

static void *nd_pool_realloc(void *ctx, void *block, size_t bytes) {
    void *other;
    size_t old;
    if (block == NULL) return nd_pool_malloc(ctx, bytes);
    old = nd_pool_bytes((int)((intptr_t *)block)[-2]);
    other = nd_pool_malloc(ctx, bytes);
    if (other == NULL) return NULL;
    memcpy(other, block, old < bytes ? old : bytes);
    nd_pool_release(ctx, block, old);
    return other;
}
#endif

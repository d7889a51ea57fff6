// Vectors of W bytes, which is what a register of the processor holds. Sums are kept in 16 lanes
// however many registers that takes, so that every processor finds the same numbers.
#pragma once

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define EACH _Pragma("GCC unroll 16") for

// Products are exact everywhere else, so that it is the same whether they are rounded before they
// are added; here they must be.
#if defined(__x86_64__)
#define ROUNDED(product) __asm__("" : "+v"(product))
#elif defined(__aarch64__)
#define ROUNDED(product) __asm__("" : "+w"(product))
#else
#define ROUNDED(product)
#endif

// Lanes of two vectors as one.
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAS_PICKED 1
#define PICKED(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#endif
#endif

const int64_t BLOCK = 4096;  // numbers that are read together while they are near the processor
const int64_t PERIOD = 64;   // of the signs of rows and columns
const int LANES = 16;
const int SLICES = 16;
const int FLAT = 32;
const int NUMBERS = 64;
const int FOLDED = 64;  // sums of float that are added up before they go on in double

template <typename V>
INLINE V load(const void *from) {
    V loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

template <typename V>
INLINE void store(void *to, V vector) {
    memcpy(to, &vector, sizeof vector);
}

template <int W>
struct Of {
    typedef float F __attribute__((vector_size(W)));
    typedef float H __attribute__((vector_size(W / 2)));
    typedef double D __attribute__((vector_size(W)));
    typedef uint32_t U __attribute__((vector_size(W)));
};

// 16 sums of float.
template <int W>
struct Floats {
    static const int COUNT = LANES * 4 / W, EACH_HAS = W / 4;
    typename Of<W>::F v[COUNT];

    static inline __attribute__((always_inline)) Floats zero() {
        Floats made;
        memset(&made, 0, sizeof made);
        return made;
    }
};

// 16 sums of double.
template <int W>
struct Doubles {
    static const int COUNT = LANES * 8 / W, EACH_HAS = W / 8;
    typename Of<W>::D v[COUNT];

    static inline __attribute__((always_inline)) Doubles zero() {
        Doubles made;
        memset(&made, 0, sizeof made);
        return made;
    }
};

template <int W>
INLINE double sum_of(const Doubles<W> &sums) {
    double all[LANES];
    memcpy(all, &sums, sizeof all);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) all[i] += all[i + half];
    return all[0];
}

typedef float F4 __attribute__((vector_size(16)));

// 16 sums as four: those of lanes 0, 4, 8 and 12, those of 1, 5, 9 and 13, and so on.
template <int W>
INLINE F4 quarters_of(const typename Of<W>::F *sums) {
    if constexpr (W == 16) return (sums[0] + sums[2]) + (sums[1] + sums[3]);
#if HAS_PICKED
    if constexpr (W > 16) {
        typename Of<32>::F eight;
        if constexpr (W == 32)
            eight = sums[0] + sums[1];
        else
            eight = PICKED(sums[0], sums[0], 0, 1, 2, 3, 4, 5, 6, 7) +
                    PICKED(sums[0], sums[0], 8, 9, 10, 11, 12, 13, 14, 15);
        return PICKED(eight, eight, 0, 1, 2, 3) + PICKED(eight, eight, 4, 5, 6, 7);
    }
#endif
    float all[LANES];
    memcpy(all, sums, sizeof all);
    return (load<F4>(all) + load<F4>(all + 8)) + (load<F4>(all + 4) + load<F4>(all + 12));
}

template <int W>
INLINE float sum_of(const typename Of<W>::F *sums) {
    F4 four = quarters_of<W>(sums);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

// The same of four at a time.
INLINE F4 sums_of(F4 a, F4 b, F4 c, F4 d) {
#if HAS_PICKED
    F4 ab = PICKED(a, b, 0, 1, 4, 5) + PICKED(a, b, 2, 3, 6, 7);
    F4 cd = PICKED(c, d, 0, 1, 4, 5) + PICKED(c, d, 2, 3, 6, 7);
    return PICKED(ab, cd, 0, 2, 4, 6) + PICKED(ab, cd, 1, 3, 5, 7);
#else
    F4 sums, all[] = {a, b, c, d};
    EACH(int i = 0; i < 4; i++) sums[i] = (all[i][0] + all[i][2]) + (all[i][1] + all[i][3]);
    return sums;
#endif
}

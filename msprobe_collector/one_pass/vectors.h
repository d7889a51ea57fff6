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

template <int W>
INLINE float sum_of(const typename Of<W>::F *sums) {
    typedef float F4 __attribute__((vector_size(16)));
    float all[LANES];
    memcpy(all, sums, sizeof all);
    F4 four = (load<F4>(all) + load<F4>(all + 8)) + (load<F4>(all + 4) + load<F4>(all + 12));
    return (four[0] + four[2]) + (four[1] + four[3]);
}

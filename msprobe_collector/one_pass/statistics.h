// Maximum, minimum, sum and sum of squares, and a fingerprint of the bytes.
#pragma once

#include <math.h>

#include "vectors.h"

enum Code { F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL };
const int64_t SIZES[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1};

struct Found {
    double high = -INFINITY, low = INFINITY;
    int64_t most = INT64_MIN, least = INT64_MAX;  // of whole numbers instead
    double total = 0, squares = 0;
    uint64_t nans = 0, infinities = 0;  // as float32
    bool has_nan = false;
};

// What is added up in double is exact enough for any order; of float the squares are exact.
template <int W>
struct Sums {
    Doubles<W> total = Doubles<W>::zero(), squares = Doubles<W>::zero();
};

template <int W>
INLINE void add_lanes(Sums<W> &sums, const float *numbers) {
    typedef typename Of<W>::H H;
    typedef typename Of<W>::D D;
    EACH(int k = 0; k < Doubles<W>::COUNT; k++) {
        D wide = __builtin_convertvector(load<H>(numbers + k * (W / 8)), D);
        sums.total.v[k] += wide;
        sums.squares.v[k] += wide * wide;
    }
}

template <int W>
INLINE void add_lanes(Sums<W> &sums, const double *numbers) {
    typedef typename Of<W>::D D;
    EACH(int k = 0; k < Doubles<W>::COUNT; k++) {
        D wide = load<D>(numbers + k * (W / 8));
        D square = wide * wide;
        ROUNDED(square);
        sums.total.v[k] += wide;
        sums.squares.v[k] += square;
    }
}

template <int W, typename T>
INLINE void add_up(Found &found, const T *numbers, int64_t count) {
    Sums<W> sums;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) add_lanes(sums, numbers + i);
    if (i < count) {
        T rest[LANES] = {};
        memcpy(rest, numbers + i, (size_t)(count - i) * sizeof(T));
        add_lanes(sums, rest);
    }
    found.total += sum_of(sums.total);
    found.squares += sum_of(sums.squares);
}

template <int W, typename T>
INLINE void find_extremes(const T *numbers, int64_t count, T &high, T &low) {
    typedef T V __attribute__((vector_size(W)));
    const int64_t width = W / sizeof(T);
    if (count >= 4 * width) {
        V most[4], least[4];
        EACH(int k = 0; k < 4; k++) most[k] = least[k] = load<V>(numbers + k * width);
        // The last step may read some numbers again.
        for (int64_t i = 4 * width; i < count; i += 4 * width) {
            const T *from = numbers + (i + 4 * width <= count ? i : count - 4 * width);
            EACH(int k = 0; k < 4; k++) {
                V one = load<V>(from + k * width);
                most[k] = one > most[k] ? one : most[k];
                least[k] = one < least[k] ? one : least[k];
            }
        }
        for (int k = 0; k < 4; k++)
            for (int64_t i = 0; i < width; i++) {
                high = most[k][i] > high ? most[k][i] : high;
                low = least[k][i] < low ? least[k][i] : low;
            }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        high = numbers[i] > high ? numbers[i] : high;
        low = numbers[i] < low ? numbers[i] : low;
    }
}

template <int W, typename T>
INLINE void find_whole(Found &found, const T *numbers, double *wide, int64_t count) {
    T high = numbers[0], low = numbers[0];
    find_extremes<W>(numbers, count, high, low);
    if ((int64_t)high > found.most) found.most = (int64_t)high;
    if ((int64_t)low < found.least) found.least = (int64_t)low;
    for (int64_t i = 0; i < count; i++) wide[i] = (double)numbers[i];
    add_up<W>(found, wide, count);
}

// Whether all numbers of the block are finite, as float32 as well.
template <int W, typename T>
INLINE bool find_real(Found &found, const T *numbers, int64_t count) {
    T high = -INFINITY, low = INFINITY;
    find_extremes<W>(numbers, count, high, low);
    Found own;
    add_up<W>(own, numbers, count);
    found.total += own.total;
    found.squares += own.squares;
    if (high > found.high) found.high = high;
    if (low < found.low) found.low = low;
    if (isfinite(own.total) && high <= 3.4e38 && low >= -3.4e38) return true;
    bool all_finite = true;
    for (int64_t i = 0; i < count; i++) {
        float narrow = (float)numbers[i];
        if (isnan(narrow)) {
            found.nans++;
            found.has_nan = true;
        } else if (isinf(narrow)) {
            found.infinities++;
        } else {
            continue;
        }
        all_finite = false;
    }
    return all_finite;
}

// -- half precision -------------------------------------------------------------------------------

INLINE void widen_brain(const uint16_t *from, float *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

// Without arithmetic on subnormal numbers, which a program may have switched off.
INLINE void widen_half(const uint16_t *from, float *to, int64_t count) {
    const float smallest = 6.103515625e-05f;  // the first normal number, 2^-14
    for (int64_t i = 0; i < count; i++) {
        uint32_t sign = (uint32_t)(from[i] & 0x8000) << 16, rest = from[i] & 0x7fff;
        uint32_t normal = (rest << 13) + (112u << 23);
        uint32_t endless = normal + (112u << 23);  // infinity and NaN
        uint32_t raised = (rest << 13) + (113u << 23);
        float small;
        memcpy(&small, &raised, sizeof small);
        small -= smallest;
        uint32_t tiny;
        memcpy(&tiny, &small, sizeof tiny);
        uint32_t bits = rest >= 0x7c00 ? endless : rest >= 0x0400 ? normal : tiny;
        bits |= sign;
        memcpy(to + i, &bits, sizeof bits);
    }
}

// -- the fingerprint ------------------------------------------------------------------------------

// 64 words of 32 bits beside each other. A step can be undone, so one word that changes always
// shows; several that change hide each other once in 2^32 times.
struct Prints {
    uint32_t lanes[64];
    uint64_t bytes;
};

INLINE void begin(Prints &prints) {
    for (uint32_t i = 0; i < 64; i++) prints.lanes[i] = 0x9e3779b9u * (i + 1);
    prints.bytes = 0;
}

template <int W>
INLINE void add_words(typename Of<W>::U *lanes, const char *from) {
    typedef typename Of<W>::U U;
    EACH(int k = 0; k < 256 / W; k++) {
        U mixed = (lanes[k] ^ load<U>(from + k * W)) * 0x85ebca6bu;
        lanes[k] = mixed ^ (mixed >> 15);
    }
}

template <int W>
INLINE void add_bytes(Prints &prints, const char *from, int64_t size) {
    typename Of<W>::U lanes[256 / W];
    memcpy(lanes, prints.lanes, sizeof lanes);
    int64_t i = 0;
    for (; i + 256 <= size; i += 256) add_words<W>(lanes, from + i);
    if (i < size) {
        char rest[256] = {};
        memcpy(rest, from + i, (size_t)(size - i));
        add_words<W>(lanes, rest);
    }
    memcpy(prints.lanes, lanes, sizeof lanes);
    prints.bytes += (uint64_t)size;
}

static uint64_t print_of(const Prints &prints) {
    uint64_t found = prints.bytes;
    for (int i = 0; i < 64; i += 2) {
        uint64_t pair = (uint64_t)prints.lanes[i] << 32 | prints.lanes[i + 1];
        found = (found ^ pair) * 0x9e3779b97f4a7c15ull;
        found ^= found >> 29;
    }
    return found;
}

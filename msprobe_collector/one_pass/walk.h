// The numbers of a tensor one after the other, in their logical order or as they lie in memory.
#pragma once

#include "vectors.h"

const int MOST_DIMENSIONS = 64;

struct Walk {
    int dimensions = 0;
    int64_t length[MOST_DIMENSIONS], step[MOST_DIMENSIONS], at[MOST_DIMENSIONS];  // steps in bytes
    const char *from;
    int64_t size;  // bytes of a number
    bool is_plain;  // all lie one behind the other
};

// Dimensions that follow on each other become one.
INLINE void join(Walk &walk, const char *from, int64_t size, int dimensions, const int64_t *length,
                 const int64_t *step) {
    walk.from = from;
    walk.size = size;
    int n = 0;
    for (int d = 0; d < dimensions; d++) {
        if (length[d] == 1) continue;
        if (n && walk.step[n - 1] == step[d] * length[d]) {
            walk.length[n - 1] *= length[d];
            walk.step[n - 1] = step[d];
            continue;
        }
        walk.length[n] = length[d];
        walk.step[n++] = step[d];
    }
    if (!n) {
        walk.length[0] = 1;
        walk.step[n++] = size;
    }
    walk.dimensions = n;
    for (int d = 0; d < n; d++) walk.at[d] = 0;
    walk.is_plain = n == 1 && walk.step[0] == size;
}

template <typename T>
INLINE void gather(const char *from, int64_t step, char *to, int64_t count) {
    T *numbers = (T *)to;
    for (int64_t i = 0; i < count; i++) numbers[i] = *(const T *)(from + i * step);
}

// The next numbers: where they are, or copied to ``room``.
INLINE const char *take(Walk &walk, char *room, int64_t count) {
    int last = walk.dimensions - 1;
    if (walk.is_plain) {
        const char *here = walk.from + walk.at[0] * walk.size;
        walk.at[0] += count;
        return here;
    }
    char *to = room;
    while (count) {
        const char *from = walk.from;
        for (int d = 0; d <= last; d++) from += walk.at[d] * walk.step[d];
        int64_t some = walk.length[last] - walk.at[last], step = walk.step[last];
        if (some > count) some = count;
        if (step == walk.size)
            memcpy(to, from, (size_t)(some * walk.size));
        else if (walk.size == 4)
            gather<uint32_t>(from, step, to, some);
        else if (walk.size == 2)
            gather<uint16_t>(from, step, to, some);
        else if (walk.size == 8)
            gather<uint64_t>(from, step, to, some);
        else
            gather<uint8_t>(from, step, to, some);
        to += some * walk.size;
        count -= some;
        walk.at[last] += some;
        for (int d = last; d > 0 && walk.at[d] == walk.length[d]; d--) {
            walk.at[d] = 0;
            walk.at[d - 1]++;
        }
    }
    return room;
}

// One pass over a tensor, or two where its logical order is not that of its memory.
#pragma once

#include "sketch.h"
#include "statistics.h"
#include "walk.h"

struct Job {
    int code;
    int64_t count;
    Walk memory, logical;
    bool is_measured;  // false: the fingerprint alone
    bool is_ordered;   // both walks are the same
    const Plan *plan;  // null: no sketch
    double *room;
    Found found;
    Prints prints;
    float numbers[NUMBERS];
};

template <typename T>
INLINE void to_floats(const T *from, float *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = (float)from[i];
}

INLINE void to_floats(int code, const char *raw, float *to, int64_t count) {
    switch (code) {
    case F64: return to_floats((const double *)raw, to, count);
    case F32: return to_floats((const float *)raw, to, count);
    case F16: return widen_half((const uint16_t *)raw, to, count);
    case BF16: return widen_brain((const uint16_t *)raw, to, count);
    case I64: return to_floats((const int64_t *)raw, to, count);
    case I32: return to_floats((const int32_t *)raw, to, count);
    case I16: return to_floats((const int16_t *)raw, to, count);
    case I8: return to_floats((const int8_t *)raw, to, count);
    default: return to_floats((const uint8_t *)raw, to, count);
    }
}

// Whether all are finite; ``wide`` is room. What is already there as floats is in ``floats``.
template <int W>
INLINE bool find(Found &found, int code, const char *raw, const float *floats, double *wide,
                 int64_t count) {
    switch (code) {
    case F64: return find_real<W>(found, (const double *)raw, count);
    case F32:
    case F16:
    case BF16: return find_real<W>(found, floats, count);
    case I64: find_whole<W>(found, (const int64_t *)raw, wide, count); break;
    case I32: find_whole<W>(found, (const int32_t *)raw, wide, count); break;
    case I16: find_whole<W>(found, (const int16_t *)raw, wide, count); break;
    case I8: find_whole<W>(found, (const int8_t *)raw, wide, count); break;
    default: find_whole<W>(found, (const uint8_t *)raw, wide, count);
    }
    return true;
}

template <int W>
INLINE void sketch_block(Sketcher<W> &sketcher, const float *floats, float *cleaned, bool is_finite,
                         int64_t count) {
    if (is_finite) return add_block(sketcher, floats, count);
    for (int64_t i = 0; i < count; i++) cleaned[i] = isfinite(floats[i]) ? floats[i] : 0;
    add_block(sketcher, cleaned, count);
}

template <int W>
INLINE void run(Job &job) {
    alignas(64) char copied[BLOCK * 8];
    alignas(64) float widened[BLOCK], cleaned[BLOCK];
    alignas(64) double wide[BLOCK];
    Sketcher<W> sketcher;
    const int code = job.code;
    const bool is_half = code == F16 || code == BF16;
    bool is_finite = true;
    if (job.plan) begin(sketcher, job.plan, job.room);
    Prints prints;
    begin(prints);
    for (int64_t done = 0; done < job.count; done += BLOCK) {
        int64_t count = job.count - done < BLOCK ? job.count - done : BLOCK;
        const char *raw = take(job.memory, copied, count);
        add_bytes<W>(prints, raw, count * SIZES[code]);
        if (!job.is_measured) continue;
        const float *floats = (const float *)raw;
        bool sketches = job.plan && job.is_ordered;
        if (is_half || (sketches && code != F32)) {
            to_floats(code, raw, widened, count);
            floats = widened;
        }
        bool all = find<W>(job.found, code, raw, floats, wide, count);
        is_finite = is_finite && all;
        if (sketches) sketch_block(sketcher, floats, cleaned, all, count);
    }
    job.prints = prints;
    if (!job.plan) return;
    for (int64_t done = 0; !job.is_ordered && done < job.count; done += BLOCK) {
        int64_t count = job.count - done < BLOCK ? job.count - done : BLOCK;
        const char *raw = take(job.logical, copied, count);
        const float *floats = (const float *)raw;
        if (code != F32) {
            to_floats(code, raw, widened, count);
            floats = widened;
        }
        sketch_block(sketcher, floats, cleaned, is_finite, count);
    }
    finish(sketcher, job.numbers);
}

// The same for each kind of processor; all find the same numbers.
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("fma,avx512f,avx512bw,avx512dq,avx512vl"))) static void run_avx512(Job &job) {
    run<64>(job);
}
__attribute__((target("avx2,fma"))) static void run_avx2(Job &job) { run<32>(job); }
#endif
static void run_plainly(Job &job) { run<16>(job); }

typedef void (*Run)(Job &);

static Run best_run(int limit) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    bool has_512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (limit > 1 && has_512) return run_avx512;
    if (limit > 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return run_avx2;
#endif
    (void)limit;
    return run_plainly;
}

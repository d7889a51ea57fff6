// The sums of a sketch; docs/design/sketch.md is the definition. Numbers come block by block in
// their logical order. Sums of float grow by few numbers before they are added to sums of double.
#pragma once

#include <stdlib.h>

#include "vectors.h"

struct Plan {
    int64_t size, rows, columns, row_slice, column_slice, narrow, wide;
    const uint16_t *narrow_lines;  // 16 of each line: a bit that is set stands for plus
    const float *wide_lines;       // one of each line
    const uint16_t *along_wide;    // 16 of each place, as bits
    float row[PERIOD], column[PERIOD];
    float *along_narrow;  // with zeros behind
};

// 16 sums that are the ends of a plane: signs times what its lines or places come to.
template <int W>
struct Deep {
    Floats<W> sums = Floats<W>::zero();
    double folded[LANES] = {};
};

template <int W>
INLINE void fold(Deep<W> &deep) {
    float own[LANES];
    memcpy(own, &deep.sums, sizeof own);
    for (int i = 0; i < LANES; i++) deep.folded[i] += (double)own[i];
    deep.sums = Floats<W>::zero();
}

// A number with the signs of 16 bits, of which those of register k are taken. As bits the signs of
// a tensor fit beside it where the processor is near.
template <int W>
INLINE typename Of<W>::F with_signs(float number, uint32_t bits, int k) {
    typedef typename Of<W>::U U;
    U lanes, own = U{} + bits;
    EACH(int i = 0; i < W / 4; i++) lanes[i] = 1u << (k * (W / 4) + i);
    U minus = (U)((own & lanes) == 0) & 0x80000000u;
    typename Of<W>::F all = typename Of<W>::F{} + number;
    return (typename Of<W>::F)((U)all ^ minus);
}

template <int W>
INLINE void add_signed(Floats<W> &sums, uint32_t signs, float by) {
    EACH(int k = 0; k < Floats<W>::COUNT; k++) sums.v[k] += with_signs<W>(by, signs, k);
}

// Four at a time, which do not wait for each other.
template <int W>
INLINE void add_ends(Deep<W> &deep, const uint16_t *signs, const double *sums, int64_t count) {
    for (int64_t first = 0; first < count; first += FOLDED) {
        Floats<W> own[4] = {Floats<W>::zero(), Floats<W>::zero(), Floats<W>::zero(), Floats<W>::zero()};
        int64_t last = count - first < FOLDED ? count : first + FOLDED, i = first;
        for (; i + 4 <= last; i += 4)
            EACH(int k = 0; k < 4; k++)
                add_signed(own[k], signs[i + k], (float)sums[i + k]);
        for (; i < last; i++) add_signed(own[0], signs[i], (float)sums[i]);
        EACH(int k = 0; k < Floats<W>::COUNT; k++)
            deep.sums.v[k] =
                (own[0].v[k] + own[1].v[k]) + (own[2].v[k] + own[3].v[k]);
        fold(deep);
    }
}

template <int W>
struct Sketcher {
    const Plan *plan;
    int64_t at = 0;
    float kept[FLAT];  // of a short tensor the numbers themselves
    // The narrow plane.
    int64_t line = 0, place = 0;
    Floats<W> part = Floats<W>::zero();
    Deep<W> deep;
    // The wide plane.
    int64_t wide_line = 0, wide_place = 0;
    int wide_adds = 0;
    float *wide_sums;
    double *wide_folded;
    // Rows and columns.
    bool is_grouped, is_row;
    int64_t row = 0, column = 0, group, in_group = 0, in_slice = 0;
    int slice = 0, adds = 0, down_adds = 0;
    alignas(64) float across[PERIOD];
    float *down;            // a sum of each column, or of each place in a group of rows
    double *down_folded;    // a sum of each column
    double of_rows[SLICES] = {}, of_columns[SLICES] = {};
};

// Many short rows are added up as groups of whole periods, of which signs are told at the end; one
// long row as many short columns.
INLINE bool is_grouped(const Plan &plan) {
    if (plan.rows == 1) return plan.columns > SLICES * PERIOD;
    return plan.rows > SLICES * PERIOD && plan.columns <= PERIOD;
}

INLINE int64_t group_of(const Plan &plan) {
    int64_t columns = plan.rows == 1 ? 1 : plan.columns;
    int64_t periods = 16 / columns;
    return PERIOD * columns * (periods > 1 ? periods : 1);
}

// Where a sketcher has what: each begins where a register may, and has a register more behind it.
struct Room {
    int64_t down_folded, wide_sums, down, all;  // doubles before each
    bool folds_down;
};

INLINE int64_t aligned(int64_t doubles) { return (doubles + 2 * LANES - 1) / LANES * LANES; }

INLINE Room room_of(const Plan &plan) {
    int64_t down = is_grouped(plan) ? group_of(plan) : plan.columns;
    int64_t folded = is_grouped(plan) ? PERIOD : plan.rows > FOLDED ? plan.columns : 0;
    Room room;
    room.folds_down = folded;
    room.down_folded = aligned(plan.wide);
    room.wide_sums = room.down_folded + (folded ? aligned(folded) : 0);
    room.down = room.wide_sums + aligned((plan.wide + 1) / 2);
    room.all = room.down + aligned((down + 1) / 2);
    return room;
}

template <int W>
INLINE void begin(Sketcher<W> &s, const Plan *plan, double *from) {
    const Room room = room_of(*plan);
    memset(from, 0, (size_t)room.all * sizeof(double));
    s.plan = plan;
    s.is_grouped = is_grouped(*plan);
    s.is_row = plan->rows == 1;
    s.group = group_of(*plan);
    s.wide_folded = from;
    s.down_folded = room.folds_down ? from + room.down_folded : nullptr;
    s.wide_sums = (float *)(from + room.wide_sums);
    s.down = (float *)(from + room.down);
    memset(s.across, 0, sizeof s.across);
    memset(s.kept, 0, sizeof s.kept);
}

INLINE void fold(const float *__restrict sums, double *__restrict folded, int64_t count) {
    for (int64_t i = 0; i < count; i++) folded[i] += (double)sums[i];
}

// Four lines beside each other with the signs of their places, of which there are ``width``.
template <int W>
INLINE F4 sum_lines(const float *x, const float *signs, int64_t width) {
    typedef typename Of<W>::F F;
    const int many = Floats<W>::COUNT;
    F part[4][many];
    EACH(int l = 0; l < 4; l++)
        EACH(int j = 0; j < many; j++) part[l][j] = F{};
    for (int64_t k = 0; k < width; k += LANES)
        EACH(int j = 0; j < many; j++) {
            F sign = load<F>(signs + k + j * (W / 4));
            EACH(int l = 0; l < 4; l++)
                part[l][j] += load<F>(x + l * width + k + j * (W / 4)) * sign;
        }
    return sums_of(quarters_of<W>(part[0]), quarters_of<W>(part[1]), quarters_of<W>(part[2]),
                   quarters_of<W>(part[3]));
}

template <int W>
INLINE void add_narrow(Sketcher<W> &s, const float *x, int64_t count) {
    typedef typename Of<W>::F F;
    const int many = Floats<W>::COUNT;
    const Plan &plan = *s.plan;
    int64_t line = s.line, place = s.place;
    F part[many], deep[many];
    EACH(int j = 0; j < many; j++) {
        part[j] = s.part.v[j];
        deep[j] = s.deep.sums.v[j];
    }
    for (int64_t i = 0; i < count;) {
        // What is read beyond the last line is within the block.
        if (!place && 4 * plan.narrow + LANES <= count - i && line % FOLDED <= FOLDED - 4) {
            F4 sums = sum_lines<W>(x + i, plan.along_narrow, plan.narrow);
            EACH(int l = 0; l < 4; l++)
                EACH(int j = 0; j < many; j++)
                    deep[j] += with_signs<W>(sums[l], plan.narrow_lines[line + l], j);
            i += 4 * plan.narrow;
            line += 4;
            if (line % FOLDED == 0) {
                EACH(int j = 0; j < many; j++) {
                    s.deep.sums.v[j] = deep[j];
                    deep[j] = F{};
                }
                fold(s.deep);
            }
            continue;
        }
        int64_t length = plan.narrow - place;
        if (length > count - i) length = count - i;
        const float *from = x + i, *signs = plan.along_narrow + place;
        int64_t k = 0, readable = count - i;
        // What is read beyond a line counts 0.
        for (; k < length && k + LANES <= readable; k += LANES)
            EACH(int j = 0; j < many; j++)
                part[j] += load<F>(from + k + j * (W / 4)) * load<F>(signs + k + j * (W / 4));
        if (k < length) {
            float rest[LANES] = {};
            memcpy(rest, from + k, (size_t)(length - k) * sizeof(float));
            EACH(int j = 0; j < many; j++)
                part[j] += load<F>(rest + j * (W / 4)) * load<F>(signs + k + j * (W / 4));
        }
        i += length;
        place += length;
        if (place < plan.narrow) break;
        float sum = sum_of<W>(part);
        EACH(int j = 0; j < many; j++) {
            deep[j] += with_signs<W>(sum, plan.narrow_lines[line], j);
            part[j] = F{};
        }
        place = 0;
        if (++line % FOLDED == 0) {
            EACH(int j = 0; j < many; j++) {
                s.deep.sums.v[j] = deep[j];
                deep[j] = F{};
            }
            fold(s.deep);
        }
    }
    s.line = line;
    s.place = place;
    EACH(int j = 0; j < many; j++) {
        s.part.v[j] = part[j];
        s.deep.sums.v[j] = deep[j];
    }
}

// Load from behind these as many as are left: 1 for each of them, then 0.
alignas(64) static const float ONES[2 * LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

// ``readable`` numbers are there, of which ``count`` are added.
template <int W>
INLINE void add_scaled(float *sums, const float *x, float by, int64_t count, int64_t readable) {
    typedef typename Of<W>::F F;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        EACH(int k = 0; k < Floats<W>::COUNT; k++) {
            float *to = sums + i + k * (W / 4);
            store(to, load<F>(to) + load<F>(x + i + k * (W / 4)) * by);
        }
    if (i + LANES <= readable) {
        const float *ones = ONES + LANES - (count - i);
        EACH(int k = 0; k < Floats<W>::COUNT; k++) {
            int at = k * (W / 4);
            float *to = sums + i + at;
            store(to, load<F>(to) + load<F>(x + i + at) * (load<F>(ones + at) * by));
        }
        return;
    }
    for (; i < count; i++) sums[i] += by * x[i];
}

// The same of two lines behind each other, so that sums are read and written once for both.
template <int W>
INLINE void add_two_scaled(float *sums, const float *x, float by, float then, int64_t count,
                           int64_t readable) {
    typedef typename Of<W>::F F;
    const float *next = x + count;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        EACH(int k = 0; k < Floats<W>::COUNT; k++) {
            int64_t at = i + k * (W / 4);
            F own = load<F>(sums + at) + load<F>(x + at) * by;
            store(sums + at, own + load<F>(next + at) * then);
        }
    if (count + i + LANES <= readable) {
        const float *ones = ONES + LANES - (count - i);
        EACH(int k = 0; k < Floats<W>::COUNT; k++) {
            int64_t at = i + k * (W / 4);
            F one = load<F>(ones + k * (W / 4));
            F own = load<F>(sums + at) + load<F>(x + at) * (one * by);
            store(sums + at, own + load<F>(next + at) * (one * then));
        }
        return;
    }
    for (; i < count; i++) sums[i] = (sums[i] + by * x[i]) + then * next[i];
}

template <int W>
INLINE void add_wide(Sketcher<W> &s, const float *x, int64_t count) {
    const Plan &plan = *s.plan;
    for (int64_t i = 0; i < count;) {
        const float *signs = plan.wide_lines + s.wide_line;
        float *sums = s.wide_sums + s.wide_place;
        int64_t length = plan.wide - s.wide_place, lines = 1;
        if (length > count - i) length = count - i;
        if (!s.wide_place && 2 * plan.wide <= count - i && s.wide_adds + 2 <= FOLDED) {
            lines = 2;
            add_two_scaled<W>(sums, x + i, signs[0], signs[1], length, count - i);
        } else {
            add_scaled<W>(sums, x + i, signs[0], length, count - i);
        }
        i += lines * length;
        s.wide_place += length;
        if (s.wide_place < plan.wide) break;
        s.wide_place = 0;
        s.wide_line += lines;
        s.wide_adds += (int)lines;
        if (s.wide_adds == FOLDED) {
            fold(s.wide_sums, s.wide_folded, plan.wide);
            memset(s.wide_sums, 0, (size_t)plan.wide * sizeof(float));
            s.wide_adds = 0;
        }
    }
}

// -- rows and columns -----------------------------------------------------------------------------

// What rows of equal columns come to: signs of rows times the sums of their places.
INLINE void down_rows(const float *__restrict sums, const float *signs, int64_t rows,
                      int64_t columns, double *__restrict found) {
    for (int64_t k = 0; k < rows; k++) {
        const double sign = signs[k % PERIOD];
        for (int64_t j = 0; j < columns; j++) found[j] += sign * (double)sums[k * columns + j];
    }
}

// The same of one column, of ``count`` rows in whole periods.
INLINE double down_places(const float *__restrict sums, const float *__restrict signs,
                          int64_t count) {
    double places[PERIOD] = {}, found = 0;
    for (int64_t first = 0; first < count; first += PERIOD)
        for (int64_t k = 0; k < PERIOD; k++) places[k] += (double)sums[first + k];
    for (int64_t k = 0; k < PERIOD; k++) found += signs[k] * places[k];
    return found;
}

template <int W>
INLINE void fold_group(Sketcher<W> &s) {
    const Plan &plan = *s.plan;
    int64_t columns = s.is_row ? 1 : plan.columns;
    double found[PERIOD] = {}, sum = 0;
    const float *signs = s.is_row ? plan.column : plan.row;
    if (columns == 1)
        found[0] = down_places(s.down, signs, s.group);
    else
        down_rows(s.down, signs, s.group / columns, columns, found);
    for (int64_t j = 0; j < columns; j++) {
        sum += (s.is_row ? 1.0f : plan.column[j]) * found[j];
        s.down_folded[j] += found[j];
    }
    s.of_rows[s.slice] += sum;
    memset(s.down, 0, (size_t)s.group * sizeof(float));
    s.adds = 0;
}

template <int W>
INLINE void add_grouped(Sketcher<W> &s, const float *x, int64_t count) {
    const Plan &plan = *s.plan;
    int64_t slice = s.is_row ? plan.column_slice : plan.row_slice * plan.columns;
    for (int64_t i = 0; i < count;) {
        int64_t length = s.group - s.in_group;
        if (length > count - i) length = count - i;
        if (length > slice - s.in_slice) length = slice - s.in_slice;
        add_scaled<W>(s.down + s.in_group, x + i, 1, length, count - i);
        i += length;
        s.in_group += length;
        s.in_slice += length;
        if (s.in_group == s.group) {
            s.in_group = 0;
            s.adds++;
        }
        if (s.adds == FOLDED || s.in_slice == slice) fold_group(s);
        if (s.in_slice == slice) {
            s.in_slice = s.in_group = 0;
            s.slice++;
        }
    }
}

// Sums with their signs, in double; of several lanes, as one would wait for each of its steps.
template <int W, typename T>
INLINE double signed_sum(const T *sums, const float *signs, int64_t count) {
    typedef typename Of<W>::D D;
    const int many = Doubles<W>::COUNT, each = Doubles<W>::EACH_HAS;
    Doubles<W> lanes = Doubles<W>::zero();
    if (count < LANES) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++) sum += (double)sums[i] * (double)signs[i];
        return sum;
    }
    for (int64_t i = 0; i < count; i += LANES) {
        const float *sign = signs + i % PERIOD;
        double one[LANES] = {};
        if (i + LANES <= count)
            EACH(int k = 0; k < LANES; k++) one[k] = (double)sums[i + k];
        else
            for (int k = 0; i + k < count; k++) one[k] = (double)sums[i + k];
        EACH(int k = 0; k < many; k++)
            lanes.v[k] += load<D>(one + k * each) *
                          __builtin_convertvector(load<typename Of<W>::H>(sign + k * each), D);
    }
    return sum_of(lanes);
}

template <int W>
INLINE void fold_across(Sketcher<W> &s) {
    s.of_rows[s.slice] += signed_sum<W>(s.across, s.plan->column, PERIOD);
    memset(s.across, 0, sizeof s.across);
    s.adds = 0;
}

// A row is over: what has grown by enough goes on in double.
template <int W>
INLINE void end_rows(Sketcher<W> &s) {
    const Plan &plan = *s.plan;
    if (s.down_folded && s.down_adds == FOLDED) {
        fold(s.down, s.down_folded, plan.columns);
        memset(s.down, 0, (size_t)plan.columns * sizeof(float));
        s.down_adds = 0;
    }
    bool is_next = s.in_slice == plan.row_slice;
    if (s.adds >= FOLDED || is_next || s.row == plan.rows) fold_across(s);
    if (is_next) {
        s.in_slice = 0;
        s.slice++;
    }
}

INLINE void add_both(float *__restrict across, float *__restrict down, const float *__restrict x,
                     float own, float all, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        across[i] += own * x[i];
        down[i] += all * x[i];
    }
}

// The same of whole periods.
template <int W>
INLINE void add_periods(float *across, float *down, const float *x, float own, float all,
                        int64_t count) {
    typedef typename Of<W>::F F;
    const int many = PERIOD * 4 / W;
    F sums[many];
    EACH(int k = 0; k < many; k++) sums[k] = load<F>(across + k * (W / 4));
    for (int64_t i = 0; i < count; i += PERIOD)
        EACH(int k = 0; k < many; k++) {
            int64_t at = i + k * (W / 4);
            F one = load<F>(x + at);
            sums[k] += one * own;
            store(down + at, load<F>(down + at) + one * all);
        }
    EACH(int k = 0; k < many; k++) store(across + k * (W / 4), sums[k]);
}

// The same of whole rows beside each other, so that sums are read and written once for all.
template <int W, int ROWS>
INLINE void add_rows_together(float *across, float *down, const float *x, const float *own,
                              const float *all, int64_t columns) {
    typedef typename Of<W>::F F;
    for (int64_t j = 0; j < columns; j += LANES)
        EACH(int k = 0; k < Floats<W>::COUNT; k++) {
            int64_t at = j + k * (W / 4);
            float *to = across + at % PERIOD;
            F rows = load<F>(to), sums = load<F>(down + at);
            EACH(int r = 0; r < ROWS; r++) {
                F one = load<F>(x + r * columns + at);
                rows += one * own[r];
                sums += one * all[r];
            }
            store(to, rows);
            store(down + at, sums);
        }
}

// As many whole rows as are to be added up together; 0 where they have to be one by one.
template <int W>
INLINE int64_t rows_together(const Sketcher<W> &s, int64_t count) {
    const Plan &plan = *s.plan;
    if (s.column || plan.columns % LANES) return 0;
    int64_t rows = count / plan.columns;
    int64_t left = plan.row_slice - s.in_slice;
    if (rows > left) rows = left;
    left = plan.rows - s.row;
    if (rows > left) rows = left;
    if (rows > FOLDED - s.down_adds) rows = FOLDED - s.down_adds;
    return rows >= 8 ? 8 : rows >= 4 ? 4 : rows >= 2 ? 2 : 0;
}

template <int W>
INLINE void add_rows(Sketcher<W> &s, const float *x, int64_t count) {
    const Plan &plan = *s.plan;
    for (int64_t i = 0; i < count;) {
        int64_t rows = rows_together(s, count - i);
        if (rows) {
            float own[8], all[8];
            for (int64_t r = 0; r < rows; r++) {
                own[r] = plan.row[(s.in_slice + r) % PERIOD];
                all[r] = plan.row[(s.row + r) % PERIOD];
            }
            const float *from = x + i;
            if (rows == 8)
                add_rows_together<W, 8>(s.across, s.down, from, own, all, plan.columns);
            else if (rows == 4)
                add_rows_together<W, 4>(s.across, s.down, from, own, all, plan.columns);
            else
                add_rows_together<W, 2>(s.across, s.down, from, own, all, plan.columns);
            s.adds += (int)(rows * (plan.columns / PERIOD + 1));
            i += rows * plan.columns;
            s.row += rows;
            s.in_slice += rows;
            s.down_adds += (int)rows;
            end_rows(s);
            continue;
        }
        int64_t length = plan.columns - s.column;
        if (length > count - i) length = count - i;
        float own = plan.row[s.in_slice % PERIOD], all = plan.row[s.row % PERIOD];
        int64_t k = 0, first = s.column % PERIOD;
        if (first) {
            k = PERIOD - first < length ? PERIOD - first : length;
            add_both(s.across + first, s.down + s.column, x + i, own, all, k);
        }
        int64_t whole = (length - k) / PERIOD * PERIOD;
        if (whole) add_periods<W>(s.across, s.down + s.column + k, x + i + k, own, all, whole);
        k += whole;
        if (k < length) add_both(s.across, s.down + s.column + k, x + i + k, own, all, length - k);
        s.adds += (int)(length / PERIOD) + 1;
        i += length;
        s.column += length;
        if (s.column == plan.columns) {
            s.column = 0;
            s.row++;
            s.in_slice++;
            s.down_adds++;
            end_rows(s);
        } else if (s.adds >= FOLDED) {
            fold_across(s);
        }
    }
}

// The next numbers, all finite; BLOCK of them unless they are the last.
template <int W>
INLINE void add_block(Sketcher<W> &s, const float *x, int64_t count) {
    if (s.plan->size <= FLAT) {
        memcpy(s.kept, x, (size_t)count * sizeof(float));
    } else {
        add_narrow(s, x, count);
        add_wide(s, x, count);
    }
    if (s.is_grouped)
        add_grouped(s, x, count);
    else
        add_rows(s, x, count);
    s.at += count;
}

template <int W>
INLINE void finish(Sketcher<W> &s, float *numbers) {
    const Plan &plan = *s.plan;
    const double scale = 0.17677669529663687;  // the inverse root of FLAT
    if (plan.size <= FLAT) {
        memcpy(numbers, s.kept, sizeof s.kept);
    } else {
        if (s.place) add_signed(s.deep.sums, plan.narrow_lines[s.line], sum_of<W>(s.part.v));
        fold(s.deep);
        fold(s.wide_sums, s.wide_folded, plan.wide);
        Deep<W> deep;
        add_ends(deep, plan.along_wide, s.wide_folded, plan.wide);
        for (int k = 0; k < LANES; k++) {
            numbers[k] = (float)(s.deep.folded[k] * scale);
            numbers[LANES + k] = (float)(deep.folded[k] * scale);
        }
    }
    if (s.is_grouped && (s.in_slice || s.adds)) fold_group(s);
    if (s.is_grouped && s.is_row) {
        double all = 0;
        for (int k = 0; k < SLICES; k++) all += s.of_rows[k];
        for (int k = 0; k < SLICES; k++) {
            numbers[FLAT + SLICES + k] = (float)(plan.row[0] * s.of_rows[k]);
            numbers[FLAT + k] = (float)(k ? 0 : plan.row[0] * all);
        }
        return;
    }
    for (int64_t first = 0, k = 0; first < plan.columns; first += plan.column_slice, k++) {
        int64_t length = plan.columns - first;
        if (length > plan.column_slice) length = plan.column_slice;
        if (s.down_folded)
            s.of_columns[k] += signed_sum<W>(s.down_folded + first, plan.column, length);
        if (!s.is_grouped) s.of_columns[k] += signed_sum<W>(s.down + first, plan.column, length);
    }
    for (int k = 0; k < SLICES; k++) {
        numbers[FLAT + k] = (float)s.of_rows[k];
        numbers[FLAT + SLICES + k] = (float)s.of_columns[k];
    }
}

// The module msprobe_collector.one_pass._compiled: statistics, sketch and fingerprint of a tensor
// whose memory this process can read, and what is written of it. It knows addresses, types, shapes
// and steps, nothing of torch.

#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "gradient_flow.h"
#include "memories.h"
#include "passes.h"
#include "records.h"
#include "rows.h"

static const char PLAN[] = "msprobe_collector.one_pass.plan";
static const int64_t LONG = 1 << 14;  // numbers, from which on other threads may run meanwhile
static Run best = run_plainly;

static void free_plan(PyObject *capsule) {
    Plan *plan = (Plan *)PyCapsule_GetPointer(capsule, PLAN);
    if (plan) free(plan->along_narrow);
    free(plan);
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
}

static void set_signs(float *signs, unsigned long long bits) {
    for (int i = 0; i < PERIOD; i++) signs[i] = bits >> i & 1 ? 1.0f : -1.0f;
}

PyDoc_STRVAR(plan_doc,
             "plan(rows, columns, row_slice, column_slice, narrow, wide, row_bits, column_bits,\n"
             "     along_narrow, narrow_lines, wide_lines, along_wide, owner)\n--\n\n"
             "What the sketches of a layout need; four are addresses of signs in memory of ``owner``,\n"
             "which the plan holds: of places in narrow lines as float32, 16 of each narrow line as\n"
             "bits, of wide lines as float32, 16 of each place in wide lines as bits.");

static PyObject *make_plan(PyObject *, PyObject *arguments) {
    long long rows, columns, row_slice, column_slice, narrow, wide;
    unsigned long long row_bits, column_bits, along, narrow_lines, wide_lines, along_wide;
    PyObject *owner;
    if (!PyArg_ParseTuple(arguments, "LLLLLLKKKKKKO:plan", &rows, &columns, &row_slice,
                          &column_slice, &narrow, &wide, &row_bits, &column_bits, &along,
                          &narrow_lines, &wide_lines, &along_wide, &owner))
        return nullptr;
    if (rows < 1 || columns < 1 || row_slice < 1 || column_slice < 1 || narrow < 1 || wide < 1) {
        PyErr_SetString(PyExc_ValueError, "a layout has lengths of 1 and more");
        return nullptr;
    }
    Plan *plan = (Plan *)calloc(1, sizeof(Plan));
    float *signs = (float *)calloc((size_t)narrow + 32, sizeof(float));
    if (!plan || !signs) {
        free(plan);
        free(signs);
        return PyErr_NoMemory();
    }
    for (int64_t i = 0; i < narrow; i++) signs[i] = ((const float *)(uintptr_t)along)[i];
    plan->size = rows * columns;
    plan->rows = rows;
    plan->columns = columns;
    plan->row_slice = row_slice;
    plan->column_slice = column_slice;
    plan->narrow = narrow;
    plan->wide = wide;
    plan->narrow_lines = (const uint16_t *)(uintptr_t)narrow_lines;
    plan->wide_lines = (const float *)(uintptr_t)wide_lines;
    plan->along_wide = (const uint16_t *)(uintptr_t)along_wide;
    plan->along_narrow = signs;
    set_signs(plan->row, row_bits);
    set_signs(plan->column, column_bits);
    PyObject *capsule = PyCapsule_New(plan, PLAN, free_plan);
    if (!capsule) {
        free(signs);
        free(plan);
        return nullptr;
    }
    Py_INCREF(owner);
    PyCapsule_SetContext(capsule, owner);
    return capsule;
}

static int read_lengths(PyObject *from, int64_t *to) {
    Py_ssize_t count = PyTuple_Size(from);
    if (count < 0) return -1;
    if (count > MOST_DIMENSIONS) {
        PyErr_SetString(PyExc_ValueError, "too many dimensions");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        to[i] = PyLong_AsLongLong(PyTuple_GetItem(from, i));
        if (to[i] == -1 && PyErr_Occurred()) return -1;
    }
    return (int)count;
}

// Where the numbers are: address, code, count, and shape and strides unless they lie one behind
// the other.
static bool place_job(Job &job, PyObject *const *given) {
    const char *from = (const char *)PyLong_AsVoidPtr(given[0]);
    job.code = (int)PyLong_AsLong(given[1]);
    job.count = PyLong_AsLongLong(given[2]);
    if (PyErr_Occurred()) return false;
    if (job.code < F64 || job.code > BOOL || job.count < 1) {
        PyErr_SetString(PyExc_ValueError, "no such type, or no numbers");
        return false;
    }
    int64_t size = SIZES[job.code];
    if (given[3] == Py_None) {
        join(job.memory, from, size, 1, &job.count, &size);
        job.is_ordered = true;
        return true;
    }
    int64_t length[MOST_DIMENSIONS], step[MOST_DIMENSIONS], product = 1;
    int dimensions = read_lengths(given[3], length);
    if (dimensions < 0 || read_lengths(given[4], step) != dimensions) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a stride for each dimension");
        return false;
    }
    bool is_ordered = true;
    for (int d = 0; d < dimensions; d++) {
        product *= length[d];
        step[d] *= size;
    }
    if (product != job.count) {
        PyErr_SetString(PyExc_ValueError, "the shape holds another count of numbers");
        return false;
    }
    join(job.logical, from, size, dimensions, length, step);
    for (int d = 1; d < dimensions; d++)  // the longest step first, as they lie
        for (int e = d; e > 0 && step[e - 1] < step[e]; e--) {
            int64_t kept = step[e];
            step[e] = step[e - 1];
            step[e - 1] = kept;
            kept = length[e];
            length[e] = length[e - 1];
            length[e - 1] = kept;
            if (length[e] != 1 && length[e - 1] != 1) is_ordered = false;
        }
    join(job.memory, from, size, dimensions, length, step);
    job.is_ordered = is_ordered;
    return true;
}

static void run_job(Job &job) {
    if (job.count < LONG) return best(job);
    Py_BEGIN_ALLOW_THREADS
    best(job);
    Py_END_ALLOW_THREADS
}

static PyObject *values_of(const Job &job) {
    const Found &found = job.found;
    const double count = (double)job.count;
    if (job.code == BOOL)
        return Py_BuildValue("(NNOO)", PyBool_FromLong(found.most != 0),
                             PyBool_FromLong(found.least != 0), Py_None, Py_None);
    double norm = sqrt(found.squares);
    if (job.code >= I64) {
        const int64_t exact = (int64_t)1 << 53;
        const int64_t extremes[] = {found.most, found.least};
        PyObject *made[2];
        for (int k = 0; k < 2; k++)  // as readers expect, unless that would round them
            made[k] = extremes[k] >= -exact && extremes[k] <= exact
                          ? PyFloat_FromDouble((double)extremes[k])
                          : PyLong_FromLongLong(extremes[k]);
        return Py_BuildValue("(NNdd)", made[0], made[1], found.total / count, norm);
    }
    double high = found.high, low = found.low, total = found.total;
    if (found.has_nan) high = low = NAN;
    if (job.count == 1) norm = fabs(found.total);
    // What the numbers themselves are accurate to, unless that leaves their range.
    if (job.code != F64 && (float)norm > 1e-15f && (float)norm < 1e15f) {
        norm = (float)norm;
        total = (float)total;
    }
    return Py_BuildValue("(dddd)", high, low, total / count, norm);
}

PyDoc_STRVAR(measure_doc,
             "measure(address, code, count, shape, strides, plan)\n--\n\n"
             "((max, min, mean, norm), fingerprint, row): the statistics of ``count`` numbers, 64\n"
             "bits that tell them from others, and the 264 bytes of their sketch, None without a\n"
             "plan. ``shape`` and ``strides``, in numbers, are None where the numbers lie one\n"
             "behind the other.");

static PyObject *measure(PyObject *, PyObject *const *given, Py_ssize_t count) {
    Job job;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "measure takes six arguments");
        return nullptr;
    }
    if (!place_job(job, given)) return nullptr;
    job.is_measured = true;
    job.plan = nullptr;
    alignas(64) double small[1024];
    void *large = nullptr;
    if (given[5] != Py_None) {
        job.plan = (const Plan *)PyCapsule_GetPointer(given[5], PLAN);
        if (!job.plan) return nullptr;
        if (job.plan->size != job.count) {
            PyErr_SetString(PyExc_ValueError, "the plan is of another count of numbers");
            return nullptr;
        }
        size_t room = (size_t)room_of(*job.plan).all * sizeof(double);
        job.room = small;
        if (room > sizeof small) {
            large = malloc(room + 64);
            if (!large) return PyErr_NoMemory();
            job.room = (double *)(((uintptr_t)large + 63) & ~(uintptr_t)63);
        }
    }
    run_job(job);
    free(large);
    PyObject *row = nullptr;
    if (job.plan) {
        char bytes[NUMBERS * 4 + 8];
        const uint64_t most = UINT32_MAX;
        uint32_t left_out[2] = {
            (uint32_t)(job.found.nans < most ? job.found.nans : most),
            (uint32_t)(job.found.infinities < most ? job.found.infinities : most),
        };
        memcpy(bytes, job.numbers, NUMBERS * 4);
        memcpy(bytes + NUMBERS * 4, left_out, 8);
        row = PyBytes_FromStringAndSize(bytes, sizeof bytes);
        if (!row) return nullptr;
    } else {
        Py_INCREF(Py_None);
        row = Py_None;
    }
    PyObject *values = values_of(job);
    if (!values) {
        Py_DECREF(row);
        return nullptr;
    }
    return Py_BuildValue("(NKN)", values, (unsigned long long)print_of(job.prints), row);
}

PyDoc_STRVAR(fingerprint_doc,
             "fingerprint(address, code, count, shape, strides)\n--\n\n"
             "The fingerprint that ``measure`` tells.");

static PyObject *fingerprint(PyObject *, PyObject *const *given, Py_ssize_t count) {
    Job job;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "fingerprint takes five arguments");
        return nullptr;
    }
    if (!place_job(job, given)) return nullptr;
    job.is_measured = false;
    job.plan = nullptr;
    run_job(job);
    return PyLong_FromUnsignedLongLong(print_of(job.prints));
}

PyDoc_STRVAR(limit_doc,
             "limit(level)\n--\n\nUse no more of the processor than 0: every one has, 1: AVX2,\n"
             "2: AVX-512. For tests: all find the same numbers.");

static PyObject *limit(PyObject *, PyObject *level) {
    long wanted = PyLong_AsLong(level);
    if (wanted == -1 && PyErr_Occurred()) return nullptr;
    best = best_run((int)wanted);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"plan", make_plan, METH_VARARGS, plan_doc},
    {"measure", (PyCFunction)(void (*)(void))measure, METH_FASTCALL, measure_doc},
    {"fingerprint", (PyCFunction)(void (*)(void))fingerprint, METH_FASTCALL, fingerprint_doc},
    {"limit", limit, METH_O, limit_doc},
    {"know", know, METH_VARARGS, know_doc},
    {"leaf_text", leaf_text, METH_O, leaf_text_doc},
    {"record_text", record_text, METH_O, record_text_doc},
    {"text_and_shown", (PyCFunction)(void (*)(void))text_and_shown, METH_FASTCALL,
     text_and_shown_doc},
    {"know_makers", know_makers, METH_VARARGS, know_makers_doc},
    {"know_gradients", know_gradients, METH_VARARGS, know_gradients_doc},
    {"watch_nodes", (PyCFunction)(void (*)(void))watch_nodes, METH_FASTCALL, watch_nodes_doc},
    {"changed", (PyCFunction)(void (*)(void))changed, METH_FASTCALL, changed_doc},
    {"look_all", (PyCFunction)(void (*)(void))look_all, METH_FASTCALL, look_all_doc},
    {"put_out_all", (PyCFunction)(void (*)(void))put_out_all, METH_FASTCALL, put_out_all_doc},
    {"know_memories", know_memories, METH_VARARGS, know_memories_doc},
    {"plain_part", plain_part, METH_O, plain_part_doc},
    {"makers_of", (PyCFunction)(void (*)(void))makers_of, METH_FASTCALL, makers_of_doc},
    {"number_rows", (PyCFunction)(void (*)(void))number_rows, METH_FASTCALL, number_rows_doc},
    {"visit_edges", (PyCFunction)(void (*)(void))visit_edges, METH_FASTCALL, visit_edges_doc},
    {"pack_rows", (PyCFunction)(void (*)(void))pack_rows, METH_FASTCALL, pack_rows_doc},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_compiled", "One pass over a tensor.", -1, METHODS,
    nullptr, nullptr, nullptr, nullptr,
};

PyMODINIT_FUNC PyInit__compiled(void) {
    best = best_run(2);
    return PyModule_Create(&MODULE);
}

// The module msprobe_builder.dump._compiled: takes the records of a dump apart at their numbers, as
// msprobe_builder/dump/examples.py does, which says what for. The same numbers to the bit.

#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const size_t KEPT = 1 << 13;  // numbers whose texts are remembered: most come again soon
static const size_t SHORT = 27;      // characters of those

struct Kept {
    uint8_t length;
    char text[SHORT];
    double value;
};
static Kept kept[KEPT];  // the lock of the interpreter is held wherever it is used

template <typename Item>
struct Buffer {
    Item *items = nullptr;
    size_t size = 0, room = 0;
    ~Buffer() { free(items); }
    bool add(const Item *from, size_t count) {
        if (size + count > room) {
            size_t wanted = 2 * (size + count) + 64;
            Item *more = (Item *)realloc(items, wanted * sizeof(Item));
            if (!more) return false;
            items = more;
            room = wanted;
        }
        memcpy(items + size, from, count * sizeof(Item));
        size += count;
        return true;
    }
};

static bool is_digit(char one) { return one >= '0' && one <= '9'; }

static const char *after_digits(const char *at, const char *end) {
    while (at < end && is_digit(*at)) at++;
    return at;
}

// Behind the number that begins here, as JSON writes those with a fraction or an exponent, and as
// Python writes what is none; null where there is no such number.
static const char *after_number(const char *at, const char *end) {
    const char *sign = at;
    if (at < end && *at == '-') at++;
    if (end - at >= 8 && !memcmp(at, "Infinity", 8)) return at + 8;
    if (at == sign && end - at >= 3 && !memcmp(at, "NaN", 3)) return at + 3;
    if (at == end || !is_digit(*at)) return nullptr;
    at = *at == '0' ? at + 1 : after_digits(at, end);
    const char *whole = at;
    if (end - at >= 2 && *at == '.' && is_digit(at[1])) at = after_digits(at + 1, end);
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *exponent = at + 1;
        if (exponent < end && (*exponent == '-' || *exponent == '+')) exponent++;
        if (exponent < end && is_digit(*exponent)) at = after_digits(exponent, end);
    }
    return at == whole ? nullptr : at;
}

// What float() makes of a text. False with an exception set where that fails.
static bool read_number(const char *text, size_t length, double *value) {
    uint64_t ends[2] = {length, length};
    if (length <= SHORT) {
        size_t part = length < 8 ? length : 8;
        memcpy(ends, text, part);
        memcpy(ends + 1, text + length - part, part);
    }
    uint64_t mixed = (ends[0] ^ ends[1] * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    Kept &one = kept[mixed >> 32 & (KEPT - 1)];
    if (length <= SHORT && one.length == length && !memcmp(one.text, text, length)) {
        *value = one.value;
        return true;
    }
    char small[SHORT + 1];
    char *copy = length <= SHORT ? small : (char *)malloc(length + 1);
    if (!copy) {
        PyErr_NoMemory();
        return false;
    }
    memcpy(copy, text, length);
    copy[length] = 0;
    *value = PyOS_string_to_double(copy, nullptr, nullptr);
    if (length > SHORT) {
        free(copy);
    } else if (!PyErr_Occurred()) {
        one.length = (uint8_t)length;
        memcpy(one.text, text, length);
        one.value = *value;
    }
    return !PyErr_Occurred();
}

// A record of a text: what it says beside its numbers, and the numbers as they are written.
struct Record {
    Buffer<char> rest;
    Buffer<const char *> numbers;  // where each begins and ends
};

static bool take_apart(const char *at, const char *end, Record &record) {
    record.rest.size = record.numbers.size = 0;
    const char *taken = at;  // up to here everything is in the rest
    while (end - at > 3 && (at = (const char *)memchr(at + 1, ':', (size_t)(end - at - 1)))) {
        if (at[-1] != '"' || end - at < 3 || at[1] != ' ') continue;
        const char *number[2] = {at + 2, after_number(at + 2, end)};
        if (!number[1]) continue;
        if (!record.rest.add(taken, (size_t)(at - 1 - taken)) || !record.rest.add("", 1) ||
            !record.numbers.add(number, 2))
            return false;
        at = taken = number[1];
        at--;  // what follows may be the next mark
    }
    return record.rest.add(taken, (size_t)(end - taken));
}

// Behind the name that begins here; null where no name of an object does.
static const char *after_name(const char *at, const char *end) {
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) at++;
    return end - at >= 4 && !memcmp(at, "\": {", 4) ? at : nullptr;
}

// Whether a record that begins here is written as ``rest`` says, up to ``between`` or the end of
// the text; then its numbers are in ``numbers``, and ``stop`` is behind it.
static bool is_written_so(const char *at, const char *end, const char *rest, Py_ssize_t length,
                          const char *between, Py_ssize_t gap, Buffer<const char *> &numbers,
                          const char **stop) {
    const char *rest_end = rest + length;
    numbers.size = 0;
    for (;;) {
        const char *mark = (const char *)memchr(rest, 0, (size_t)(rest_end - rest));
        size_t size = (size_t)((mark ? mark : rest_end) - rest);
        if ((size_t)(end - at) < size || memcmp(at, rest, size)) return false;
        at += size;
        if (!mark) break;
        if (end - at < 4 || memcmp(at, "\": ", 3)) return false;
        const char *number[2] = {at + 3, after_number(at + 3, end)};
        if (!number[1] || !numbers.add(number, 2)) return false;
        at = number[1];
        rest = mark + 1;
    }
    *stop = at;
    return at == end || (end - at >= gap && !memcmp(at, between, (size_t)gap));
}

// What came behind a record last time comes behind the next one that is written like it.
struct Followers {
    static const size_t ROOM = 1 << 10;
    PyObject *of[ROOM] = {}, *next[ROOM] = {};  // held by the dict of what is known
    static size_t place(PyObject *one) {
        return (size_t)((uintptr_t)one * 0x9E3779B97F4A7C15u >> 48) & (ROOM - 1);
    }
    PyObject *behind(PyObject *one) const { return of[place(one)] == one ? next[place(one)] : nullptr; }
    void learn(PyObject *one, PyObject *following) {
        of[place(one)] = one;
        next[place(one)] = following;
    }
};

// (name, rest, numbers) of a record that nothing is known of.
static PyObject *told(PyObject *name, PyObject *rest, const Record &record) {
    PyObject *numbers = PyList_New((Py_ssize_t)(record.numbers.size / 2));
    for (size_t i = 0; numbers && i < record.numbers.size; i += 2) {
        const char *from = record.numbers.items[i];
        PyObject *one = PyUnicode_FromStringAndSize(from, record.numbers.items[i + 1] - from);
        if (!one || PyList_SetItem(numbers, (Py_ssize_t)(i / 2), one)) Py_CLEAR(numbers);
    }
    return numbers ? Py_BuildValue("(OON)", name, rest, numbers) : nullptr;
}

PyDoc_STRVAR(apart_doc,
             "apart(text, between, known, first)\n--\n\n"
             "The records of a text from byte ``first`` on, with ``between`` from one to the next, up\n"
             "to one that ``known`` does not have by what it says beside its numbers, which is the\n"
             "third of what it has:\n"
             "(names, what is known of each, numbers of all as float64, rest, place).\n\n"
             "``rest`` is name, text and numbers of the unknown record, None at the end or before\n"
             "what is no record. ``place`` is the byte behind it, -1 behind the last.");

static PyObject *apart(PyObject *, PyObject *arguments) {
    PyObject *text, *known;
    const char *between;
    Py_ssize_t gap, first, length;
    if (!PyArg_ParseTuple(arguments, "Us#O!n:apart", &text, &between, &gap, &PyDict_Type, &known,
                          &first))
        return nullptr;
    const char *begin = PyUnicode_AsUTF8AndSize(text, &length);
    if (!begin) return nullptr;
    if (first < 0 || first > length || !gap) {
        PyErr_SetString(PyExc_ValueError, "begins outside of the text, or nothing is between");
        return nullptr;
    }
    const char *at = begin + first, *end = begin + length;
    Record record;
    Buffer<double> numbers;
    PyObject *names = PyList_New(0), *found = PyList_New(0), *rest = nullptr;
    bool is_fine = names && found;
    Followers followers;
    PyObject *before = nullptr;
    while (is_fine && at) {
        const char *name_end = after_name(at, end);
        if (!name_end) break;
        PyObject *one = before ? followers.behind(before) : nullptr, *said = nullptr;
        const char *stop = nullptr;
        if (one) {
            Py_ssize_t size = 0;
            PyObject *wanted = PyTuple_GetItem(one, 2);
            const char *written = wanted ? PyUnicode_AsUTF8AndSize(wanted, &size) : nullptr;
            if (!written) {
                is_fine = false;
                break;
            }
            if (!is_written_so(name_end + 3, end, written, size, between, gap, record.numbers, &stop))
                one = nullptr;
        }
        if (!one) {
            stop = (const char *)memmem(at, (size_t)(end - at), between, (size_t)gap);
            if (!stop) stop = end;
            if (stop < name_end) break;
            if (!take_apart(name_end + 3, stop, record)) {
                PyErr_NoMemory();
                is_fine = false;
                break;
            }
            said = PyUnicode_FromStringAndSize(record.rest.items, (Py_ssize_t)record.rest.size);
            one = said ? PyDict_GetItemWithError(known, said) : nullptr;
        }
        PyObject *name = PyUnicode_FromStringAndSize(at, name_end - at);
        at = stop == end ? nullptr : stop + gap;
        if (one && name) {
            is_fine = !PyList_Append(names, name) && !PyList_Append(found, one);
            for (size_t i = 0; is_fine && i < record.numbers.size; i += 2) {
                const char *from = record.numbers.items[i];
                double value;
                is_fine = read_number(from, (size_t)(record.numbers.items[i + 1] - from), &value);
                if (is_fine && !numbers.add(&value, 1)) {
                    PyErr_NoMemory();
                    is_fine = false;
                }
            }
            if (before) followers.learn(before, one);
            before = one;
        } else {
            if (!PyErr_Occurred()) rest = told(name, said, record);
            is_fine = rest != nullptr;
            one = nullptr;
        }
        Py_XDECREF(name);
        Py_XDECREF(said);
        if (!one) break;
    }
    PyObject *read = nullptr;
    if (is_fine)
        read = PyBytes_FromStringAndSize((const char *)numbers.items,
                                         (Py_ssize_t)(numbers.size * sizeof(double)));
    if (!read) {
        Py_XDECREF(names);
        Py_XDECREF(found);
        Py_XDECREF(rest);
        return nullptr;
    }
    if (!rest) {
        Py_INCREF(Py_None);
        rest = Py_None;
    }
    Py_ssize_t place = at ? at - begin : -1;
    return Py_BuildValue("(NNNNn)", names, found, read, rest, place);
}

static PyMethodDef METHODS[] = {
    {"apart", apart, METH_VARARGS, apart_doc},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_compiled", "Records of a dump, taken apart.", -1, METHODS,
    nullptr, nullptr, nullptr, nullptr,
};

PyMODINIT_FUNC PyInit__compiled(void) { return PyModule_Create(&MODULE); }

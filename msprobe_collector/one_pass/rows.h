// Rows of flow.bin, which record/flow.py makes in Python the same.
#pragma once

#include <stdint.h>
#include <string.h>

#include "makers.h"

static const uint32_t NO_NAME = 0xffffffffu;

static bool number_of(PyObject *from, uint32_t &to) {
    long long number = from ? PyLong_AsLongLong(from) : -1;
    if (number == -1 && (!from || PyErr_Occurred())) return false;
    to = (uint32_t)number;
    return true;
}

static bool part_of(PyObject *tuple, Py_ssize_t place, uint32_t &to) {
    return number_of(PyTuple_GetItem(tuple, place), to);
}

// 1 where ``numbers`` has the name, 0 where it has not, -1 where Python has raised.
static int look_up(PyObject *numbers, PyObject *name, uint32_t &to) {
    PyObject *found = PyDict_GetItemWithError(numbers, name);
    if (!found) return PyErr_Occurred() ? -1 : 0;
    return number_of(found, to) ? 1 : -1;
}

// As ``look_up``; a name that is new gets the next number.
static int number_name(PyObject *numbers, PyObject *added, PyObject *name, uint32_t &to) {
    int is_true = PyObject_IsTrue(name);
    if (is_true < 0) return -1;
    to = NO_NAME;
    if (!is_true) return 1;
    int found = look_up(numbers, name, to);
    if (found) return found;
    to = (uint32_t)PyDict_Size(numbers);
    PyObject *number = PyLong_FromUnsignedLong(to);
    bool is_good = number && !PyDict_SetItem(numbers, name, number) && !PyList_Append(added, name);
    Py_XDECREF(number);
    return is_good ? 1 : -1;
}

struct RowOf {
    uint32_t maker, position, section, kind;
};

// Of a share of a backward call, which is over where it can be packed.
static int pack_share(PyObject *share, PyObject *numbers, RowOf &row) {
    PyObject *sender = PyTuple_GetItem(share, 0), *input = PyTuple_GetItem(share, 1);
    if (!sender || !input) return -1;
    PyObject *is_over = PyObject_GetAttr(sender, words.is_over);
    if (!is_over) return -1;
    bool is_ready = is_over == Py_True;
    Py_DECREF(is_over);
    if (!is_ready) return 0;
    PyObject *name = PyObject_GetAttr(sender, words.name);
    PyObject *section = PyObject_GetAttr(sender, words.section);
    PyObject *ordinals = PyObject_GetAttr(sender, words.ordinals);
    int found = -1;
    if (name && section && ordinals) {
        found = look_up(numbers, name, row.maker);
        if (found > 0 && !number_of(section, row.section)) found = -1;
        if (found > 0 && ordinals == Py_None) found = number_of(input, row.position) ? 1 : -1;
        if (found > 0 && ordinals != Py_None) found = look_up(ordinals, input, row.position);
    }
    Py_XDECREF(name);
    Py_XDECREF(section);
    Py_XDECREF(ordinals);
    row.kind = RECORD;
    return found;
}

static int pack_origin(PyObject *origin, PyObject *numbers, PyObject *names, PyObject *added,
                       RowOf &row) {
    PyObject *name = PyTuple_GetItem(origin, 1);
    if (!name || !part_of(origin, 0, row.kind)) return -1;
    if (row.kind != RECORD) {
        row.section = row.position = 0;
        return number_name(names, added, name, row.maker);
    }
    if (!part_of(origin, 2, row.section) || !part_of(origin, 3, row.position)) return -1;
    return look_up(numbers, name, row.maker);
}

static bool add_row(PyObject *rows, const uint32_t *row) {
    Py_ssize_t size = PyByteArray_Size(rows);
    if (PyByteArray_Resize(rows, size + 28)) return false;
    unsigned char *to = (unsigned char *)PyByteArray_AsString(rows) + size;
    for (int i = 0; i < 28; i++) to[i] = (unsigned char)(row[i / 4] >> 8 * (i % 4));
    return true;
}

PyDoc_STRVAR(pack_rows_doc,
             "pack_rows(record, makers, numbers, names, added, rows, left, share)\n--\n\n"
             "Append rows of 28 bytes of the record number ``record`` to the bytearray ``rows``, and\n"
             "to ``left`` what has several makers or one that has no number yet: record, section,\n"
             "position and makers. ``numbers`` are those of records, ``names`` of other makers, of\n"
             "which new ones are ``added``. ``share`` is the class of what backward calls send.");

static PyObject *pack_rows(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 8 || !PyDict_Check(given[2]) || !PyDict_Check(given[3]) || !PyList_Check(given[4]) ||
        !PyByteArray_Check(given[5]) || !PyList_Check(given[6])) {
        PyErr_SetString(PyExc_TypeError, "pack_rows takes other arguments");
        return nullptr;
    }
    if (!know_words()) return nullptr;
    uint32_t record;
    if (!number_of(given[0], record)) return nullptr;
    Py_ssize_t sections = PySequence_Size(given[1]);
    if (sections < 0) return nullptr;
    for (Py_ssize_t s = 0; s < sections; s++) {
        PyObject *pair = PySequence_GetItem(given[1], s);
        if (!pair) return nullptr;
        uint32_t section;
        PyObject *found_all = PyTuple_GetItem(pair, 1);
        Py_ssize_t all = found_all && part_of(pair, 0, section) ? PySequence_Size(found_all) : -1;
        bool is_good = all >= 0;
        for (Py_ssize_t position = 0; is_good && position < all; position++) {
            PyObject *found = PySequence_GetItem(found_all, position);
            if (!found) {
                is_good = false;
                break;
            }
            if (found != Py_None) {
                PyObject *first = PyTuple_GetItem(found, 0), *others = PyTuple_GetItem(found, 2);
                uint32_t marks;
                RowOf row;
                Py_ssize_t several = others ? PyTuple_Size(others) : -1;
                int packed = several ? 0 : -1;
                if (!first || several < 0 || !part_of(found, 1, marks))
                    packed = -1;
                else if (!several)
                    packed = Py_TYPE(first) == (PyTypeObject *)given[7]
                                 ? pack_share(first, given[2], row)
                                 : pack_origin(first, given[2], given[3], given[4], row);
                if (packed > 0) {
                    marks &= ~(uint32_t)SUM;
                    uint32_t last = section | row.kind << 8 | row.section << 16 | marks << 24;
                    uint32_t numbers[] = {record,  (uint32_t)position, row.maker, row.position,
                                          NO_NAME, 0,                  last};
                    is_good = add_row(given[5], numbers);
                } else if (!packed) {
                    PyObject *waits = Py_BuildValue("(OInO)", given[0], section, position, found);
                    is_good = waits && !PyList_Append(given[6], waits);
                    Py_XDECREF(waits);
                } else {
                    is_good = false;
                }
            }
            Py_DECREF(found);
        }
        Py_DECREF(pair);
        if (!is_good) return nullptr;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(number_rows_doc,
             "number_rows(name, makers, gathered)\n--\n\n"
             "As ``pack_rows`` of the record ``name``, which gets the next of the numbers. ``gathered``\n"
             "are a list, to which it is appended, and what ``pack_rows`` takes behind the makers.");

static PyObject *number_rows(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 3 || !PyTuple_Check(given[2]) || PyTuple_Size(given[2]) != 7) {
        PyErr_SetString(PyExc_TypeError, "number_rows takes other arguments");
        return nullptr;
    }
    PyObject *records = PyTuple_GetItem(given[2], 0), *numbers = PyTuple_GetItem(given[2], 1);
    if (!PyList_Check(records) || !PyDict_Check(numbers)) {
        PyErr_SetString(PyExc_TypeError, "a list of records and their numbers");
        return nullptr;
    }
    Own number(PyLong_FromSsize_t(PyDict_Size(numbers)));
    if (!number || PyDict_SetItem(numbers, given[0], number.at) || PyList_Append(records, given[0]))
        return nullptr;
    PyObject *all[] = {number.at, given[1], numbers, nullptr, nullptr, nullptr, nullptr, nullptr};
    for (int i = 3; i < 8; i++) all[i] = PyTuple_GetItem(given[2], i - 1);
    return pack_rows(nullptr, all, 8);
}

// Who made the tensors of a call, of those that are as most are: record/memories.py tells of all of
// them in Python, and the same of these.
#pragma once

#include "makers.h"

enum { FOUND, STORAGE, COUNTER, REFERENCE, VERSION, ADDRESS, MEMORY, CHANGES, LAYOUT, UNDER };

// Whether somebody else has the place of a tensor that was looked at, or wrote to it: then nothing
// of it is kept. -1 where Python has raised.
static int is_another(PyObject *seen, PyObject *tensor) {
    Own alive(PyObject_CallNoArgs(PyTuple_GetItem(seen, REFERENCE)));
    if (!alive) return -1;
    if (alive.at != tensor) return 1;
    Own version(PyObject_GetAttr(tensor, words.version));
    int equal = are_equal(PyTuple_GetItem(seen, VERSION), version.at);
    return equal < 0 ? -1 : !equal;
}

// Whether its memory is as it was, and it still lies there.
static int is_there_still(PyObject *seen, PyObject *tensor) {
    Own changes(PyObject_GetAttr(PyTuple_GetItem(seen, MEMORY), words.changes));
    int equal = are_equal(PyTuple_GetItem(seen, CHANGES), changes.at);
    if (equal <= 0) return equal;
    Own address(call(tensor, words.data_ptr));
    equal = are_equal(PyTuple_GetItem(seen, ADDRESS), address.at);
    if (equal <= 0) return equal;
    PyObject *layout = PyTuple_GetItem(seen, LAYOUT);
    Own shape(PyObject_GetAttr(tensor, words.shape));
    equal = are_equal(PyTuple_GetItem(layout, 1), shape.at);
    if (equal <= 0) return equal;
    Own stride(call(tensor, words.stride));
    return are_equal(PyTuple_GetItem(layout, 2), stride.at);
}

static bool is_plain(PyObject *tensor) {
    return Py_TYPE(tensor) == classes.tensor || Py_TYPE(tensor) == classes.parameter;
}

// A plain tensor whose writes are counted.
struct Lying {
    Own storage{nullptr}, key{nullptr}, version{nullptr}, layout{nullptr};
};

// 1 where it is one, 0 where Python has to see to it, -1 where that has raised.
static int read_place(PyObject *tensor, Lying &lying) {
    if (!is_plain(tensor)) return 0;
    lying.storage.at = call(tensor, words.untyped_storage);
    if (lying.storage) lying.version.at = PyObject_GetAttr(tensor, words.version);
    if (!lying.version) {
        if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return -1;
        PyErr_Clear();
        return 0;
    }
    lying.key.at = PyObject_GetAttr(lying.storage.at, words.cdata);
    if (!lying.key) return -1;
    PyObject *parts[4] = {call(tensor, words.storage_offset)};
    if (parts[0]) parts[1] = PyObject_GetAttr(tensor, words.shape);
    if (parts[1]) parts[2] = call(tensor, words.stride);
    if (parts[2]) parts[3] = PyObject_GetAttr(tensor, words.itemsize);
    if (!parts[3]) {  // of a lazy module, or of rows that differ in length: it has no shape
        for (PyObject *part : parts) Py_XDECREF(part);
        if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return -1;
        PyErr_Clear();
        return 0;
    }
    lying.layout.at = made(&PyTuple_Type, parts);
    return lying.layout ? 1 : -1;
}

PyDoc_STRVAR(look_all_doc,
             "look_all(seen, tensors, find)\n--\n\n"
             "As ``Memories.look`` of each tensor in a list: who made them, and what is known. What\n"
             "is not in ``seen`` as it was ``find`` is asked for, with what was found before or None.");

static PyObject *look_all(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 3 || !PyDict_Check(given[0]) || !PyList_Check(given[1]) || !classes.found) {
        PyErr_SetString(PyExc_TypeError, "a dict, a list and a function");
        return nullptr;
    }
    Py_ssize_t all = PyList_Size(given[1]);
    Own makers(PyList_New(all)), looked(PyList_New(all));
    if (!makers || !looked) return nullptr;
    for (Py_ssize_t i = 0; i < all; i++) {
        PyObject *tensor = PyList_GetItem(given[1], i);
        if (!tensor) return nullptr;
        Own held(kept(tensor)), key(PyLong_FromVoidPtr(tensor));
        if (!key) return nullptr;
        PyObject *known = PyDict_GetItemWithError(given[0], key.at);
        if (!known && PyErr_Occurred()) return nullptr;
        Own seen(known ? kept(known) : nullptr);
        int another = seen ? is_another(seen.at, tensor) : 1;
        int still = another ? 0 : is_there_still(seen.at, tensor);
        if (another < 0 || still < 0) return nullptr;
        Own one(still ? seen.hand_over()
                      : PyObject_CallFunctionObjArgs(given[2], tensor, another ? Py_None : seen.at, nullptr));
        if (!one) return nullptr;
        PyObject *found = PyTuple_GetItem(one.at, FOUND);
        if (!found) return nullptr;
        PyList_SetItem(makers.at, i, kept(found));
        PyList_SetItem(looked.at, i, one.hand_over());
    }
    return Py_BuildValue("(NN)", makers.hand_over(), looked.hand_over());
}

PyDoc_STRVAR(plain_part_doc,
             "plain_part(tensor)\n--\n\n"
             "As ``identities.part_of`` a plain tensor whose writes are counted; None of any other.");

static PyObject *plain_part(PyObject *, PyObject *tensor) {
    Lying lying;
    int is_read = classes.tensor ? read_place(tensor, lying) : 0;
    if (is_read < 0) return nullptr;
    if (!is_read) Py_RETURN_NONE;
    return PyTuple_Pack(4, tensor, lying.storage.at, lying.version.at, lying.layout.at);
}

PyDoc_STRVAR(changed_doc,
             "changed(tensors, looked, counter_of)\n--\n\n"
             "The positions of tensors whose counters of writes are not what was looked at.");

static PyObject *changed(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 3 || !PyList_Check(given[0]) || !PyList_Check(given[1]) ||
        PyList_Size(given[0]) != PyList_Size(given[1])) {
        PyErr_SetString(PyExc_TypeError, "two lists of one length and a function");
        return nullptr;
    }
    Own places(PyList_New(0));
    for (Py_ssize_t i = 0; places && i < PyList_Size(given[0]); i++) {
        Own tensor(kept(PyList_GetItem(given[0], i)));
        PyObject *before = PyTuple_GetItem(PyList_GetItem(given[1], i), COUNTER);
        if (!before) return nullptr;
        Own counter(is_plain(tensor.at) ? PyObject_GetAttr(tensor.at, words.version) : nullptr);
        if (!counter) {
            PyErr_Clear();  // in inference mode there is none
            counter.at = PyObject_CallFunctionObjArgs(given[2], tensor.at, nullptr);
        }
        int equal = are_equal(before, counter.at);
        if (equal < 0) return nullptr;
        Own place(equal ? nullptr : PyLong_FromSsize_t(i));
        if (!equal && (!place || PyList_Append(places.at, place.at))) return nullptr;
    }
    return places.hand_over();
}

// -- what a call puts out ---------------------------------------------------------------------------

// Know a tensor again by itself.
static bool keep_looked(PyObject *seen, PyObject *tensor, const Lying &lying, PyObject *found,
                        PyObject *memory, PyObject *under) {
    PyObject *parts[] = {
        kept(found),
        kept(lying.key.at),
        kept(lying.version.at),
        PyWeakref_NewRef(tensor, nullptr),
        kept(lying.version.at),
        call(tensor, words.data_ptr),
        kept(memory),
        PyObject_GetAttr(memory, words.changes),
        kept(lying.layout.at),
        kept(under),
    };
    Own looked(made(classes.looked, parts)), key(PyLong_FromVoidPtr(tensor));
    return looked && key && !PyDict_SetItem(seen, key.at, looked.at);
}

// Whether ``tensor`` is one of those in a sequence; -1 where Python has raised.
static int is_among(PyObject *tensor, PyObject *sequence) {
    Py_ssize_t count = PySequence_Size(sequence);
    for (Py_ssize_t i = 0; i < count; i++) {
        Own one(PySequence_GetItem(sequence, i));
        if (!one) return -1;
        if (one.at == tensor) return 1;
    }
    return count < 0 ? -1 : 0;
}

// What is told of an output; not ``is_done`` where Python has to see to it.
struct Told {
    bool is_done;
    PyObject *row;
};

// In memory that nothing is known of.
static Told put_out_anew(PyObject *known, PyObject *seen, PyObject *tensor, const Lying &lying,
                         PyObject *origin, long marks) {
    Told failed = {true, nullptr};
    Own found(found_of(origin, marks));
    if (!found) return failed;
    Slot slots[] = {
        {words.own_version, kept(lying.version.at)},
        {words.changes, PyLong_FromLong(0)},
        {words.others, PyTuple_New(0)},
        {words.first, kept(lying.layout.at)},
        {words.found, kept(found.at)},
        {words.tensors, kept(classes.no_tensors)},
        {words.origin, kept(origin)},
        {words.writes, kept(classes.no_writes)},
        {words.unwritten, PyLong_FromLong(0)},
    };
    Own memory(filled(classes.memory, slots));
    Own address(memory ? PyObject_CallFunctionObjArgs(classes.weak_ref, lying.storage.at, nullptr)
                       : nullptr);
    if (!address || PyDict_SetItem(known, address.at, memory.at) ||
        !keep_looked(seen, tensor, lying, found.at, memory.at, Py_None))
        return failed;
    return {true, marks ? found.hand_over() : kept(Py_None)};
}

// Who made what lies where a tensor does, if that was found before; false where Python has raised.
static bool read_known(PyObject *memory, PyObject *layout, Own &known) {
    Own first(PyObject_GetAttr(memory, words.first));
    int equal = are_equal(first.at, layout);
    if (equal < 0) return false;
    if (equal) {
        known.at = PyObject_GetAttr(memory, words.found);
        return known.at;
    }
    Own tensors(PyObject_GetAttr(memory, words.tensors));
    PyObject *found = tensors ? PyDict_GetItemWithError(tensors.at, layout) : nullptr;
    if (found) known.at = kept(found);
    return found || !PyErr_Occurred();
}

// A view of what lies in a memory that is as it was.
static Told put_out_view(PyObject *seen, PyObject *tensor, PyObject *memory, const Lying &lying,
                         PyObject *name, Py_ssize_t position) {
    Told failed = {true, nullptr};
    Own under(nullptr), searched(nullptr);
    if (!read_known(memory, lying.layout.at, under)) return failed;
    if (!under) searched.at = PyObject_CallMethodObjArgs(memory, words.find, lying.layout.at, nullptr);
    PyObject *before = under ? under.at : searched.at;
    if (!before) return failed;
    long marks = PyLong_AsLong(PyTuple_GetItem(before, 1));
    if (marks == -1 && PyErr_Occurred()) return failed;
    marks &= UNWRITTEN;
    Own origin(origin_of(name, position, marks));
    Own found(origin ? found_of(origin.at, marks) : nullptr);
    if (!found) return failed;
    if (!under) {
        under.at = kept(found.at);
        Own done(PyObject_CallMethodObjArgs(memory, words.know, lying.layout.at, found.at, nullptr));
        if (!done) return failed;
    }
    // What lies at the same places is told apart by the tensor itself.
    if (!keep_looked(seen, tensor, lying, found.at, memory, under.at)) return failed;
    return {true, found_of(origin.at, marks | VIEW)};
}

PyDoc_STRVAR(put_out_all_doc,
             "put_out_all(memories, known, most, seen, outputs, name, marks, given, written)\n--\n\n"
             "As ``Memories.put_out`` of each tensor in the list ``outputs``, which itself is asked\n"
             "where a tensor is no plain one, was given or written to, or where as many memories are\n"
             "known as may be before some are let go of.");

static PyObject *put_out_all(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 9 || !PyDict_Check(given[1]) || !PyDict_Check(given[3]) || !PyList_Check(given[4]) ||
        !classes.found || !classes.memory) {
        PyErr_SetString(PyExc_TypeError, "put_out_all takes other arguments");
        return nullptr;
    }
    PyObject *seen = given[3], *outputs = given[4], *name = given[5];
    long marks = PyLong_AsLong(given[6]), most = PyLong_AsLong(given[2]);
    if (PyErr_Occurred()) return nullptr;
    Py_ssize_t all = PyList_Size(outputs);
    Own rows(PyList_New(all));
    if (!rows) return nullptr;
    for (Py_ssize_t i = 0; i < all; i++) {
        PyObject *tensor = PyList_GetItem(outputs, i);
        if (!tensor) return nullptr;
        Lying lying;
        Told told = {false, nullptr};
        int is_read = marks & UNINITIALISED ? 0 : read_place(tensor, lying);
        if (is_read < 0) return nullptr;
        if (is_read) {
            PyObject *known = PyDict_GetItemWithError(given[1], lying.key.at);
            if (!known && PyErr_Occurred()) return nullptr;
            if (known) {
                Own memory(kept(known)), version(PyObject_GetAttr(known, words.own_version));
                int is_written = PySequence_Contains(given[8], lying.key.at);
                int is_given = is_among(tensor, given[7]);
                int is_as_it_was = are_equal(version.at, lying.version.at);
                if (is_written < 0 || is_given < 0 || is_as_it_was < 0) return nullptr;
                if (!is_written && !is_given && is_as_it_was)
                    told = put_out_view(seen, tensor, memory.at, lying, name, i);
            } else if (PyDict_Size(given[1]) < most) {
                Own origin(origin_of(name, i, marks));
                if (!origin) return nullptr;
                told = put_out_anew(given[1], seen, tensor, lying, origin.at, marks);
            }
        }
        if (!told.is_done) {
            Own position(PyLong_FromSsize_t(i));
            told.row = PyObject_CallMethodObjArgs(given[0], words.put_out, tensor, name, position.at,
                                                  given[6], given[7], given[8], nullptr);
        }
        if (!told.row) return nullptr;
        PyList_SetItem(rows.at, i, told.row);
    }
    return rows.hand_over();
}

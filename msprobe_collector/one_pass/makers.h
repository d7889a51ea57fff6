// What memories.h and gradient_flow.h need of Python: classes, words, and what is made of them.
#pragma once

#include <stdint.h>

// What is let go of when it is left.
struct Own {
    PyObject *at;

    Own(PyObject *made) : at(made) {}
    Own(const Own &) = delete;
    ~Own() { Py_XDECREF(at); }
    explicit operator bool() const { return at; }
    PyObject *hand_over() {
        PyObject *handed = at;
        at = nullptr;
        return handed;
    }
};

// Kinds of makers, marks of what they made, and the section of what a call puts out.
static const long RECORD = 1, UNRECORDED = 6;
static const long VIEW = 1, UNINITIALISED = 4, UNWRITTEN = 4 | 8, SUM = 16;
static const long OUTPUT_SECTION = 1;

// The classes of Python that are made here, and the types of tensors that have memory of their own.
struct Classes {
    PyTypeObject *origin, *found, *looked, *tensor, *parameter;
    PyTypeObject *node, *share;  // of gradients
};
static Classes classes;

struct Words {
    PyObject *version, *shape, *stride, *data_ptr, *untyped_storage, *cdata, *storage_offset, *itemsize;
    PyObject *changes, *first, *found, *tensors, *own_version, *find, *know, *learn, *put_out;
    PyObject *arriving, *hooked, *next_functions, *metadata, *shares, *pass_number, *name;
};
static Words words;

static bool know_words() {
    if (words.name) return true;
    struct {
        PyObject **to;
        const char *word;
    } all[] = {
        {&words.version, "_version"},
        {&words.shape, "shape"},
        {&words.stride, "stride"},
        {&words.data_ptr, "data_ptr"},
        {&words.untyped_storage, "untyped_storage"},
        {&words.cdata, "_cdata"},
        {&words.storage_offset, "storage_offset"},
        {&words.itemsize, "itemsize"},
        {&words.changes, "changes"},
        {&words.first, "first"},
        {&words.found, "found"},
        {&words.tensors, "tensors"},
        {&words.own_version, "version"},
        {&words.find, "find"},
        {&words.know, "know"},
        {&words.learn, "learn"},
        {&words.put_out, "put_out"},
        {&words.arriving, "arriving"},
        {&words.hooked, "hooked"},
        {&words.next_functions, "next_functions"},
        {&words.metadata, "metadata"},
        {&words.shares, "shares"},
        {&words.pass_number, "pass_number"},
        {&words.name, "name"},
    };
    for (auto &one : all)
        if (!*one.to && !(*one.to = PyUnicode_InternFromString(one.word))) return false;
    return true;
}

// A named tuple, whose parts are handed over; null where one of them is.
template <int COUNT>
static PyObject *made(PyTypeObject *kind, PyObject *const (&parts)[COUNT]) {
    bool is_good = true;
    for (PyObject *part : parts) is_good = is_good && part;
    PyObject *tuple = is_good ? PyType_GenericAlloc(kind, COUNT) : nullptr;
    for (int i = 0; i < COUNT; i++) {
        if (tuple)
            PyTuple_SetItem(tuple, i, parts[i]);
        else
            Py_XDECREF(parts[i]);
    }
    return tuple;
}

static PyObject *kept(PyObject *one) {
    Py_INCREF(one);
    return one;
}

static PyObject *call(PyObject *from, PyObject *method) {
    return PyObject_CallMethodObjArgs(from, method, nullptr);
}

// Whether two numbers of Python are equal; -1 where it has raised.
static int are_equal(PyObject *one, PyObject *other) {
    if (!one || !other) return -1;
    return one == other ? 1 : PyObject_RichCompareBool(one, other, Py_EQ);
}

static PyObject *origin_of(PyObject *name, Py_ssize_t position, long marks) {
    PyObject *parts[] = {PyLong_FromLong(RECORD), kept(name), PyLong_FromLong(OUTPUT_SECTION),
                         PyLong_FromSsize_t(position), PyLong_FromLong(marks)};
    return made(classes.origin, parts);
}

static PyObject *found_of(PyObject *origin, long marks) {
    PyObject *parts[] = {kept(origin), PyLong_FromLong(marks), PyTuple_New(0)};
    return made(classes.found, parts);
}

PyDoc_STRVAR(know_gradients_doc,
             "know_gradients(node, share)\n--\n\nThe classes of what is known of a node and of an edge.");

static PyObject *know_gradients(PyObject *, PyObject *arguments) {
    PyTypeObject *node, *share;
    if (!PyArg_ParseTuple(arguments, "O!O!:know_gradients", &PyType_Type, &node, &PyType_Type, &share))
        return nullptr;
    if (!know_words()) return nullptr;
    Own nodes((PyObject *)classes.node), shares((PyObject *)classes.share);
    classes.node = (PyTypeObject *)kept((PyObject *)node);
    classes.share = (PyTypeObject *)kept((PyObject *)share);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(know_makers_doc,
             "know_makers(origin, found, looked, tensor, parameter)\n--\n\n"
             "The named tuples that are made of makers, and the types of plain tensors.");

static PyObject *know_makers(PyObject *, PyObject *arguments) {
    PyTypeObject *type[5];
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!:know_makers", &PyType_Type, &type[0], &PyType_Type,
                          &type[1], &PyType_Type, &type[2], &PyType_Type, &type[3], &PyType_Type,
                          &type[4]))
        return nullptr;
    if (!know_words()) return nullptr;
    PyTypeObject **to[] = {&classes.origin, &classes.found, &classes.looked, &classes.tensor,
                           &classes.parameter};
    for (int i = 0; i < 5; i++) {
        Own before((PyObject *)*to[i]);
        *to[i] = (PyTypeObject *)kept((PyObject *)type[i]);
    }
    Py_RETURN_NONE;
}

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

// Kinds of makers, marks of what they made, and sections of records.
static const long RECORD = 1, UNRECORDED = 6;
static const long VIEW = 1, UNINITIALISED = 4, UNWRITTEN = 4 | 8, SUM = 16;
static const long INPUT_SECTION = 0, OUTPUT_SECTION = 1, INPUT_GRADIENTS_SECTION = 4,
                  OUTPUT_GRADIENTS_SECTION = 5;

// The classes of Python that are made here, and the types of tensors that have memory of their own.
struct Classes {
    PyTypeObject *origin, *found, *looked, *tensor, *parameter;
    PyTypeObject *memory, *node, *share, *sender, *call;
    PyObject *no_tensors, *no_writes, *weak_ref, *none_inside, *no_sources;  // what these begin with
};
static Classes classes;

struct Words {
    PyObject *version, *shape, *stride, *data_ptr, *untyped_storage, *cdata, *storage_offset, *itemsize;
    PyObject *changes, *first, *found, *tensors, *own_version, *find, *know, *put_out;
    PyObject *others, *origin, *writes, *unwritten;
    PyObject *sender, *received, *last, *inner, *is_over, *section, *ordinals;
    PyObject *input, *output, *input_gradients, *output_gradients;
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
        {&words.put_out, "put_out"},
        {&words.arriving, "arriving"},
        {&words.hooked, "hooked"},
        {&words.next_functions, "next_functions"},
        {&words.metadata, "metadata"},
        {&words.shares, "shares"},
        {&words.pass_number, "pass_number"},
        {&words.others, "others"},
        {&words.origin, "origin"},
        {&words.writes, "writes"},
        {&words.unwritten, "unwritten"},
        {&words.sender, "sender"},
        {&words.received, "received"},
        {&words.last, "last"},
        {&words.inner, "inner"},
        {&words.is_over, "is_over"},
        {&words.section, "section"},
        {&words.ordinals, "ordinals"},
        {&words.input, "input"},
        {&words.output, "output"},
        {&words.input_gradients, "input_gradients"},
        {&words.output_gradients, "output_gradients"},
        {&words.name, "name"},
    };
    for (auto &one : all)
        if (!*one.to && !(*one.to = PyUnicode_InternFromString(one.word))) return false;
    return true;
}

// Nothing that is made here refers to what refers to it, so Python need not look through it for
// garbage, of which there is none: there is much of it, and it is kept to the end of a step.
static PyObject *unlooked(PyObject *made) {
    if (made) PyObject_GC_UnTrack(made);
    return made;
}

// A named tuple, whose parts are handed over; null where one of them is.
template <int COUNT>
static PyObject *made(PyTypeObject *kind, PyObject *const (&parts)[COUNT]) {
    bool is_good = true;
    for (PyObject *part : parts) is_good = is_good && part;
    PyObject *tuple = is_good ? unlooked(PyType_GenericAlloc(kind, COUNT)) : nullptr;
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

// An object whose slots are set; what is handed over is let go of.
struct Slot {
    PyObject *word, *value;
};

template <int COUNT>
static PyObject *filled(PyTypeObject *kind, const Slot (&slots)[COUNT]) {
    Own object(unlooked(PyType_GenericAlloc(kind, 0)));
    bool is_good = bool(object);
    for (const Slot &slot : slots) {
        is_good = is_good && slot.value && !PyObject_SetAttr(object.at, slot.word, slot.value);
        Py_XDECREF(slot.value);
    }
    return is_good ? object.hand_over() : nullptr;
}

static void keep(PyObject *&to, PyObject *given) {
    Own before(to);
    to = kept(given);
}

static void keep(PyTypeObject *&to, PyObject *given) {
    Own before((PyObject *)to);
    to = (PyTypeObject *)kept(given);
}

PyDoc_STRVAR(know_gradients_doc,
             "know_gradients(node, share, sender, call, none_inside, no_sources)\n--\n\n"
             "The classes of what is known of a node, an edge and a backward call, and what these\n"
             "begin with.");

static PyObject *know_gradients(PyObject *, PyObject *arguments) {
    PyObject *node, *share, *sender, *call, *none_inside, *no_sources;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!OO:know_gradients", &PyType_Type, &node, &PyType_Type,
                          &share, &PyType_Type, &sender, &PyType_Type, &call, &none_inside,
                          &no_sources) ||
        !know_words())
        return nullptr;
    keep(classes.node, node);
    keep(classes.share, share);
    keep(classes.sender, sender);
    keep(classes.call, call);
    keep(classes.none_inside, none_inside);
    keep(classes.no_sources, no_sources);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(know_makers_doc,
             "know_makers(origin, found, looked, tensor, parameter)\n--\n\n"
             "The named tuples that are made of makers, and the types of plain tensors.");

static PyObject *know_makers(PyObject *, PyObject *arguments) {
    PyObject *origin, *found, *looked, *tensor, *parameter;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!:know_makers", &PyType_Type, &origin, &PyType_Type,
                          &found, &PyType_Type, &looked, &PyType_Type, &tensor, &PyType_Type,
                          &parameter) ||
        !know_words())
        return nullptr;
    keep(classes.origin, origin);
    keep(classes.found, found);
    keep(classes.looked, looked);
    keep(classes.tensor, tensor);
    keep(classes.parameter, parameter);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(know_memories_doc,
             "know_memories(memory, no_tensors, no_writes, weak_ref)\n--\n\n"
             "The class of memories, what a new one begins with, and what gives the address of a\n"
             "storage and keeps that from being given to another.");

static PyObject *know_memories(PyObject *, PyObject *arguments) {
    PyObject *memory, *no_tensors, *no_writes, *weak_ref;
    if (!PyArg_ParseTuple(arguments, "O!OOO:know_memories", &PyType_Type, &memory, &no_tensors,
                          &no_writes, &weak_ref) ||
        !know_words())
        return nullptr;
    keep(classes.memory, memory);
    keep(classes.no_tensors, no_tensors);
    keep(classes.no_writes, no_writes);
    keep(classes.weak_ref, weak_ref);
    Py_RETURN_NONE;
}

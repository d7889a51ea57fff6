// The text of records, which write/records.py and write/sketch_file.py make in Python the same.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Text as it grows; ``is_good`` is false once Python has raised.
struct Text {
    char own[4096];
    char *from = own;
    size_t length = 0, room = sizeof own;
    bool is_good = true;

    ~Text() {
        if (from != own) free(from);
    }
};

static char *more(Text &text, size_t count) {
    if (text.length + count > text.room) {
        size_t room = 2 * (text.length + count);
        char *kept = text.from == text.own ? (char *)malloc(room) : (char *)realloc(text.from, room);
        if (!kept) {
            PyErr_NoMemory();
            text.is_good = false;
            return nullptr;
        }
        if (text.from == text.own) memcpy(kept, text.own, text.length);
        text.from = kept;
        text.room = room;
    }
    char *at = text.from + text.length;
    text.length += count;
    return at;
}

static void add(Text &text, const char *from, size_t count) {
    char *at = more(text, count);
    if (at) memcpy(at, from, count);
}

static void add(Text &text, const char *from) { add(text, from, strlen(from)); }

// A text of Python, as it stands; takes the reference.
static void add_made(Text &text, PyObject *made) {
    Py_ssize_t length = 0;
    const char *from = made ? PyUnicode_AsUTF8AndSize(made, &length) : nullptr;
    if (from)
        add(text, from, (size_t)length);
    else
        text.is_good = false;
    Py_XDECREF(made);
}

// What the texts of records need of Python.
struct Names {
    PyObject *leaf;         // the class of records of one value
    PyObject *encode;       // anything as text
    PyObject *encode_text;  // a text between quotation marks
    PyObject *text, *row, *dtype;
};
static Names names;

static void add_quoted(Text &text, PyObject *value) {
    Py_ssize_t length;
    const char *from = PyUnicode_AsUTF8AndSize(value, &length);
    if (!from) PyErr_Clear();  // half of a pair of surrogates
    bool is_plain = from;
    for (Py_ssize_t i = 0; is_plain && i < length; i++)
        is_plain = from[i] >= ' ' && from[i] <= '~' && from[i] != '"' && from[i] != '\\';
    if (!is_plain) return add_made(text, PyObject_CallFunctionObjArgs(names.encode_text, value, nullptr));
    char *at = more(text, (size_t)length + 2);
    if (!at) return;
    *at = '"';
    memcpy(at + 1, from, (size_t)length);
    at[length + 1] = '"';
}

static void add_number(Text &text, double number) {
    char *made = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
    if (!made) {
        text.is_good = false;
        return;
    }
    add(text, made);
    PyMem_Free(made);
}

static void add_encoded(Text &text, PyObject *value) {
    add_made(text, PyObject_CallFunctionObjArgs(names.encode, value, nullptr));
}

static bool is_a(PyObject *value, PyTypeObject *kind) { return Py_TYPE(value) == kind; }

// Whole numbers as Python writes them.
static bool add_whole(Text &text, PyObject *value) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return false;
    char made[24], *at = made + sizeof made;
    unsigned long long rest = number < 0 ? 0ull - (unsigned long long)number : (unsigned long long)number;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *--at = '-';
    add(text, at, (size_t)(made + sizeof made - at));
    return true;
}

// A value that JSON writes alike whatever is around it; false for any other, with nothing added.
static bool add_single(Text &text, PyObject *value) {
    if (value == Py_None) return add(text, "null"), true;
    if (value == Py_True) return add(text, "true"), true;
    if (value == Py_False) return add(text, "false"), true;
    if (is_a(value, &PyUnicode_Type)) return add_quoted(text, value), true;
    if (is_a(value, &PyLong_Type)) return add_whole(text, value);
    if (is_a(value, &PyFloat_Type)) {
        double number = PyFloat_AsDouble(value);
        if (!isfinite(number)) return false;  // JSON has other names for those than Python
        add_number(text, number);
        return true;
    }
    return false;
}

// The record of one value: single values and lists of them; false for any other.
static bool add_flat(Text &text, PyObject *leaf) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    size_t before = text.length;
    const char *between = "{";
    while (text.is_good && PyDict_Next(leaf, &at, &key, &value)) {
        bool is_flat = is_a(key, &PyUnicode_Type);
        if (is_flat) {
            add(text, between);
            between = ", ";
            add_quoted(text, key);
            add(text, ": ");
            if (is_a(value, &PyList_Type)) {
                Py_ssize_t count = PyList_Size(value);
                add(text, "[");
                for (Py_ssize_t i = 0; is_flat && i < count; i++) {
                    if (i) add(text, ", ");
                    is_flat = add_single(text, PyList_GetItem(value, i));
                }
                add(text, "]");
            } else {
                is_flat = add_single(text, value);
            }
        }
        if (!is_flat) {
            text.length = before;
            return false;
        }
    }
    add(text, *between == '{' ? "{}" : "}");
    return true;
}

static PyObject *made_of(Text &text) {
    if (!text.is_good) return nullptr;
    return PyUnicode_FromStringAndSize(text.from, (Py_ssize_t)text.length);
}

PyDoc_STRVAR(leaf_text_doc,
             "leaf_text(record)\n--\n\nThe JSON of a record of one value.");

static PyObject *leaf_text(PyObject *, PyObject *leaf) {
    Text text;
    if (!PyDict_Check(leaf)) {
        PyErr_SetString(PyExc_TypeError, "a record is a dict");
        return nullptr;
    }
    if (!add_flat(text, leaf)) add_encoded(text, leaf);
    return made_of(text);
}

// Which tensors of a record have which sketch.
struct Shown {
    PyObject *found;  // a list of places and rows in turn; null where nobody asks
    long long section, position;
};

static const long long MOST_POSITIONS = 1 << 16, NO_SKETCH = -1;

static bool append_number(PyObject *list, long long number) {
    PyObject *made = PyLong_FromLongLong(number);
    bool is_good = made && !PyList_Append(list, made);
    Py_XDECREF(made);
    return is_good;
}

static bool show(Shown &shown, PyObject *leaf) {
    int is_tensor = PyDict_Contains(leaf, names.dtype);
    if (is_tensor <= 0) return !is_tensor;
    long long position = shown.position++;
    PyObject *row = PyObject_GetAttr(leaf, names.row);
    if (!row) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
        PyErr_Clear();
        return true;
    }
    long long number = PyLong_AsLongLong(row);
    Py_DECREF(row);
    if (number == -1 && PyErr_Occurred()) return false;
    if (number == NO_SKETCH || position >= MOST_POSITIONS) return true;
    return append_number(shown.found, shown.section | position << 16) &&
           append_number(shown.found, number);
}

static void add_record(Text &text, PyObject *value, Shown *shown) {
    if (Py_TYPE(value) == (PyTypeObject *)names.leaf) {
        if (shown && !show(*shown, value)) {
            text.is_good = false;
            return;
        }
        return add_made(text, PyObject_GetAttr(value, names.text));
    }
    if (add_single(text, value)) return;
    bool is_list = is_a(value, &PyList_Type), is_dict = is_a(value, &PyDict_Type);
    if (!is_list && !is_dict && !is_a(value, &PyTuple_Type)) return add_encoded(text, value);
    if (Py_EnterRecursiveCall(" while a record is written")) {
        text.is_good = false;
        return;
    }
    add(text, is_dict ? "{" : "[");
    if (is_dict) {
        PyObject *key, *part;
        Py_ssize_t at = 0;
        for (bool is_first = true; text.is_good && PyDict_Next(value, &at, &key, &part);
             is_first = false) {
            if (!is_first) add(text, ", ");
            if (is_a(key, &PyUnicode_Type)) {
                add_quoted(text, key);
            } else {
                PyObject *name = PyObject_Str(key);
                if (!name) {
                    text.is_good = false;
                    break;
                }
                add_quoted(text, name);
                Py_DECREF(name);
            }
            add(text, ": ");
            Py_INCREF(part);
            add_record(text, part, shown);
            Py_DECREF(part);
        }
    } else {
        Py_ssize_t count = is_list ? PyList_Size(value) : PyTuple_Size(value);
        for (Py_ssize_t i = 0; text.is_good && i < count; i++) {
            PyObject *part = is_list ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
            if (!part) {
                text.is_good = false;
                break;
            }
            if (i) add(text, ", ");
            Py_INCREF(part);
            add_record(text, part, shown);
            Py_DECREF(part);
        }
    }
    add(text, is_dict ? "}" : "]");
    Py_LeaveRecursiveCall();
}

PyDoc_STRVAR(record_text_doc,
             "record_text(record)\n--\n\nThe JSON of a record, with the texts that its leaves have.");

static PyObject *record_text(PyObject *, PyObject *record) {
    Text text;
    add_record(text, record, nullptr);
    return made_of(text);
}

PyDoc_STRVAR(text_and_shown_doc,
             "text_and_shown(record, sections, section, found)\n--\n\n"
             "As ``record_text``, of a dict. Of its tensors that have a sketch the place and the row\n"
             "are appended to ``found``; their section is that which ``sections`` has for their key,\n"
             "or ``section`` unless it is None.");

static PyObject *text_and_shown(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 4 || !PyDict_Check(given[0]) || !PyDict_Check(given[1]) || !PyList_Check(given[3])) {
        PyErr_SetString(PyExc_TypeError, "a record, sections, a section and a list");
        return nullptr;
    }
    long long positions[16] = {};
    Text text;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    const char *between = "{";
    while (text.is_good && PyDict_Next(given[0], &at, &key, &value)) {
        add(text, between);
        between = ", ";
        PyObject *name = PyObject_Str(key);
        if (!name) return nullptr;
        add_quoted(text, name);
        Py_DECREF(name);
        add(text, ": ");
        PyObject *section = given[2];
        if (section == Py_None) section = PyDict_GetItemWithError(given[1], key);
        if (!section && PyErr_Occurred()) return nullptr;
        Shown shown = {given[3], section ? PyLong_AsLongLong(section) : -1, 0};
        if (section && (shown.section < 0 || shown.section > 15)) {
            PyErr_SetString(PyExc_ValueError, "no such section");
            return nullptr;
        }
        if (section) shown.position = positions[shown.section];
        Py_INCREF(value);
        add_record(text, value, section ? &shown : nullptr);
        Py_DECREF(value);
        if (section) positions[shown.section] = shown.position;
    }
    add(text, *between == '{' ? "{}" : "}");
    return made_of(text);
}

PyDoc_STRVAR(know_doc,
             "know(leaf, encode, encode_text)\n--\n\n"
             "Which class records of one value have, and what makes text of anything, and of a text.");

static PyObject *know(PyObject *, PyObject *arguments) {
    PyObject *leaf, *encode, *encode_text;
    if (!PyArg_ParseTuple(arguments, "OOO:know", &leaf, &encode, &encode_text)) return nullptr;
    PyObject *kept[] = {names.leaf, names.encode, names.encode_text};
    Py_INCREF(leaf);
    Py_INCREF(encode);
    Py_INCREF(encode_text);
    names.leaf = leaf;
    names.encode = encode;
    names.encode_text = encode_text;
    for (PyObject *one : kept) Py_XDECREF(one);
    if (!names.text) names.text = PyUnicode_InternFromString("text");
    if (!names.row) names.row = PyUnicode_InternFromString("row");
    if (!names.dtype) names.dtype = PyUnicode_InternFromString("dtype");
    if (!names.text || !names.row || !names.dtype) return nullptr;
    Py_RETURN_NONE;
}

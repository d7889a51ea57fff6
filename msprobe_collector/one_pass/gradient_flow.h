// Which backward calls a gradient comes from: what record/gradient_flow.py does in Python for each
// edge and each gradient.
#pragma once

#include "makers.h"

// What is known of a node, made where nothing is.
static PyObject *flow_of(PyObject *node, PyObject *key) {
    Own metadata(PyObject_GetAttr(node, words.metadata));
    PyObject *known = metadata ? PyDict_GetItemWithError(metadata.at, key) : nullptr;
    if (known || PyErr_Occurred()) return known ? kept(known) : nullptr;
    Own flow(PyType_GenericAlloc(classes.node, 0)), shares(PyDict_New()), arriving(PyDict_New());
    Own none(PyTuple_New(0)), number(PyLong_FromLong(0));
    if (!flow || !shares || !arriving || !none || !number) return nullptr;
    if (PyObject_SetAttr(flow.at, words.shares, shares.at) ||
        PyObject_SetAttr(flow.at, words.arriving, arriving.at) ||
        PyObject_SetAttr(flow.at, words.pass_number, number.at) ||
        PyObject_SetAttr(flow.at, words.hooked, none.at) || PyDict_SetItem(metadata.at, key, flow.at))
        return nullptr;
    return flow.hand_over();
}

// Edges that nobody sends by yet get a share of the call.
static bool share_edges(PyObject *flow, PyObject *edges, PyObject *sender) {
    Own shares(PyObject_GetAttr(flow, words.shares));
    if (!shares) return false;
    for (Py_ssize_t i = 0, count = PyList_Size(edges); i < count; i++) {
        PyObject *edge = PyList_GetItem(edges, i);
        PyObject *index = PyTuple_GetItem(edge, 0), *positions = PyTuple_GetItem(edge, 1);
        PyObject *first = positions ? PyList_GetItem(positions, 0) : nullptr;
        if (!first) return false;
        int is_known = PyDict_Contains(shares.at, index);
        if (is_known < 0) return false;
        if (is_known) continue;
        PyObject *parts[] = {kept(sender), kept(first)};
        Own share(made(classes.share, parts));
        if (!share || PyDict_SetItem(shares.at, index, share.at)) return false;
    }
    return true;
}

PyDoc_STRVAR(watch_nodes_doc,
             "watch_nodes(outputs, shares, last, sender, received, key)\n--\n\n"
             "What ``GradientFlow.watch`` does with the nodes and edges of a graph, where ``shares``\n"
             "is None without the latter: tell in ``received`` at which node the gradient of which\n"
             "output arrives. What is known of the node ``last``, None where it is not among them.");

static PyObject *watch_nodes(PyObject *, PyObject *const *given, Py_ssize_t count) {
    bool is_good = count == 6 && PyDict_Check(given[0]) && PyDict_Check(given[4]) && classes.node;
    if (!is_good || (given[1] != Py_None && !PyDict_Check(given[1]))) {
        PyErr_SetString(PyExc_TypeError, "watch_nodes takes other arguments");
        return nullptr;
    }
    Own last(kept(Py_None));
    PyObject *node, *parts;
    for (Py_ssize_t at = 0; PyDict_Next(given[0], &at, &node, &parts);) {
        Own flow(flow_of(node, given[5]));
        if (!flow) return nullptr;
        for (Py_ssize_t i = 0, all = PyList_Size(parts); i < all; i++) {
            PyObject *output = PyList_GetItem(parts, i);
            PyObject *number = PyTuple_GetItem(output, 0), *place = PyTuple_GetItem(output, 1);
            Own pair(place ? PyTuple_Pack(2, flow.at, number) : nullptr);
            if (!pair || PyDict_SetItem(given[4], place, pair.at)) return nullptr;
        }
        if (node == given[2]) {
            Own before(last.hand_over());
            last.at = kept(flow.at);
        }
    }
    for (Py_ssize_t at = 0; given[1] != Py_None && PyDict_Next(given[1], &at, &node, &parts);) {
        Own flow(flow_of(node, given[5]));
        if (!flow || !share_edges(flow.at, parts, given[3])) return nullptr;
    }
    return last.hand_over();
}

// The makers of a gradient, as what arrived for an output of a node tells them.
static PyObject *found_at(PyObject *flow, PyObject *number, PyObject *sum_of) {
    Own arriving(PyObject_GetAttr(flow, words.arriving)), hooked(PyObject_GetAttr(flow, words.hooked));
    if (!arriving || !hooked) return nullptr;
    PyObject *sources = PyDict_GetItemWithError(arriving.at, number);
    if (!sources && PyErr_Occurred()) return nullptr;
    int is_hooked = PySequence_Contains(hooked.at, number);
    if (is_hooked < 0) return nullptr;
    if (sources && !is_hooked && PyList_Size(sources) == 1)
        return found_of(PyList_GetItem(sources, 0), 0);
    return PyObject_CallFunctionObjArgs(sum_of, sources ? sources : Py_None,
                                        is_hooked ? Py_True : Py_False, nullptr);
}

PyDoc_STRVAR(found_all_doc,
             "found_all(items, flow, received, sum_of, unknown)\n--\n\n"
             "The makers of the gradients in the list ``items``, but for None: what arrived at\n"
             "``flow`` for as many outputs, or at the node and output that ``received`` has for a\n"
             "place, where ``flow`` is None; ``unknown`` where it has nothing.");

static PyObject *found_all(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 5 || !PyDict_Check(given[2]) || !classes.found) {
        PyErr_SetString(PyExc_TypeError, "found_all takes other arguments");
        return nullptr;
    }
    Py_ssize_t all = PySequence_Size(given[0]);
    Own found(PyList_New(0));
    if (all < 0 || !found) return nullptr;
    for (Py_ssize_t i = 0; i < all; i++) {
        Own item(PySequence_GetItem(given[0], i));
        if (!item) return nullptr;
        if (item.at == Py_None) continue;
        Own place(PyLong_FromSsize_t(i)), one(nullptr);
        if (!place) return nullptr;
        if (given[1] != Py_None) {
            one.at = found_at(given[1], place.at, given[3]);
        } else {
            PyObject *pair = PyDict_GetItemWithError(given[2], place.at);
            if (!pair && PyErr_Occurred()) return nullptr;
            one.at = pair ? found_at(PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1), given[3])
                          : kept(given[4]);
        }
        if (!one || PyList_Append(found.at, one.at)) return nullptr;
    }
    return found.hand_over();
}

// The edges below what a backward pass begins at.
struct Visit {
    PyObject *key, *passes, *leaf, *at_leaf;
    Own seen{PyDict_New()}, waiting{PyList_New(0)};  // nodes and what is known of each in turn
};

static bool arrive(Visit &visit, PyObject *node, PyObject *output, PyObject *source) {
    PyObject *known = PyDict_GetItemWithError(visit.seen.at, node);
    if (!known && PyErr_Occurred()) return false;
    Own gathers(known ? kept(known) : nullptr);
    if (!gathers) {
        if ((PyObject *)Py_TYPE(node) == visit.leaf) {
            gathers.at = PyObject_CallFunctionObjArgs(visit.at_leaf, node, nullptr);
            if (!gathers) return false;
        } else {
            Own metadata(PyObject_GetAttr(node, words.metadata));
            PyObject *flow = metadata ? PyDict_GetItemWithError(metadata.at, visit.key) : nullptr;
            if (PyErr_Occurred()) return false;
            gathers.at = kept(flow ? flow : Py_None);
            if (flow) {
                Own before(PyObject_GetAttr(flow, words.pass_number));
                int is_same = are_equal(before.at, visit.passes);
                if (is_same < 0) return false;
                Own nothing(is_same ? nullptr : PyDict_New());
                if (!is_same && (!nothing || PyObject_SetAttr(flow, words.pass_number, visit.passes) ||
                                 PyObject_SetAttr(flow, words.arriving, nothing.at)))
                    return false;
            }
            if (PyList_Append(visit.waiting.at, node) || PyList_Append(visit.waiting.at, gathers.at))
                return false;
        }
        if (PyDict_SetItem(visit.seen.at, node, gathers.at)) return false;
    }
    if (gathers.at == Py_None) return true;
    if (PyList_Check(gathers.at)) return !PyList_Append(gathers.at, source);
    Own arriving(PyObject_GetAttr(gathers.at, words.arriving));
    if (!arriving) return false;
    PyObject *sources = PyDict_GetItemWithError(arriving.at, output);
    if (sources) return !PyList_Append(sources, source);
    if (PyErr_Occurred()) return false;
    Own first(Py_BuildValue("[O]", source));
    return first && !PyDict_SetItem(arriving.at, output, first.at);
}

static bool leave_node(Visit &visit, PyObject *node, PyObject *flow) {
    Own shares(flow == Py_None ? nullptr : PyObject_GetAttr(flow, words.shares));
    Own edges(PyObject_GetAttr(node, words.next_functions));
    if (!edges || (!shares && flow != Py_None)) return false;
    for (Py_ssize_t i = 0, count = PyTuple_Size(edges.at); i < count; i++) {
        PyObject *edge = PyTuple_GetItem(edges.at, i), *source = edge ? PyTuple_GetItem(edge, 0) : nullptr;
        if (!source) return false;
        if (source == Py_None) continue;
        Own index(PyLong_FromSsize_t(i));
        if (!index) return false;
        PyObject *share = shares ? PyDict_GetItemWithError(shares.at, index.at) : nullptr;
        if (!share && PyErr_Occurred()) return false;
        Own sent(share ? kept(share) : nullptr);
        if (!sent) {
            PyObject *parts[] = {PyLong_FromLong(UNRECORDED), call(node, words.name),
                                 PyLong_FromLong(OUTPUT_SECTION), PyLong_FromLong(0), PyLong_FromLong(0)};
            sent.at = made(classes.origin, parts);
            if (!sent) return false;
        }
        if (!arrive(visit, source, PyTuple_GetItem(edge, 1), sent.at)) return false;
    }
    return true;
}

PyDoc_STRVAR(visit_edges_doc,
             "visit_edges(roots, outside, key, passes, leaf, at_leaf)\n--\n\n"
             "As ``GradientFlow.begin``: visit every edge below ``roots``, pairs of a node and one of\n"
             "its outputs, to which ``outside`` sends. What is known of a node lies in its metadata\n"
             "by ``key``; of one of the type ``leaf`` the function ``at_leaf`` has the list.");

static PyObject *visit_edges(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 6 || !PyList_Check(given[0]) || !classes.found) {
        PyErr_SetString(PyExc_TypeError, "visit_edges takes other arguments");
        return nullptr;
    }
    Visit visit = {given[2], given[3], given[4], given[5]};
    if (!visit.seen || !visit.waiting) return nullptr;
    for (Py_ssize_t i = 0; i < PyList_Size(given[0]); i++) {
        PyObject *root = PyList_GetItem(given[0], i);
        PyObject *node = PyTuple_GetItem(root, 0), *output = PyTuple_GetItem(root, 1);
        if (!node || !output || !arrive(visit, node, output, given[1])) return nullptr;
    }
    for (Py_ssize_t left; (left = PyList_Size(visit.waiting.at)) > 0;) {
        Own node(kept(PyList_GetItem(visit.waiting.at, left - 2)));
        Own flow(kept(PyList_GetItem(visit.waiting.at, left - 1)));
        if (PyList_SetSlice(visit.waiting.at, left - 2, left, nullptr)) return nullptr;
        if (!leave_node(visit, node.at, flow.at)) return nullptr;
    }
    Py_RETURN_NONE;
}

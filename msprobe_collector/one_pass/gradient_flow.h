// Which backward calls a gradient comes from: what record/gradient_flow.py does in Python for each
// edge and each gradient.
#pragma once

#include "makers.h"

// What is known of a node, made where nothing is.
static PyObject *flow_of(PyObject *node, PyObject *key) {
    Own metadata(PyObject_GetAttr(node, words.metadata));
    PyObject *known = metadata ? PyDict_GetItemWithError(metadata.at, key) : nullptr;
    if (known || PyErr_Occurred()) return known ? kept(known) : nullptr;
    Slot slots[] = {{words.shares, PyDict_New()},
                    {words.arriving, kept(classes.no_sources)},
                    {words.pass_number, PyLong_FromLong(0)},
                    {words.hooked, PyTuple_New(0)}};
    Own flow(filled(classes.node, slots));
    return flow && !PyDict_SetItem(metadata.at, key, flow.at) ? flow.hand_over() : nullptr;
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
             "watch_nodes(name, outputs, shares, last, key)\n--\n\n"
             "As ``GradientFlow.watch``, of a graph of which ``shares`` are None where nothing is told\n"
             "of its edges: what is known of the gradients of a call.");

static PyObject *watch_nodes(PyObject *, PyObject *const *given, Py_ssize_t count) {
    bool is_good = count == 5 && PyDict_Check(given[1]) && classes.node;
    if (!is_good || (given[2] != Py_None && !PyDict_Check(given[2]))) {
        PyErr_SetString(PyExc_TypeError, "watch_nodes takes other arguments");
        return nullptr;
    }
    Slot slots[] = {{words.name, kept(given[0])},
                    {words.is_over, kept(Py_False)},
                    {words.section, PyLong_FromLong(OUTPUT_SECTION)},
                    {words.ordinals, kept(Py_None)}};
    Own sender(filled(classes.sender, slots)), received(PyDict_New()), last(kept(Py_None));
    if (!sender || !received) return nullptr;
    PyObject *node, *parts;
    for (Py_ssize_t at = 0; PyDict_Next(given[1], &at, &node, &parts);) {
        Own flow(flow_of(node, given[4]));
        if (!flow) return nullptr;
        for (Py_ssize_t i = 0, all = PyList_Size(parts); i < all; i++) {
            PyObject *output = PyList_GetItem(parts, i);
            PyObject *number = PyTuple_GetItem(output, 0), *place = PyTuple_GetItem(output, 1);
            Own pair(place ? PyTuple_Pack(2, flow.at, number) : nullptr);
            if (!pair || PyDict_SetItem(received.at, place, pair.at)) return nullptr;
        }
        if (node == given[3]) {
            Own before(last.hand_over());
            last.at = kept(flow.at);
        }
    }
    for (Py_ssize_t at = 0; given[2] != Py_None && PyDict_Next(given[2], &at, &node, &parts);) {
        Own flow(flow_of(node, given[4]));
        if (!flow || !share_edges(flow.at, parts, sender.at)) return nullptr;
    }
    Slot all[] = {{words.sender, sender.hand_over()},
                  {words.received, received.hand_over()},
                  {words.last, last.hand_over()},
                  {words.inner, kept(classes.none_inside)}};
    return filled(classes.call, all);
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

// The makers of the gradients in a sequence, but for None: what arrived at ``last`` for as many
// outputs, or at the node and output that ``received`` has for a place, where ``last`` is None.
static PyObject *found_all(PyObject *items, PyObject *last, PyObject *received, PyObject *sum_of,
                           PyObject *unknown) {
    Py_ssize_t all = PySequence_Size(items);
    Own found(PyList_New(0));
    if (all < 0 || !found) return nullptr;
    for (Py_ssize_t i = 0; i < all; i++) {
        Own item(PySequence_GetItem(items, i));
        if (!item) return nullptr;
        if (item.at == Py_None) continue;
        Own place(PyLong_FromSsize_t(i)), one(nullptr);
        if (!place) return nullptr;
        if (last != Py_None) {
            one.at = found_at(last, place.at, sum_of);
        } else {
            PyObject *pair = received ? PyDict_GetItemWithError(received, place.at) : nullptr;
            if (!pair && PyErr_Occurred()) return nullptr;
            one.at = pair ? found_at(PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1), sum_of)
                          : kept(unknown);
        }
        if (!one || PyList_Append(found.at, one.at)) return nullptr;
    }
    return found.hand_over();
}

// The call of ``sender`` is over: which of the inputs ``sent`` has which place in its record.
static bool end_sender(PyObject *sender, PyObject *sent, PyObject *record) {
    int by_argument = PyDict_Contains(record, words.input_gradients);
    int is_there = by_argument ? by_argument : PyDict_Contains(record, words.output);
    if (by_argument < 0 || is_there <= 0) return !is_there;
    if (by_argument) {
        Own section(PyLong_FromLong(INPUT_GRADIENTS_SECTION));
        if (!section || PyObject_SetAttr(sender, words.section, section.at)) return false;
    }
    Py_ssize_t all = PyList_Size(sent), n = 0;
    bool has_all = true;
    for (Py_ssize_t i = 0; i < all; i++) has_all = has_all && PyList_GetItem(sent, i) != Py_None;
    Own ordinals(has_all ? nullptr : PyDict_New());
    for (Py_ssize_t i = 0; ordinals && i < all; i++) {
        if (PyList_GetItem(sent, i) == Py_None) continue;
        Own place(PyLong_FromSsize_t(i)), ordinal(PyLong_FromSsize_t(n++));
        if (!place || !ordinal || PyDict_SetItem(ordinals.at, place.at, ordinal.at)) return false;
    }
    if (!has_all && (!ordinals || PyObject_SetAttr(sender, words.ordinals, ordinals.at))) return false;
    return !PyObject_SetAttr(sender, words.is_over, Py_True);
}

PyDoc_STRVAR(makers_of_doc,
             "makers_of(flow, sent, record, by_place, sum_of, unknown)\n--\n\n"
             "As ``GradientFlow.makers``, but for what is sent inside of a module: who made the\n"
             "gradients that a call received. Where not ``by_place``, its first record has those of\n"
             "the node of its first output.");

static PyObject *makers_of(PyObject *, PyObject *const *given, Py_ssize_t count) {
    if (count != 6 || !PyList_Check(given[1]) || !PyDict_Check(given[2]) || !classes.found) {
        PyErr_SetString(PyExc_TypeError, "makers_of takes other arguments");
        return nullptr;
    }
    PyObject *flow = given[0], *record = given[2];
    Own sender(PyObject_GetAttr(flow, words.sender)), received(PyObject_GetAttr(flow, words.received));
    Own last(PyObject_GetAttr(flow, words.last)), makers(PyList_New(0));
    if (!sender || !received || !last || !makers || !end_sender(sender.at, given[1], record))
        return nullptr;
    for (int k = 0; k < 2; k++) {
        PyObject *items = PyDict_GetItemWithError(record, k ? words.output_gradients : words.input);
        if (!items && PyErr_Occurred()) return nullptr;
        int is_there = items ? PyObject_IsTrue(items) : 0;
        if (is_there < 0) return nullptr;
        if (!is_there) continue;
        bool by_place = k || given[3] == Py_True;
        Own held(kept(items));
        Own found(found_all(items, by_place ? Py_None : last.at, by_place ? received.at : nullptr,
                            given[4], given[5]));
        long section = k ? OUTPUT_GRADIENTS_SECTION : INPUT_SECTION;
        Own pair(found ? Py_BuildValue("(lO)", section, found.at) : nullptr);
        if (!pair || PyList_Append(makers.at, pair.at)) return nullptr;
    }
    return makers.hand_over();
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

"""Names of modules as evidence: their words, wherever they stand in the name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.classes import kind_of_class
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.dump.names import parse_gradients
from msprobe_builder.graph.tree import Tree

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_OTHER_KIND = -5.0  # evidence of a norm against a linear, an activation against a dropout
_SEVERAL = 2  # modules that show by how much numbers differ
_REVERSED = 3  # least modules of a list whose order of calls shows that it is counted from its end
_FITTING = 0.75  # least share of the modules of one size whose numbers differ by that much

# Of these a module has one alone.
_ROLES, _ROLE = ("query", "key", "value", "gate", "up", "down"), 1.5

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SHORT = {
    **dict.fromkeys(("attn", "attention", "attentions", "mixer"), "attention"),
    **dict.fromkeys(("norm", "layernorm", "rmsnorm", "ln", "rms"), "norm"),
    **dict.fromkeys(("mlp", "ffn", "ff", "feedforward", "feed", "forward"), "mlp"),
    **dict.fromkeys(("emb", "embed", "embedding", "embeddings", "wte", "tok"), "embedding"),
    **dict.fromkeys(("proj", "projection"), "projection"),
    **dict.fromkeys(("layer", "layers", "block", "blocks", "h"), "layer"),
    **dict.fromkeys(("linear", "dense", "fc", "conv1d"), "linear"),
    **dict.fromkeys(("pos", "position", "positions", "wpe"), "position"),
    **dict.fromkeys(("act", "activation"), "activation"),
    **dict.fromkeys(("out", "output", "o", "wo"), "output"),
    **dict.fromkeys(("q", "query", "wq"), "query"),
    **dict.fromkeys(("k", "key", "wk"), "key"),
    **dict.fromkeys(("v", "value", "wv"), "value"),
}


@dataclass(frozen=True)
class Label:
    """Words of a module's attribute and of its class, and its number in a list, else -1.

    The place in a sequence of unlike modules is no number: nothing counts them. ``place`` is that
    among the modules of its class in the list, ``of`` how many there are. A list that is called
    from its last module to its first ``is_reversed``: number and place are those from its end, as
    the way up of a U-Net is counted. ``kind`` is what the class does if a framework defines it,
    else -1.
    """

    attribute: frozenset[str]
    class_name: frozenset[str]
    number: int
    place: int = -1
    of: int = 0
    is_reversed: bool = False
    kind: int = -1

    @property
    def role(self) -> int:
        """Which of the parts of an attention or a gated network, -1 for none or several."""
        roles = self.attribute & set(_ROLES)
        return _ROLES.index(min(roles)) if len(roles) == 1 else -1


_NOTHING = Label(frozenset(), frozenset(), -1)


def named(side: Traits, nodes: Int) -> Int:
    """The modules whose names tell of some nodes: modules themselves, and those that make calls."""
    return np.where(side.operator[nodes] < 0, nodes, side.outline.host[nodes])


class Words:
    """The labels of the modules of one side."""

    def __init__(self, tree: Tree) -> None:
        self._label: list[Label] = []
        row: dict[tuple[str, str], set[int]] = {}  # labels of one class with numbers in one list
        calls = tree.calls
        modules = np.flatnonzero(calls.is_module)
        stems, first = np.unique(calls.stem[modules], return_index=True)
        of_stem = np.zeros(len(calls.stems), dtype=np.int64)
        for found, one in enumerate(stems[np.argsort(first)].tolist()):  # in the order of calls
            stem, of_stem[one] = calls.stems[one], found
            self._label.append(_label(stem))
            if self._label[-1].number >= 0:
                path, _, class_name = stem.rpartition(".")
                row.setdefault((path.rpartition(".")[0], class_name), set()).add(found)
        self.of_node = np.where(calls.is_module, of_stem[calls.stem], 0)
        for labels in row.values():
            if len(labels) == 1:
                self._label[min(labels)] = replace(self._label[min(labels)], number=-1)
                continue
            self._count(sorted(labels))
        if not self._label:
            self._label.append(_NOTHING)
        self._kind = np.array([label.kind for label in self._label], dtype=np.int64)
        self._role = np.array([label.role for label in self._label], dtype=np.int64)

    def _count(self, labels: list[int]) -> None:
        """Give the modules of a list, in the order in which they are called, their places."""
        numbers = [self._label[one].number for one in labels]
        is_reversed = all(one > two for one, two in pairwise(numbers))
        if is_reversed and len(labels) < _REVERSED:  # two heads, or two layers: these say nothing
            for one in labels:
                self._label[one] = replace(self._label[one], number=-1)
            return
        for one, number in zip(labels, numbers, strict=True):
            place = sum(other < number for other in numbers)
            if is_reversed:
                number, place = max(numbers) - number, len(labels) - 1 - place
            label = replace(self._label[one], number=number, place=place)
            self._label[one] = replace(label, of=len(labels), is_reversed=is_reversed)

    def attribute(self, node: int) -> frozenset[str]:
        """The words of the attribute that holds a module."""
        return self._label[int(self.of_node[node])].attribute

    def do_other_things(self, a: Int, other: Words, b: Int) -> Bool:
        """Which of the pairs ``a``, ``b`` have other roles, or classes that a framework defines."""
        own, its = self.of_node[a], other.of_node[b]
        kinds, roles = (self._kind[own], other._kind[its]), (self._role[own], other._role[its])
        told = [(one >= 0) & (two >= 0) & (one != two) for one, two in (kinds, roles)]
        return np.asarray(told[0] | told[1])

    def recounted(self, other: Words, partner: Int) -> Bool:
        """Nodes whose partners stand at another place of a list that holds as many modules."""
        result = np.zeros(len(partner), dtype=bool)
        for node in np.flatnonzero(partner >= 0).tolist():
            debug = self._label[self.of_node[node]]
            reference = other._label[other.of_node[partner[node]]]
            lists = (debug.of, debug.is_reversed), (reference.of, reference.is_reversed)
            as_many = debug.of > 0 and lists[0] == lists[1]
            result[node] = as_many and debug.place != reference.place
        return result

    def agreement(
        self, a: Int, other: Words, b: Int, alike: Bool, *, sizes_tell: bool = False
    ) -> Float:
        """Up to about 3 for equal names, down to -1 for other numbers, -5 for classes that do
        other things.

        ``alike`` marks the pairs of ``a`` × ``b`` of one size: one author counts other modules
        among the layers, so numbers agree where they differ by as much as those of most such.
        Where sizes do not tell and both lists hold as many, an author may have counted from one.
        Numbers say nothing where one author counts modules of a size that the other one names,
        nor, where ``sizes_tell``, between lists of other lengths that hold modules of other sizes:
        one counts layers, the other one their halves.
        """
        result = np.zeros((len(a), len(b)))
        debug = [self._label[one] for one in self.of_node[a].tolist()]
        reference = [other._label[one] for one in other.of_node[b].tolist()]
        numbers, others = (
            np.array([label.number for label in labels], dtype=np.int64)
            for labels in (debug, reference)
        )
        shift = _shift(numbers, others, alike)
        counted = (numbers[:, None] >= 0) & (others >= 0)
        if (alike & (numbers[:, None] >= 0) & (others < 0)).any() or (
            alike & (numbers[:, None] < 0) & (others >= 0)
        ).any():
            counted[:] = False
        if sizes_tell:
            lengths, other_lengths = (
                np.array([label.of for label in labels], dtype=np.int64)
                for labels in (debug, reference)
            )
            counted &= alike | (lengths[:, None] == other_lengths)
        for i, its_label in enumerate(debug):
            for j, other_label in enumerate(reference):
                result[i, j] = _agreement(its_label, other_label, shift, counts=bool(counted[i, j]))
        return result

    def said(self, a: Int, other: Words, b: Int) -> Float:
        """What the words of names say alone, up to 2 for equal ones."""
        debug = [self._label[one] for one in self.of_node[a].tolist()]
        reference = [other._label[one] for one in other.of_node[b].tolist()]
        rows = [
            [_agreement(label, other_label, 0, counts=False) for other_label in reference]
            for label in debug
        ]
        return np.array(rows).reshape(len(debug), len(reference))


def _shift(numbers: Int, others: Int, alike: Bool) -> int | None:
    """By how much the numbers of two lists differ, None unless several modules say it."""
    both = alike & (numbers[:, None] >= 0) & (others >= 0)
    shifts, counts = np.unique((numbers[:, None] - others)[both], return_counts=True)
    most = min(int(both.any(axis=1).sum()), int(both.any(axis=0).sum()))
    if not len(shifts) or counts.max() < max(_SEVERAL, _FITTING * most):
        return None  # one author counts every second module of another kind, too
    best = int(counts.argmax())
    return int(shifts[best]) if counts[best] > counts[shifts == 0].sum() else 0


def _label(stem: str) -> Label:
    gradients = parse_gradients(stem)
    parts = (gradients[0] if gradients else stem).split(".")[1:]
    if not parts:
        return _NOTHING
    path, class_name = parts[:-1], parts[-1]
    attribute = path[-1] if path else ""
    number = int(attribute) if attribute.isdigit() and len(attribute) < 9 else -1
    if number >= 0:  # a place in a list is no word
        attribute = path[-2] if len(path) > 1 else ""
    kind = kind_of_class(class_name)
    return Label(words_of(attribute), words_of(class_name), number, kind=kind)


def first_difference(one: str, other: str) -> int:
    """The place of the first attribute in which two paths differ, if it is a name and no number.

    -1 where it is a number, or nothing differs.
    """
    path, other_path = one.split(".")[1:-1], other.split(".")[1:-1]
    for place, (word, other_word) in enumerate(zip_longest(path, other_path, fillvalue="")):
        if word != other_word:
            both = word[-1:].isdigit() and other_word[-1:].isdigit()
            counted = both and word.rstrip("0123456789") == other_word.rstrip("0123456789")
            return -1 if counted else place
    return -1


def words_of(name: str) -> frozenset[str]:
    """The words of a name in snake or camel case, short forms written out."""
    words = (word.lower() for word in _WORD.findall(name))
    return frozenset(_SHORT.get(word, word) for word in words)


def _agreement(debug: Label, reference: Label, shift: int | None, *, counts: bool) -> float:
    kinds = {debug.kind, reference.kind}
    result = _OTHER_KIND if len(kinds) > 1 and -1 not in kinds else 0.0
    if counts:
        same = debug.number == reference.number + (shift or 0)
        if shift is None and debug.of == reference.of:
            same = debug.place == reference.place
        result += 1.0 if same else -1.0
    for words, other_words, weight in (
        (debug.attribute, reference.attribute, 1.2),
        (debug.class_name, reference.class_name, 0.8),
    ):
        if words and other_words:
            result += weight * len(words & other_words) / len(words | other_words)
    if debug.role >= 0 and reference.role >= 0:
        result += _ROLE if debug.role == reference.role else -_ROLE
    return result

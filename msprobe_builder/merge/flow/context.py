"""What each tensor is of ranks with the same weights and other tokens.

Context-parallel ranks hold parts of one sequence, all of the same length. Weights are replicas,
activations are shards along the sequence wherever they differ, and a gradient of weights is a
partial sum until it is reduced. How the sequence was cut (in one part per rank, or in two, so that
all have equally much to attend to) makes no difference to statistics and shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.assembly import PLAIN, Order
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.calls import follow
from msprobe_builder.merge.flow.dimensions import Cut, alike
from msprobe_builder.merge.flow.expert_rows import OWN_COUNT
from msprobe_builder.merge.flow.knowledge import Knowledge
from msprobe_builder.merge.flow.share import LOCAL, REPLICA, UNKNOWN, Share, State


class Entering(NamedTuple):
    """Sizes of the words that enter the first module, of what else enters it without words."""

    shape: tuple[int, ...] = ()
    is_words: bool = False


def entering(tree: Tree, table: ParameterTable, texts: Texts) -> Entering:
    """What enters the model, or a stage of it."""
    words = {number for number, text in enumerate(texts.values) if "int" in text.lower()}
    first: tuple[int, ...] = ()
    for row in np.flatnonzero((table.section == Section.INPUT) & table.is_tensor).tolist():
        name = tree.parsed[int(table.node[row])]
        if name.kind is not Kind.MODULE or name.direction is not Direction.FORWARD:
            continue
        shape = tuple(parse_shape(texts, int(table.shape_id[row])))
        if 0 < len(shape) <= 2 and int(table.dtype_id[row]) in words:
            return Entering(shape, is_words=True)
        first = first or shape
    return Entering(first)


class Slicing(NamedTuple):
    """How much of each sequence a rank has, or of a batch, and the other sizes of what enters."""

    length: int
    rest: tuple[int, ...] = ()


def slicing(given: Entering, whole: Sequence[int], parts: int) -> Slicing | None:
    """What a rank has, by the sizes of what enters it.

    Where the other side has ``whole`` sequences, what is as many times as long there as there are
    ``parts`` tells; else texts stand in rows, as they do most often.
    """
    own = given.shape
    if len(own) == len(whole):
        cut = [place for place, size in enumerate(own) if size * parts == whole[place]]
        rest = [size for place, size in enumerate(own) if size == whole[place]]
        if len(cut) == 1 and len(cut) + len(rest) == len(own):
            return Slicing(own[cut[0]], tuple(rest))
    return Slicing(own[-1], own[:-1]) if given.is_words else None


def sequence_orders(parts: int) -> tuple[Order, ...]:
    """In which orders the parts of a sequence may make up the whole.

    One after the other; or each rank has one from the front and one from the back, so that all
    have equally much to attend to.
    """
    front = [(part, 0) for part in range(parts)]
    back = [(part, 1) for part in reversed(range(parts))]
    return PLAIN, Order((1, 1), (*front, *back))


def classify_tokens(
    tree: Tree,
    tables: Sequence[ParameterTable],
    texts: Texts,
    group: Sequence[int],
    own: Slicing | None,
    *,
    of_experts: bool = False,
) -> list[State]:
    """The state of every row; ``own`` tells how much of each sequence a rank has.

    Experts get any number of tokens from each rank, which stand in dimension 0.
    """
    known = _Tokens(tree, tables, texts, group)
    known.of_experts = of_experts
    if own is not None:
        known.length, known.rest = own
    enter, leave = partial(_enter, of_experts=of_experts), partial(_leave, of_experts=of_experts)
    return follow(known, enter, leave)


_EXCHANGED = fact("reason.exchanged")

_SINGLE = fact("reason.single_number")
_EXCHANGED_BACK = fact("reason.exchanged_back")


class _Tokens(Knowledge):
    length: int | None = None
    rest: tuple[int, ...] = ()
    of_experts = False
    _has_exchanged = False

    def look_up(self, row: int) -> State | None:
        """Tensors without statistics all look alike; a transposed one looks like a view."""
        state = None if self.ranks.is_missing(row) else super().look_up(row)
        if state is None or state.share is not Share.SHARD:
            return state
        shape = self.ranks.shape(row)
        is_same = tuple(shape) in self.found(row)
        return state if is_same else State(Share.SHARD, self._sequence_cut(shape) or state.cut)

    def by_numbers(self, row: int) -> State:
        """Ranks with other tokens that differ in a tensor have shards of it."""
        uneven = self.ranks.uneven_dimension(row)
        if uneven is not None:
            return State(Share.SHARD, Cut(uneven))
        if self._counts_own_tokens(row):
            return UNKNOWN.because(OWN_COUNT)
        if self.ranks.agree[row] and not self.ranks.is_missing(row):
            return REPLICA.because(fact("reason.other_tokens_agree"))
        if self.ranks.is_missing_somewhere(row):
            return UNKNOWN.because(fact("reason.not_recorded"))
        shape = self.ranks.shape(row)
        if self.of_experts and self.ranks.is_whole_number(row):
            return UNKNOWN  # numbers of tokens, of which each rank has its part
        cut = self.forward_cut(row) or self._sequence_cut(shape) or self._exchanged_cut(shape)
        if cut is None and len(shape) > 1 and not self.ranks.is_whole_number(row):
            cut = alike(shape, self.recent)
        if cut is None:
            return UNKNOWN
        return State(Share.SHARD, cut).because(fact("reason.other_tokens_differ"))

    def _counts_own_tokens(self, row: int) -> bool:
        """Whether a tensor is 0, 1, 2 … as far as a rank has tokens, such as rows of its logits."""
        shape = self.ranks.shape(row)
        if self.length is None or len(shape) != 1 or not self.ranks.is_whole_number(row):
            return False
        # The group may hold tensor-parallel ranks, which share one part.
        all_lengths = self.length * len(self.group), self.length * self.ranks.count
        is_of_all = shape[0] in (*all_lengths, *self.rest)
        return shape[0] % self.length == 0 and not is_of_all and self.ranks.is_counting(row)

    def _sequence_cut(self, shape: list[int]) -> Cut | None:
        if self.of_experts:
            return Cut(0) if shape else None
        if self.length is None or self.length * self.ranks.count in shape[:-1]:
            return None  # what has the whole length is no part, or one of something else
        places = [place for place, size in enumerate(shape) if size == self.length]
        if len(places) > 1 and len(shape) > 2:
            places = [place for place in places if place < len(shape) - 1]
        for cut, other in reversed(self.recent):  # the same again, its last sizes split or joined
            place = cut.dimension
            if len(places) > 1 and place in places and other[: place + 1] == shape[: place + 1]:
                return Cut(place)
        return Cut(places[0]) if len(places) == 1 else None

    def _exchanged_cut(self, shape: list[int]) -> Cut | None:
        """Where what has the whole length is cut after ranks exchanged heads for positions.

        A shard [length, …, heads] became one of [ranks · length, …, heads / ranks].
        """
        ranks = self.ranks.count
        for cut, other in reversed(self.recent):
            place = cut.dimension
            if len(other) != len(shape) or other[place] * ranks != shape[place]:
                continue
            differ = [at for at in range(len(shape)) if other[at] != shape[at] and at != place]
            if len(differ) == 1 and other[differ[0]] == shape[differ[0]] * ranks:
                return Cut(differ[0])
        return None

    def put(self, row: int, state: State, *, is_certain: bool = False) -> None:
        """A shape with the length of a part in it tells more than a flow that was lost."""
        shape = self.ranks.shape(row)
        if not shape and state.share is Share.SHARD and not self.ranks.is_missing(row):
            state = (REPLICA if self.ranks.agree[row] else LOCAL).because(_SINGLE)
        if state.cut is not None and self.length is not None and not self.of_experts:
            exchanged = self._exchanged_cut(shape)
            if exchanged and shape[state.cut.dimension] == self.length * self.ranks.count:
                self._has_exchanged = True
                state = State(Share.SHARD, exchanged, reason=_EXCHANGED)
                is_certain = True
            back = self._sequence_cut(shape) if self._has_exchanged else None
            if back and state.cut and shape[state.cut.dimension] != self.length:
                state = State(Share.SHARD, back, reason=_EXCHANGED_BACK)
                is_certain = True
        if state.share in (Share.LOCAL, Share.UNKNOWN) and self.ranks.shape(row):
            found = self.by_numbers(row)
            if found.share is Share.SHARD:
                state = found
        is_weight = self.ranks.section(row) is Section.PARAMETERS
        if state.share is Share.REPLICA and not is_weight and not self.ranks.agree[row]:
            state = self.by_numbers(row)  # such as counts by masks that look alike
        has_shape_of_weight = tuple(self.ranks.shape(row)) in self.parameter_cuts
        if state == State(Share.SHARD) and has_shape_of_weight and self.is_in_backward(row):
            state = State(Share.PARTIAL)  # tokens were summed over: the gradient of a weight
        super().put(row, state, is_certain=is_certain)


def _enter(known: Knowledge, node: int, *, of_experts: bool) -> None:
    for row in known.ranks.tensors(node, Section.PARAMETERS):
        known.put(row, REPLICA.because(fact("reason.other_tokens_weights")))
    for row in known.ranks.tensors(node, Section.PARAMETERS_GRAD):
        known.put(row, _gradient(known, row))
    _pass_boundary(known, node, Section.INPUT, of_experts)


def _leave(known: Knowledge, node: int, *, of_experts: bool) -> None:
    _pass_boundary(known, node, Section.OUTPUT, of_experts)


def _gradient(known: Knowledge, row: int) -> State:
    """Whole where all ranks agree: then it was reduced before it was recorded."""
    if known.ranks.agree[row]:
        return REPLICA.because(fact("reason.reduced_before"))
    return State(Share.PARTIAL, None, known.reduced.get(known.ranks.keys[row], -1))


def _pass_boundary(known: Knowledge, node: int, section: Section, of_experts: bool) -> None:
    for row in known.ranks.tensors(node, section):
        state = known.look_up(row)
        if state is None or state.share in (Share.LOCAL, Share.UNKNOWN):
            state = known.by_numbers(row)
        state = known.beside(node, row, section) or state
        is_activation = known.ranks.shape(row) and not known.ranks.is_whole_number(row)
        if of_experts and is_activation and state.share is Share.REPLICA:
            state = State(Share.SHARD, Cut(0))  # equal tokens, of each rank its own
        if state.share is Share.UNKNOWN and is_activation and not known.ranks.is_missing(row):
            state = State(Share.SHARD)
        known.put(row, state)

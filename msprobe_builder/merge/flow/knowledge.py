"""What is known of the tensors of a stage while the flow of data is followed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.dimensions import Cut, alike, reshaped, split_like
from msprobe_builder.merge.flow.landmarks import (
    added_before,
    batch_first,
    parameter_cuts,
    rearranged,
    reductions,
)
from msprobe_builder.merge.flow.share import LOCAL, REPLICA, UNKNOWN, Share, State
from msprobe_builder.merge.flow.wholes import Layers, Wholes
from msprobe_builder.merge.ranks.placements import cut_dimension, is_whole, placements
from msprobe_builder.merge.ranks.rank_tables import RankTables

OF_REPLICAS = fact("reason.of_replicas_each")
_REMEMBERED = 64  # shards looked back at for one of the same shape


class Knowledge:
    """States of the rows found so far, and tensors recognised by their statistics on all ranks."""

    def __init__(
        self,
        tree: Tree,
        tables: Sequence[ParameterTable],
        texts: Texts,
        group: Sequence[int],
        wholes: Wholes | None = None,
    ) -> None:
        self.tree = tree
        self.ranks = RankTables(tree, tables, texts)
        self.layers = Layers(tree, self.ranks, wholes or {})
        self.group = sorted(group)
        self.state = [UNKNOWN] * len(self.ranks)
        self.seen: dict[bytes, dict[tuple[int, ...], State]] = {}  # by shape, the latest last
        self._foreseen: dict[bytes, dict[tuple[int, ...], State]] = {}
        self.recent: deque[tuple[Cut, list[int]]] = deque(maxlen=_REMEMBERED)
        self.uninitialised: set[int] = set()
        self.made_uninitialised: set[bytes] = set()
        self.whole_weights = {
            self.ranks.keys[row]
            for node, name in enumerate(tree.parsed)
            if name.kind is Kind.MODULE
            for row in self.ranks.tensors(node, Section.PARAMETERS)
            if self.ranks.agree[row]
            and self.layers.parameter(name, row, self.ranks.name(row)) == REPLICA
        }
        self.before: dict[int, int] = {}  # the module left last, by what holds it
        self.placed = _placed(tables[0], texts)
        self.number = {name: node for node, name in enumerate(tree.parsed)}
        self.parameter_cuts = parameter_cuts(tree, self.ranks, self.layers)
        self.reduced = reductions(tree, self.ranks, self.group)
        is_placed = any(state.share is Share.PARTIAL for state in self.placed.values())
        moved = rearranged(tree, self.ranks, self.group, self.reduced, is_any=is_placed)
        self.reduced |= moved.results
        self.scattered = moved.cuts  # by row of what a reduction puts out
        self.added_before = added_before(tree, self.ranks, self.reduced)
        self.sums_of_experts: set[bytes] = set()  # that are reduced later
        self.batch_first = batch_first(tree, self.ranks)

    def is_open(self, row: int) -> bool:
        """Whether more may be said of a row: a shard cut somewhere, or nothing known at all."""
        state = self.state[row]
        if state.share is Share.SHARD:
            return state.cut is None
        return state.share is Share.UNKNOWN and not self.ranks.is_whole_number(row)

    def start_again(self) -> None:
        """Before the calls are followed again: what later calls told is known from now on."""
        self._foreseen, self.seen = self.seen, {}

    def note_uninitialised(self, row: int) -> None:
        """Memory may still hold what a tensor left there: its numbers are then no sign of it."""
        self.uninitialised.add(row)
        key = self.ranks.keys[row]
        if key not in self.seen or self.ranks.is_even[row]:
            self.made_uninitialised.add(key)

    def found(self, row: int) -> dict[tuple[int, ...], State]:
        """The states of a tensor by the shapes it was seen in.

        All zeros look alike: gradients before the first one is added, moments of a new optimizer.
        """
        key = self.ranks.keys[row]
        found = self.seen.get(key) or self._foreseen.get(key) or {}
        shape = tuple(self.ranks.shape(row))
        if not self.ranks.is_even[row] or shape not in self.parameter_cuts:
            return found
        is_told = shape in found and not self._is_of_several(row)
        return {shape: found[shape]} if is_told else {}

    def look_up(self, row: int) -> State | None:
        """The state of a tensor seen before, in the shape it has here."""
        key = self.ranks.keys[row]
        result = self.reduced.get(key)
        if result is not None:
            reason = fact("reason.reduced")
            return State(Share.PARTIAL, None, result, reason)
        if key in self.sums_of_experts:
            return State(Share.PARTIAL)
        if key in self.added_before:
            return State(Share.PARTIAL, reason=fact("reason.added_before"))
        found = self.found(row)
        if not found:
            return None
        own = self.ranks.shape(row)
        if tuple(own) in found:
            return found[tuple(own)]
        shape, state = next(reversed(found.items()))
        if state.cut is None:
            return state
        joins_batch = self.ranks.keys[row] in self.batch_first
        # A view of it.
        cut = reshaped(state.cut, [*shape], own, joins_batch=joins_batch)
        return State(state.share, cut, reason=state.reason)

    def put(self, row: int, state: State, *, is_certain: bool = False) -> None:
        """Note the state of a row, with the cut that other tensors suggest."""
        shape = self.ranks.shape(row)
        told = self.placed.get(row)
        if told is not None:
            reduced = self.reduced.get(self.ranks.keys[row], -1)
            state = replace(told, reduced=reduced) if told.share is Share.PARTIAL else told
            if self._is_part_of_replicas(row, told):
                state = UNKNOWN.because(OF_REPLICAS)
            is_certain = True
        if state.share is Share.SHARD:
            twin = None if is_certain else self.forward_cut(row)
            cut = twin or state.cut
            reason = state.reason
            if cut is None and not self.is_between_modules(row):
                cut = self._alike(shape)
                reason = reason or fact("reason.cut_like_others")
            state = State(Share.SHARD, self._from_front(cut, shape), reason=reason)
            if state.cut is not None:
                self.recent.append((state.cut, shape))
        self.state[row] = state
        found = self.seen.setdefault(self.ranks.keys[row], {})
        is_told = state.share is not Share.UNKNOWN and state != State(Share.SHARD)
        is_news = is_told or not (found or self.ranks.keys[row] in self._foreseen)
        if is_news and not (state.share is Share.PARTIAL and self._is_forward(row)):
            found.pop(tuple(shape), None)
            found[tuple(shape)] = state

    def _is_part_of_replicas(self, row: int, told: State) -> bool:
        """Whether a gradient that is cut is so over the replicas: these ranks hold one part."""
        is_gradient = self.ranks.section(row) is Section.PARAMETERS_GRAD
        is_same = self.ranks.agree[row] and not self.ranks.is_even[row]
        return bool(told.share is Share.SHARD and is_gradient and is_same)

    def _is_forward(self, row: int) -> bool:
        return self.tree.parsed[self.ranks.node(row)].direction is Direction.FORWARD

    def is_in_backward(self, row: int) -> bool:
        """Whether a call runs backward, forward in the backward pass of a module, or behind it."""
        call = node = self.ranks.node(row)
        while node > 0 and self.tree.parsed[node].kind is Kind.API:
            if self.tree.parsed[node].direction is Direction.BACKWARD:
                return True
            node = int(self.tree.parent[node])
        direction = self.tree.parsed[node].direction
        if direction is Direction.NONE:  # between modules, such as a loss
            return call > self._first_backward.get(int(self.tree.micro_step[call]), call)
        return direction is not Direction.FORWARD

    @cached_property
    def _first_backward(self) -> dict[int, int]:
        """The first node of each micro-step that runs backward."""
        found: dict[int, int] = {}
        for node, name in enumerate(self.tree.parsed):
            if name.direction is Direction.BACKWARD:
                found.setdefault(int(self.tree.micro_step[node]), node)
        return found

    def correct(self, row: int, cut: Cut) -> None:
        """What a call tells of one of its inputs; of a square matrix its transpose looks alike."""
        if self.state[row] != State(Share.SHARD, cut):
            self.put(row, State(Share.SHARD, cut), is_certain=True)

    def forward_cut(self, row: int) -> Cut | None:
        """A gradient is cut like the tensor it is of; that one has its shape."""
        name = self.tree.parsed[self.ranks.node(row)]
        if name.direction is not Direction.BACKWARD:
            return None
        twin = self.number.get(name._replace(direction=Direction.FORWARD))
        if twin is None:
            return None
        is_entering = self.ranks.section(row) is Section.INPUT
        for own in self.ranks.tensors(twin, Section.OUTPUT if is_entering else Section.INPUT):
            if self.ranks.shape(own) == self.ranks.shape(row):
                cut = self.state[own].cut
                if cut is not None:
                    return cut
        return None

    @staticmethod
    def _from_front(cut: Cut | None, shape: list[int]) -> Cut | None:
        if cut is None or not -len(shape) <= cut.dimension < len(shape):
            return None
        return cut._replace(dimension=cut.dimension % len(shape))

    def by_numbers(self, row: int) -> State:
        """Last resort for what no recorded call made: views and indexing leave no record.

        Equal on all ranks it is shared data; otherwise it is a shard if it looks like a recent one.
        """
        shape = self.ranks.shape(row)
        cuts = self.parameter_cuts.get(tuple(shape))
        is_zero = self.ranks.is_even[row] and not self.ranks.is_one(row)
        if cuts and is_zero and self._is_of_several(row):
            return UNKNOWN if None in cuts else State(Share.SHARD)
        if self.ranks.agree[row]:
            return REPLICA.because(fact("reason.no_call_agree"))
        if self.ranks.is_missing_somewhere(row):
            return UNKNOWN.because(fact("reason.not_recorded"))
        if cuts and None not in cuts and self.is_between_modules(row):
            return State(Share.SHARD, next(iter(cuts)) if len(cuts) == 1 else None)
        cut = self.forward_cut(row)
        if cut is None and not self._is_masked(row):
            cut = self._alike(shape)
        if cut is None or self.ranks.is_whole_number(row):
            return UNKNOWN.because(fact("reason.no_call_differ"))
        return State(Share.SHARD, cut).because(fact("reason.differ_like_shards"))

    def _alike(self, shape: list[int]) -> Cut | None:
        """The cut of a recent shard of like shape, unless weights of it are cut in two ways.

        Such as an embedding cut by rows and a square layer cut by columns.
        """
        cuts = self.parameter_cuts.get(tuple(shape), set()) - {None}
        return None if len(cuts) > 1 else alike(shape, self.recent)

    def _is_of_several(self, row: int) -> bool:
        """Whether weights of the shape of a row are cut in several ways, or some are not cut."""
        return len(self.parameter_cuts.get(tuple(self.ranks.shape(row)), ())) > 1

    def beside(self, node: int, row: int, section: Section) -> State | None:
        """Truth values and counts look alike on ranks with other tokens; what stands beside tells.

        A shard of the same shape that leaves or enters the same module.
        """
        if not (self.ranks.agree[row] and self.ranks.is_whole_number(row)):
            return None
        for other in self.ranks.tensors(node, section):
            is_alike = other != row and self.ranks.shape(other) == self.ranks.shape(row)
            if is_alike and self.state[other].share is Share.SHARD:
                return self.state[other]
        return None

    def is_between_modules(self, row: int) -> bool:
        """Whether a row belongs to no module: there gradients and parameters are worked on."""
        above = int(self.tree.parent[self.ranks.node(row)])
        if above <= 0 or self.tree.parsed[above].kind is Kind.COLLECTION:
            return True
        return self.tree.parsed[above].direction is Direction.NONE  # such as the optimizer

    def _is_masked(self, row: int) -> bool:
        """Whether each rank looks up its own words only, in an embedding cut by vocabulary."""
        above = int(self.tree.parent[self.ranks.node(row)])
        return above > 0 and "VocabParallel" in self.layers.class_of(self.tree.parsed[above])

    def total_of_words(self, row: int) -> int | None:
        """The row of what the ranks together look up, of a look-up in an embedding cut by words."""
        node = self.ranks.node(row)
        above = int(self.tree.parent[node])
        name = self.tree.parsed[node]
        if name.direction is not Direction.FORWARD or not self._is_masked(row):
            return None
        below = range(node + 1, int(self.tree.subtree_end[above]) + 1)
        results = {
            result
            for call in below
            for own in self.ranks.tensors(call, Section.INPUT)
            if (result := self.reduced.get(self.ranks.keys[own])) is not None
            and self.ranks.shape(own) == self.ranks.shape(row)
        }
        return results.pop() if len(results) == 1 else None

    def by_surroundings(self, node: int, row: int) -> State:
        """What enters or leaves a module unrecorded is a shard if the module works on shards."""
        state = self.by_numbers(row)
        if state.share is not Share.UNKNOWN or self.ranks.is_whole_number(row):
            return state
        parent = int(self.tree.parent[node])
        around = self.ranks.tensors(node, Section.INPUT)
        if parent in self.before:  # nearest first
            around += self.ranks.tensors(self.before[parent], Section.OUTPUT)
            around += self.ranks.tensors(self.before[parent], Section.INPUT)
        around += self.ranks.tensors(parent, Section.INPUT)
        shards = [own for own in around if self.state[own].share is Share.SHARD]
        if not shards:
            return state
        shape = self.ranks.shape(row)
        cuts = [split_like(self.state[own].cut, self.ranks.shape(own), shape) for own in shards]
        found = State(Share.SHARD, next((cut for cut in cuts if cut is not None), None))
        return found.because(fact("reason.module_of_shards"))

    def looked_back(self, row: int) -> State:
        """The state of a row with what later calls told of the same tensor."""
        state = self.state[row]
        if state.share is Share.UNKNOWN and not self.ranks.shape(row):
            return LOCAL.because(fact("reason.single_number"))
        if not self.is_open(row):
            return state
        found = self.look_up(row) if row not in self.uninitialised else None
        if found is None or found.share is not Share.SHARD:
            return state
        cut = self._from_front(found.cut, self.ranks.shape(row))
        return State(Share.SHARD, cut, reason=found.reason)


def _placed(table: ParameterTable, texts: Texts) -> dict[int, State]:
    """What distributed tensors say of themselves, by row."""
    found = {}
    for row, text in placements(table, texts).items():
        cut = cut_dimension(text)
        if cut is not None:
            state = State(Share.SHARD, Cut(cut))
        elif "P" in text:
            state = State(Share.PARTIAL)
        else:
            state = REPLICA if is_whole(text) else UNKNOWN
        found[row] = state.because(fact("reason.placed", placed=text))
    return found

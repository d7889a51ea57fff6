"""What each tensor of a tensor-parallel rank is: a replica, a shard, or a partial sum.

The answer comes from the module's class and from the flow of data, never from whether the
numbers of the ranks happen to differ. A tensor is recognised from producer to consumer by its
statistics on all ranks. What a reduction over the group takes in is a partial result, and its
output is that result made whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod

from msprobe_builder.dump.names import UNINITIALISED, Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.dimensions import (
    Cut,
    alike,
    factor_cuts,
    output_cut,
    removes_cut,
    reshaped,
    split_like,
)
from msprobe_builder.merge.landmarks import is_over_group, parameter_cuts, reductions
from msprobe_builder.merge.operators import (
    GATHERS,
    JOINS,
    PRODUCTS,
    REDUCTIONS,
    SHRINKING,
    operator_of,
)
from msprobe_builder.merge.parallel_layers import boundary_state, module_class, parameter_state
from msprobe_builder.merge.rank_tables import RankTables
from msprobe_builder.merge.share import LOCAL, REPLICA, UNKNOWN, Share, State
from msprobe_builder.texts import Texts

_REMEMBERED = 64  # shards looked back at for one of the same shape


def classify(
    tree: Tree, tables: Sequence[ParameterTable], texts: Texts, group: Sequence[int]
) -> list[State]:
    """The state of every row; the tables of all ranks have equal rows in equal order."""
    return _Flow(tree, tables, texts, group).states()


class _Flow:
    def __init__(
        self,
        tree: Tree,
        tables: Sequence[ParameterTable],
        texts: Texts,
        group: Sequence[int],
    ) -> None:
        self._tree = tree
        self._ranks = RankTables(tree, tables, texts)
        self._group = sorted(group)
        self._state = [UNKNOWN] * len(self._ranks)
        self._known: dict[bytes, tuple[State, list[int]]] = {}
        self._recent: deque[tuple[Cut, list[int]]] = deque(maxlen=_REMEMBERED)
        self._uninitialised: set[int] = set()
        self._made_uninitialised: set[bytes] = set()
        self._before: dict[int, int] = {}  # the module left last, by what holds it
        self._number = {name: node for node, name in enumerate(tree.parsed)}
        self._parameter_cuts = parameter_cuts(tree, self._ranks)
        self._reduced = reductions(tree, self._ranks, self._group)

    def states(self) -> list[State]:
        self._walk()
        if any(self._is_open(row) for row in range(len(self._state))):
            self._walk()  # now with what later calls told of tensors made before
        return [self._looked_back(row) for row in range(len(self._state))]

    def _walk(self) -> None:
        open_modules: list[int] = []
        for node in range(len(self._tree)):
            while open_modules and self._tree.subtree_end[open_modules[-1]] < node:
                self._leave(open_modules.pop())
            if self._tree.parsed[node].kind is Kind.API:
                self._call(node)
            else:
                self._enter(node)
                open_modules.append(node)
        while open_modules:
            self._leave(open_modules.pop())

    def _is_open(self, row: int) -> bool:
        """Whether more may be said of a row: a shard cut somewhere, or nothing known at all."""
        state = self._state[row]
        if state.share is Share.SHARD:
            return state.cut is None
        return state.share is Share.UNKNOWN and not self._ranks.is_whole_number(row)

    def _looked_back(self, row: int) -> State:
        """The state of a row with what later calls told of the same tensor."""
        state = self._state[row]
        if state.share is Share.UNKNOWN and not self._ranks.shape(row):
            return LOCAL  # a scalar is no part of anything
        if not self._is_open(row):
            return state
        found = self._look_up(row) if row not in self._uninitialised else None
        if found is None or found.share is not Share.SHARD:
            return state
        return State(Share.SHARD, self._from_front(found.cut, self._ranks.shape(row)))

    def _look_up(self, row: int) -> State | None:
        key = self._ranks.keys[row]
        result = self._reduced.get(key)
        if result is not None:
            return State(Share.PARTIAL, None, result)
        found = self._known.get(key)
        if found is None:
            return None
        state, shape = found
        own = self._ranks.shape(row)
        if state.cut is None or shape == own:
            return state
        return State(state.share, reshaped(state.cut, shape, own))  # a view of it

    def _set(self, row: int, state: State, *, is_certain: bool = False) -> None:
        shape = self._ranks.shape(row)
        if state.share is Share.SHARD:
            twin = None if is_certain else self._forward_cut(row)
            cut = twin or state.cut
            if cut is None and not self._is_between_modules(row):
                cut = alike(shape, self._recent)
            state = State(Share.SHARD, self._from_front(cut, shape))
            if state.cut is not None:
                self._recent.append((state.cut, shape))
        self._state[row] = state
        known = self._known.get(self._ranks.keys[row])
        is_news = state.share is not Share.UNKNOWN or known is None
        if state.share is not Share.PARTIAL and is_news:
            self._known[self._ranks.keys[row]] = state, shape

    def _correct(self, row: int, cut: Cut) -> None:
        """What a call tells of one of its inputs; of a square matrix its transpose looks alike."""
        if self._state[row] != State(Share.SHARD, cut):
            self._set(row, State(Share.SHARD, cut), is_certain=True)

    def _forward_cut(self, row: int) -> Cut | None:
        """A gradient is cut like the tensor it is of; that one has its shape."""
        name = self._tree.parsed[self._ranks.node(row)]
        if name.direction is not Direction.BACKWARD:
            return None
        twin = self._number.get(name._replace(direction=Direction.FORWARD))
        if twin is None:
            return None
        is_entering = self._ranks.section(row) is Section.INPUT
        for own in self._ranks.tensors(twin, Section.OUTPUT if is_entering else Section.INPUT):
            if self._ranks.shape(own) == self._ranks.shape(row):
                cut = self._state[own].cut
                if cut is not None:
                    return cut
        return None

    @staticmethod
    def _from_front(cut: Cut | None, shape: list[int]) -> Cut | None:
        if cut is None or not -len(shape) <= cut.dimension < len(shape):
            return None
        return cut._replace(dimension=cut.dimension % len(shape))

    def _by_numbers(self, row: int) -> State:
        """Last resort for what no recorded call made: views and indexing leave no record.

        Equal on all ranks it is shared data; otherwise it is a shard if it looks like a recent one.
        """
        if self._ranks.agree[row]:
            return REPLICA
        shape = self._ranks.shape(row)
        cuts = self._parameter_cuts.get(tuple(shape))
        if cuts and None not in cuts and self._is_between_modules(row):
            return State(Share.SHARD, next(iter(cuts)) if len(cuts) == 1 else None)
        cut = self._forward_cut(row) or alike(shape, self._recent)
        return (
            UNKNOWN if cut is None or self._ranks.is_whole_number(row) else State(Share.SHARD, cut)
        )

    def _is_between_modules(self, row: int) -> bool:
        """Whether a row belongs to no module: there gradients and parameters are worked on."""
        above = int(self._tree.parent[self._ranks.node(row)])
        return above <= 0 or self._tree.parsed[above].kind is Kind.COLLECTION

    def _by_surroundings(self, node: int, row: int) -> State:
        """What enters or leaves a module unrecorded is a shard if the module works on shards."""
        state = self._by_numbers(row)
        if state.share is not Share.UNKNOWN or self._ranks.is_whole_number(row):
            return state
        parent = int(self._tree.parent[node])
        around = self._ranks.tensors(node, Section.INPUT)
        if parent in self._before:  # nearest first
            around += self._ranks.tensors(self._before[parent], Section.OUTPUT, Section.INPUT)
        around += self._ranks.tensors(parent, Section.INPUT)
        shards = [own for own in around if self._state[own].share is Share.SHARD]
        if not shards:
            return state
        shape = self._ranks.shape(row)
        cuts = [split_like(self._state[own].cut, self._ranks.shape(own), shape) for own in shards]
        return State(Share.SHARD, next((cut for cut in cuts if cut is not None), None))

    def _enter(self, node: int) -> None:
        name = self._tree.parsed[node]
        class_name = module_class(name)
        for row in self._ranks.tensors(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
            parameter = self._ranks.name(row)
            state = parameter_state(class_name, parameter)
            if state is REPLICA and self._is_partial_gradient(node, row):
                state = State(Share.PARTIAL)
            self._set(row, state)
        self._pass_boundary(node, Section.INPUT)

    def _is_partial_gradient(self, node: int, row: int) -> bool:
        """Whether each rank has but its share of a replicated parameter's gradient.

        So it is when the module works on slices of a sequence or on some of the heads.
        """
        if not self._tree.parsed[node].stem.endswith(".parameters_grad") or self._ranks.agree[row]:
            return False
        around = self._ranks.tensors(int(self._tree.parent[node]), Section.INPUT)
        return any(self._state[own].share is Share.SHARD for own in around)

    def _leave(self, node: int) -> None:
        self._pass_boundary(node, Section.OUTPUT)
        self._before[int(self._tree.parent[node])] = node

    def _pass_boundary(self, node: int, section: Section) -> None:
        """What the flow of data says goes before what the class says: layers can gather."""
        name = self._tree.parsed[node]
        for row in self._ranks.tensors(node, section):
            rule = boundary_state(module_class(name), name.direction, section)
            if rule is REPLICA and self._is_part_of_sequence(node, row, section):
                self._set(row, State(Share.SHARD, Cut(0)), is_certain=True)
                continue
            seen = self._look_up(row)
            cut = None if self._ranks.agree[row] else self._forward_cut(row)
            if rule is REPLICA and seen is None and cut is not None:
                state = State(Share.SHARD, cut)  # such as a slice of a sequence
            elif rule is None:
                state = seen or self._by_surroundings(node, row)
            elif seen is None or seen.share in (rule.share, Share.PARTIAL, Share.UNKNOWN):
                state = rule
            else:
                state = seen
            self._set(row, state)

    def _is_part_of_sequence(self, node: int, row: int, section: Section) -> bool:
        """Whether what enters or leaves a layer has fewer rows than its other side, by the ranks.

        With sequence parallelism a layer gathers or scatters the rows itself.
        """
        opposite = Section.OUTPUT if section is Section.INPUT else Section.INPUT
        for other in self._ranks.tensors(node, opposite)[:1]:
            shape = self._ranks.shape(other)
            if not self._ranks.is_whole_number(other):  # of words every element is a row
                shape = shape[:-1]
            return prod(self._ranks.shape(row)[:-1]) * len(self._group) == prod(shape)
        return False

    def _call(self, node: int) -> None:
        name = self._tree.parsed[node]
        operator = operator_of(name)
        inputs = self._ranks.tensors(
            node, Section.INPUT, Section.PARAMETERS, Section.PARAMETERS_GRAD
        )
        outputs = self._ranks.tensors(node, Section.OUTPUT)
        for row in inputs:
            key = self._ranks.keys[row]
            if key in self._made_uninitialised:
                self._uninitialised.add(row)
            self._set(row, self._look_up(row) or self._by_numbers(row))
        if name.stem.startswith("Distributed.") and is_over_group(self._ranks, node, self._group):
            self._collective(operator, inputs, outputs)
            return
        self._correct_inputs(operator, inputs, outputs)
        inputs = [row for row in inputs if row not in self._uninitialised]
        shares = {self._state[row].share for row in inputs}
        for row in outputs:
            self._set(row, self._output(node, operator, inputs, row, shares))

    def _correct_inputs(self, operator: str, inputs: list[int], outputs: list[int]) -> None:
        """Conclude from the inputs that are known how the others must be cut."""
        shards = [row for row in inputs if self._state[row].share is Share.SHARD]
        if not shards and operator not in PRODUCTS:
            self._conclude_from_output(inputs, outputs)
        if not shards:
            return
        if operator in PRODUCTS:
            factors = [row for row in inputs if len(self._ranks.shape(row)) > 1]
            if len(factors) == 2:
                cuts = [self._state[row].cut if row in shards else None for row in factors]
                known = factor_cuts(
                    cuts,
                    [row in shards for row in factors],
                    [len(self._ranks.shape(r)) for r in factors],
                )
                for row, cut in zip(factors, known, strict=True):
                    if cut is not None:
                        self._correct(row, cut)
            return
        shape = self._ranks.shape(outputs[0]) if outputs else []
        for row in inputs:
            if row in shards:
                continue
            own = self._ranks.shape(row)
            for other in shards:
                cut = self._state[other].cut
                if cut is None or cut.dimension >= len(own):
                    continue
                # Beside a shard of the same shape, or empty, in a call that works by element.
                alike_shape = own == self._ranks.shape(other) == shape and own[cut.dimension] > 1
                if alike_shape or (operator in JOINS and 0 in own):
                    self._correct(row, cut)
                    self._uninitialised.discard(row)
                    break

    def _conclude_from_output(self, inputs: list[int], outputs: list[int]) -> None:
        """What later calls told of an output holds for an unknown input of the same shape."""
        found = self._look_up(outputs[0]) if outputs else None
        if found is None or found.share is not Share.SHARD or found.cut is None:
            return
        for row in inputs:
            is_alike = self._ranks.shape(row) == self._ranks.shape(outputs[0])
            if is_alike and self._state[row].share is Share.UNKNOWN:
                self._correct(row, found.cut)

    def _collective(self, operator: str, inputs: list[int], outputs: list[int]) -> None:
        place = REDUCTIONS.get(operator, (0, 0))[1]
        for position, row in enumerate(outputs):
            if position != place:  # an argument, shown once more
                self._set(row, self._look_up(row) or self._by_numbers(row))
            elif operator == "all_reduce" or operator in GATHERS:
                self._set(row, REPLICA)
            elif operator in REDUCTIONS:
                self._set(row, State(Share.SHARD, Cut(0)))
            else:
                self._set(row, self._by_numbers(row))
        if operator in GATHERS and len(inputs) > 1:
            self._correct(inputs[-1], Cut(0))

    def _output(
        self, node: int, operator: str, inputs: list[int], row: int, shares: set[Share]
    ) -> State:
        result = self._reduced.get(self._ranks.keys[row])
        if result is not None:
            return State(Share.PARTIAL, None, result)
        if operator in UNINITIALISED:
            self._uninitialised.add(row)
            self._made_uninitialised.add(self._ranks.keys[row])
            return UNKNOWN
        if self._is_gradient_of_shard(node, row):
            return State(Share.SHARD)
        if Share.UNKNOWN in shares:
            return UNKNOWN
        if shares <= {Share.REPLICA, Share.LOCAL} and (
            Share.LOCAL in shares or self._ranks.depends_on_rank(node)
        ):
            return LOCAL
        if Share.LOCAL in shares or self._ranks.depends_on_rank(node):
            return UNKNOWN
        if Share.PARTIAL in shares:
            return REPLICA if self._ranks.agree[row] and Share.SHARD not in shares else UNKNOWN
        if Share.SHARD not in shares:
            return REPLICA if inputs else self._by_numbers(row)
        shards = [own for own in inputs if self._state[own].share is Share.SHARD]
        shapes = [self._ranks.shape(own) for own in shards]
        if operator in PRODUCTS and len(shards) > 1 and any(len(one) == 2 for one in shapes):
            return State(Share.PARTIAL)
        shape = self._ranks.shape(row)
        if operator in SHRINKING and len(shape) < max(map(len, shapes)):
            own = self._state[shards[0]].cut
            return LOCAL if own and removes_cut(own, shapes[0], shape) else UNKNOWN
        cut = output_cut(
            operator,
            self._tree.parsed[node].direction,
            [(self._state[own].cut, one) for own, one in zip(shards, shapes, strict=True)],
            shape,
            self._ranks.numbers(node),
        )
        return State(Share.SHARD, cut)

    def _is_gradient_of_shard(self, node: int, row: int) -> bool:
        """Whether a backward call puts out the gradient of a shard its forward call took in."""
        name = self._tree.parsed[node]
        twin = self._number.get(name._replace(direction=Direction.FORWARD))
        if name.direction is not Direction.BACKWARD or twin is None:
            return False
        shape = self._ranks.shape(row)
        inputs = [
            own
            for own in self._ranks.tensors(twin, Section.INPUT)
            if self._ranks.shape(own) == shape and not self._ranks.is_whole_number(own)
        ]
        return bool(inputs) and all(self._state[own].share is Share.SHARD for own in inputs)

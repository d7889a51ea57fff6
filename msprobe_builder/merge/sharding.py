"""What each tensor of a tensor-parallel rank is: a replica, a shard, or a partial sum.

The answer comes from the module's class and from the flow of data, never from whether the
numbers of the ranks happen to differ. A tensor is recognised from producer to consumer by its
statistics on all ranks. What a reduction over the group takes in is a partial result, and its
output is that result made whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msprobe_builder.dump.names import UNINITIALISED, Direction, Kind, Name
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
from msprobe_builder.merge.parallel_layers import boundary_state, module_class, parameter_state
from msprobe_builder.merge.rank_tables import RankTables
from msprobe_builder.merge.share import LOCAL, REPLICA, UNKNOWN, Share, State
from msprobe_builder.texts import Texts

_REMEMBERED = 64  # shards looked back at for one of the same shape

_REDUCTIONS = {
    "all_reduce": (0, 0),  # position of what goes in, of what comes out
    "reduce_scatter_tensor": (1, 0),
    "_reduce_scatter_base": (1, 0),
}
_GATHERS = ("all_gather_into_tensor", "_all_gather_base", "all_gather")
_SHRINKING = frozenset(
    "amax amin any all argmax argmin logsumexp max mean min norm prod std sum var".split()
)
_PRODUCTS = frozenset({"matmul", "mm", "addmm", "linear", "__matmul__", "__rmatmul__"})
_JOINS = frozenset({"cat", "concat", "concatenate"})


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
        self._parameter_cuts = self._find_parameter_cuts()
        self._reduced = self._find_reductions()

    def states(self) -> list[State]:
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
        return [self._looked_back(row) for row in range(len(self._state))]

    def _looked_back(self, row: int) -> State:
        """The state of a row with what later calls told of the same tensor."""
        state = self._state[row]
        if state.share is Share.UNKNOWN and not self._ranks.shape(row):
            return LOCAL  # a scalar is no part of anything
        is_open = state.share is Share.UNKNOWN and not self._ranks.is_whole_number(row)
        if not is_open and (state.share is not Share.SHARD or state.cut is not None):
            return state
        found = self._look_up(row) if row not in self._uninitialised else None
        if found is None or found.share is not Share.SHARD:
            return state
        return State(Share.SHARD, self._from_front(found.cut, self._ranks.shape(row)))

    def _find_parameter_cuts(self) -> dict[tuple[int, ...], set[Cut | None]]:
        """How parameters are cut, by their shape on a rank; None where one is no shard."""
        found: dict[tuple[int, ...], set[Cut | None]] = {}
        for node, name in enumerate(self._tree.parsed):
            if name.kind is not Kind.MODULE:
                continue
            for row in self._ranks.tensors(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
                cut = parameter_state(module_class(name), self._ranks.name(row)).cut
                found.setdefault(tuple(self._ranks.shape(row)), set()).add(cut)
        return found

    def _find_reductions(self) -> dict[bytes, int]:
        """Fingerprint of what goes into a reduction over the group, and the row of its result."""
        found: dict[bytes, int] = {}
        for node, name in enumerate(self._tree.parsed):
            places = _REDUCTIONS.get(_operator(name))
            if places is None or not self._is_over_group(node):
                continue
            inputs = self._ranks.tensors(node, Section.INPUT)
            outputs = self._ranks.tensors(node, Section.OUTPUT)
            if len(inputs) > places[0] and len(outputs) > places[1]:
                result = outputs[places[1]]
                if self._ranks.shape(inputs[places[0]]) == self._ranks.shape(result):
                    found.setdefault(self._ranks.keys[inputs[places[0]]], result)
        return found

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
        if state.share is not Share.PARTIAL:
            self._known[self._ranks.keys[row]] = state, shape

    def _correct(self, row: int, cut: Cut) -> None:
        """What a call tells of one of its inputs; of a square matrix its transpose looks alike."""
        if self._state[row] != State(Share.SHARD, cut):
            self._set(row, State(Share.SHARD, cut), is_certain=True)

    def _forward_cut(self, row: int) -> Cut | None:
        """A gradient is cut like the tensor of its forward call that has its shape."""
        name = self._tree.parsed[self._ranks.node(row)]
        if name.direction is not Direction.BACKWARD:
            return None
        twin = self._number.get(name._replace(direction=Direction.FORWARD))
        if twin is None:
            return None
        for own in self._ranks.tensors(twin, *Section):
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

    def _is_over_group(self, node: int) -> bool:
        """Whether a collective runs over the tensor-parallel group; no group means all ranks."""
        return self._ranks.group(node) in (None, self._group)

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
            self._set(row, parameter_state(class_name, parameter))
        self._pass_boundary(node, Section.INPUT)

    def _leave(self, node: int) -> None:
        self._pass_boundary(node, Section.OUTPUT)
        self._before[int(self._tree.parent[node])] = node

    def _pass_boundary(self, node: int, section: Section) -> None:
        """What the flow of data says goes before what the class says: layers can gather."""
        name = self._tree.parsed[node]
        for row in self._ranks.tensors(node, section):
            rule = boundary_state(module_class(name), name.direction, section)
            seen = self._look_up(row)
            if rule is None:
                state = seen or self._by_surroundings(node, row)
            elif seen is None or seen.share in (rule.share, Share.PARTIAL, Share.UNKNOWN):
                state = rule
            else:
                state = seen
            self._set(row, state)

    def _call(self, node: int) -> None:
        name = self._tree.parsed[node]
        operator = _operator(name)
        inputs = self._ranks.tensors(
            node, Section.INPUT, Section.PARAMETERS, Section.PARAMETERS_GRAD
        )
        outputs = self._ranks.tensors(node, Section.OUTPUT)
        for row in inputs:
            key = self._ranks.keys[row]
            if key in self._made_uninitialised:
                self._uninitialised.add(row)
            self._set(row, self._look_up(row) or self._by_numbers(row))
        if name.stem.startswith("Distributed.") and self._is_over_group(node):
            self._collective(operator, outputs)
            return
        self._correct_inputs(operator, inputs, outputs)
        inputs = [row for row in inputs if row not in self._uninitialised]
        shares = {self._state[row].share for row in inputs}
        for row in outputs:
            self._set(row, self._output(node, operator, inputs, row, shares))

    def _correct_inputs(self, operator: str, inputs: list[int], outputs: list[int]) -> None:
        """Conclude from the inputs that are known how the others must be cut."""
        shards = [row for row in inputs if self._state[row].share is Share.SHARD]
        if not shards:
            return
        if operator in _PRODUCTS:
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
                if alike_shape or (operator in _JOINS and 0 in own):
                    self._correct(row, cut)
                    self._uninitialised.discard(row)
                    break

    def _collective(self, operator: str, outputs: list[int]) -> None:
        if operator in _REDUCTIONS:
            place = _REDUCTIONS[operator][1]
            for position, row in enumerate(outputs):
                whole = operator == "all_reduce" or position != place
                self._set(row, REPLICA if whole else State(Share.SHARD, Cut(0)))
            return
        for row in outputs:
            gathered = operator in _GATHERS and self._ranks.agree[row]
            self._set(row, REPLICA if gathered else self._by_numbers(row))

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
        if operator in _PRODUCTS and len(shards) > 1 and any(len(one) == 2 for one in shapes):
            return State(Share.PARTIAL)
        shape = self._ranks.shape(row)
        if operator in _SHRINKING and len(shape) < max(map(len, shapes)):
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


def _operator(name: Name) -> str:
    return name.stem.rpartition(".")[2] if name.kind is Kind.API else ""

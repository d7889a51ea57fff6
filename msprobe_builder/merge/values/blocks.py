"""Fused projections: shards that are made of several blocks.

A rank's part of a gated projection holds its share of the gate, then its share of the other
factor; the unsplit layer holds the whole gate first. Joining the parts one after the other would
mix the two. What the layer's surroundings do with its output tells: a call that splits it along
the cut dimension shows the blocks. Without such a call the sizes of the two linear layers of the
block tell which orders are possible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import gcd, prod

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.assembly import PLAIN, Order
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.operators import operator_of_call, splits
from msprobe_builder.merge.flow.parallel_layers import module_class, module_stem
from msprobe_builder.merge.flow.share import Share, State
from msprobe_builder.merge.ranks.rank_tables import RankTables

Orders = tuple[Order, ...]
_KNOWN: Orders = (PLAIN,)


def told_of_orders(orders: Orders) -> Fact | None:
    """What a recipe says of the order of elements, nothing of plain shards."""
    if orders in ((), _KNOWN):
        return None
    return fact("recipe.order", orders=list(map(_told_of_order, orders)))


def _told_of_order(order: Order) -> Fact:
    if order == PLAIN:
        return fact("recipe.one_after_the_other")
    pieces = " ".join(f"{part}.{block}" for part, block in order.pieces)
    places = fact("recipe.places", places=pieces) if pieces else None
    return fact("recipe.blocks", sizes=" : ".join(map(str, order.blocks)), places=places)


def find_blocks(
    tree: Tree, tables: Sequence[ParameterTable], states: Sequence[State], texts: Texts
) -> dict[int, Orders]:
    """The blocks of every row whose shards are not simply joined one after the other."""
    return _Search(tree, RankTables(tree, tables, texts), states).rows()


def _column_layers(tree: Tree) -> Iterator[int]:
    """Forward calls of column-parallel layers in order."""
    for node, name in enumerate(tree.parsed):
        if name.kind is Kind.MODULE and name.direction is Direction.FORWARD:
            kind = module_class(name)
            if "ColumnParallel" in kind or kind == "QKVParallelLinear":
                yield node


class _Search:
    def __init__(self, tree: Tree, ranks: RankTables, states: Sequence[State]) -> None:
        self._tree, self._ranks, self._states = tree, ranks, states
        self._layers = list(_column_layers(tree))

    def rows(self) -> dict[int, Orders]:
        found: dict[int, Orders] = {}
        by_key: dict[bytes, tuple[int, Orders]] = {}
        layers: dict[str, tuple[int, Orders]] = {}  # by stem: size on one rank
        for node in self._layers:
            stem = self._tree.parsed[node].stem
            shape = self._output_shape(node)
            if shape is None:
                continue
            orders = self._orders(node, shape)
            if stem not in layers or len(orders) < len(layers[stem][1]):
                layers[stem] = shape[-1], orders  # one call may show what another left open
        layers = {stem: one for stem, one in layers.items() if one[1] != _KNOWN}
        for row, (size, orders) in self._rows_of(layers):
            found[row] = orders
            by_key.setdefault(self._ranks.keys[row], (size, orders))
        weights = self._weights(found)
        for row in range(len(self._states)):
            known = by_key.get(self._ranks.keys[row])
            if row in found:
                continue
            if known is not None and self._is_cut(row, known[0]):
                found[row] = known[1]
            elif self._is_between_modules(row):
                of_weight = weights.get((tuple(self._ranks.shape(row)), self._states[row].cut))
                if of_weight is not None and self._states[row].share is Share.SHARD:
                    found[row] = of_weight
        return found

    def _weights(
        self, found: dict[int, Orders]
    ) -> dict[tuple[tuple[int, ...], Cut | None], Orders]:
        """The orders that weights of one shape and cut have, where one is made of blocks."""
        orders: dict[tuple[tuple[int, ...], Cut | None], dict[Order, None]] = {}
        for node in range(len(self._tree)):
            for row in self._ranks.tensors(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
                key = tuple(self._ranks.shape(row)), self._states[row].cut
                orders.setdefault(key, {}).update(dict.fromkeys(found.get(row, _KNOWN)))
        return {key: tuple(own) for key, own in orders.items() if tuple(own) != _KNOWN}

    def _is_between_modules(self, row: int) -> bool:
        """Whether a row belongs to a call outside all modules: there weights are worked on."""
        node = self._ranks.node(row)
        above = int(self._tree.parent[node])
        is_outside = above <= 0 or self._tree.parsed[above].kind is Kind.COLLECTION
        return is_outside and self._tree.parsed[node].kind is Kind.API

    def _output_shape(self, node: int) -> list[int] | None:
        """The shape of what the layer puts out in shards."""
        for row in self._ranks.tensors(node, Section.OUTPUT):
            shape = self._ranks.shape(row)
            if shape and self._states[row].share is Share.SHARD:
                return shape if self._states[row].cut == Cut(len(shape) - 1) else None
        return None

    def _below(self, node: int) -> range:
        return range(node + 1, int(self._tree.subtree_end[node]) + 1)

    def _orders(self, node: int, shape: list[int]) -> Orders:
        scope = int(self._tree.parent[node])
        if scope <= 0:
            return _KNOWN
        siblings = [
            own
            for own in self._column_layers_below(scope)
            if own != node and self._output_shape(own) == shape
        ]
        keys = {
            self._ranks.keys[row]
            for row in self._ranks.tensors(node, Section.OUTPUT)
            if self._ranks.shape(row) == shape
        }
        for call in self._below(scope):
            name = self._tree.parsed[call]
            if name.direction is not Direction.FORWARD or not splits(operator_of_call(name)):
                continue
            for row in self._ranks.tensors(call, Section.INPUT)[:1]:
                is_output = self._ranks.keys[row] in keys
                if not is_output and (siblings or prod(self._ranks.shape(row)) != prod(shape)):
                    continue
                sizes = self._split_sizes(call, row, shape)
                if sizes is not None:
                    return (Order(sizes),)
        return self._by_sizes(node, scope, shape[-1])

    def _column_layers_below(self, scope: int) -> list[int]:
        below = self._below(scope)
        start = bisect_left(self._layers, below.start)
        return self._layers[start : bisect_left(self._layers, below.stop)]

    def _split_sizes(self, call: int, row: int, shape: list[int]) -> tuple[int, ...] | None:
        """Relative sizes of the parts into which a call splits the layer's output.

        One, when it splits what lies within the heads; None when it splits something else.
        """
        source = self._ranks.shape(row)
        place = len(shape) - 1
        if len(source) < len(shape) or source[:place] != shape[:place]:
            return None
        outputs = [self._ranks.shape(own) for own in self._ranks.tensors(call, Section.OUTPUT)]
        if len(outputs) < 2:
            return None
        if all(out == [*source[:place], *source[place + 1 :]] for out in outputs):
            return (1,) * len(outputs)  # unbind
        if any(len(out) != len(source) or out[:place] != source[:place] for out in outputs):
            return None
        sizes = [out[place] for out in outputs]
        if sum(sizes) == source[place] and all(
            out[place + 1 :] == source[place + 1 :] for out in outputs
        ):
            unit = gcd(*sizes)
            return tuple(size // unit for size in sizes)
        return (1,) if all(out[place] == source[place] for out in outputs) else None

    def _by_sizes(self, node: int, scope: int, size: int) -> Orders:
        """What is possible by the size of what the scope's row-parallel layer takes in."""
        inner = self._row_layer_input(scope)
        if inner is None or inner >= size or self._several_columns(node, scope):
            return _KNOWN
        possible: list[tuple[int, ...]] = [(1,)]
        if size == 2 * inner:
            possible.insert(0, (1, 1))
        if (size - inner) % 2 == 0:
            rest = (size - inner) // 2
            unit = gcd(inner, rest)
            projections = inner // unit, rest // unit, rest // unit
            named = "qkv" in self._tree.parsed[node].stem.lower()
            possible.insert(0 if named else len(possible), projections)
        kind = module_class(self._tree.parsed[node])
        if kind in ("QKVParallelLinear", "MergedColumnParallelLinear"):
            possible = possible[:1]  # these classes are known to be made of blocks
        return tuple(map(Order, possible))

    def _several_columns(self, node: int, scope: int) -> bool:
        return any(own != node for own in self._column_layers_below(scope))

    def _row_layer_input(self, scope: int) -> int | None:
        for node in self._below(scope):
            name = self._tree.parsed[node]
            if name.kind is Kind.MODULE and "RowParallel" in module_class(name):
                for row in self._ranks.tensors(node, Section.INPUT)[:1]:
                    shape = self._ranks.shape(row)
                    if shape and self._states[row].share is Share.SHARD:
                        return shape[-1]
        return None

    def _rows_of(
        self, layers: dict[str, tuple[int, Orders]]
    ) -> Iterator[tuple[int, tuple[int, Orders]]]:
        """Rows of the layers and of the calls beside them that have a dimension of their size."""
        scopes = {stem.rpartition(".")[0].rpartition(".")[0]: one for stem, one in layers.items()}
        for node, name in enumerate(self._tree.parsed):
            known = self._layer_above(node, layers)
            if known is None and name.kind is Kind.API:
                above = self._tree.parsed[int(self._tree.parent[node])].stem
                known = scopes.get(above.rpartition(".")[0])
            if known is None:
                continue
            sections = Section.INPUT, Section.OUTPUT, Section.PARAMETERS, Section.PARAMETERS_GRAD
            for row in self._ranks.tensors(node, *sections):
                if self._is_cut(row, known[0]):
                    yield row, known

    def _layer_above(
        self, node: int, layers: dict[str, tuple[int, Orders]]
    ) -> tuple[int, Orders] | None:
        """The fused layer that a node is or belongs to."""
        for own in (node, int(self._tree.parent[node])):
            if own > 0:
                stem = module_stem(self._tree.parsed[own])
                if stem in layers:
                    return layers[stem]
        return None

    def _is_cut(self, row: int, size: int) -> bool:
        """Whether a row is a shard cut along a dimension of the given size."""
        state, shape = self._states[row], self._ranks.shape(row)
        if state.share is not Share.SHARD or state.cut is None or state.cut.outer != 1:
            return False
        place = state.cut.dimension
        # A slice of a sequence is cut along the first dimension of three.
        is_inner = len(shape) < 3 or place == len(shape) - 1
        return place < len(shape) and shape[place] == size and is_inner

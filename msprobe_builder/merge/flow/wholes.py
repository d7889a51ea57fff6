"""How parameters are cut, told by their shapes in a model that is not cut.

Classes say it only where they are those of well-known frameworks. What has half the rows of the
other side's weight of the same name is cut along its rows, whatever its class; what has its shape
is held whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from msprobe_builder.dump.names import Direction, Kind, Name, module_path
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.parallel_layers import (
    boundary_state,
    module_class,
    module_stem,
    parameter_state,
)
from msprobe_builder.merge.flow.share import REPLICA, Share, State
from msprobe_builder.merge.ranks.placements import placements
from msprobe_builder.merge.ranks.rank_tables import RankTables

Shape = tuple[int, ...]
# By module path and name, with a sign for each number: layers are numbered per stage.
Wholes = Mapping[str, Shape]

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")  # between points
_CHUNK = re.compile(r"Module\.(?:\d+\.)?")
_PARAMETERS = Section.PARAMETERS, Section.PARAMETERS_GRAD
_LAYERS = {0: "ColumnParallelLinear", 1: "RowParallelLinear"}
_WORDS = "VocabParallelEmbedding"


def whole_shapes(side: Side) -> dict[str, Shape]:
    """The shapes of the parameters of a model that is not cut, where namesakes have the same."""
    texts = side.dump.parameters.texts
    found: dict[str, set[Shape]] = {}
    rows = np.flatnonzero((side.table.section == Section.PARAMETERS) & side.table.is_tensor)
    for row in rows.tolist():
        name = side.tree.parsed[int(side.table.node[row])]
        key = _key(name, texts.values[int(side.table.name_id[row])])
        shape = tuple(parse_shape(texts, int(side.table.shape_id[row])))
        found.setdefault(key, set()).add(shape)
    return {key: next(iter(shapes)) for key, shapes in found.items() if len(shapes) == 1}


def has_known_layers(side: Side) -> bool:
    """Whether a layer is cut by its class, or a tensor says itself what it is of the whole."""
    return bool(placements(side.table, side.dump.parameters.texts)) or any(
        boundary_state(module_class(name), Direction.FORWARD, Section.INPUT) is not None
        for name in side.tree.parsed
        if name.kind is Kind.MODULE
    )


def _key(module: Name, parameter: str) -> str:
    path = _CHUNK.sub("", module_path(module_stem(module)), count=1)
    return _NUMBER.sub("#", f"{path}.{parameter.rpartition('.')[2]}")


class Layers:
    """What each module is to the split, by its class, or by its weights where they tell."""

    def __init__(self, tree: Tree, ranks: RankTables, wholes: Wholes) -> None:
        self._states: dict[int, State] = {}
        self._classes: dict[str, str] = {}
        if not wholes:
            return
        for node, name in enumerate(tree.parsed):
            rows = ranks.tensors(node, *_PARAMETERS) if name.kind is Kind.MODULE else []
            told = {row: self._told(ranks, row, wholes, name) for row in rows}
            self._states |= {row: state for row, state in told.items() if state is not None}
            self._call(name, ranks, node, told)

    def class_of(self, name: Name) -> str:
        """The class of a module call or of its gradients, or the one that it is as good as."""
        return self._classes.get(module_stem(name)) or module_class(name)

    def parameter(self, name: Name, row: int, parameter: str) -> State:
        """The share of a module's own parameter or of its gradient."""
        told, own = self._states.get(row), module_class(name)
        known = parameter_state(own, parameter)
        if told is None:
            class_name = self.class_of(name)
            return parameter_state(class_name, parameter).because(
                fact("reason.holds", name=class_name)
            )
        if told.cut and known.cut and told.cut.dimension == known.cut.dimension:
            return known.because(
                fact("reason.holds", name=own)
            )  # it may say more, such as of each expert
        return told

    @staticmethod
    def _told(ranks: RankTables, row: int, wholes: Wholes, name: Name) -> State | None:
        whole, own = wholes.get(_key(name, ranks.name(row))), tuple(ranks.shape(row))
        if whole is None or len(whole) != len(own):
            return None
        differ = [place for place, size in enumerate(whole) if size != own[place]]
        if not differ:
            return REPLICA.because(fact("reason.whole_on_other_side"))
        [place] = differ if len(differ) == 1 else [-1]
        # Rows of words may be filled up, so that all parts together are more than the whole.
        if place < 0 or not own[place] < whole[place] <= own[place] * ranks.count:
            return None
        reason = fact("reason.whole_size", whole=whole[place], own=own[place])
        return State(Share.SHARD, Cut(place)).because(reason)

    def _call(
        self, name: Name, ranks: RankTables, node: int, told: Mapping[int, State | None]
    ) -> None:
        """Treat a module that holds one matrix which is cut like the layer known for that."""
        if boundary_state(module_class(name), Direction.FORWARD, Section.INPUT) is not None:
            return
        matrices = [row for row in told if len(ranks.shape(row)) == 2]
        state = told[matrices[0]] if len(matrices) == 1 else None
        if state is None or state.cut is None:
            return
        given = ranks.tensors(node, Section.INPUT)
        if given and ranks.is_whole_number(given[0]):
            found = _WORDS if state.cut.dimension == 0 else ""
        else:
            found = _LAYERS[state.cut.dimension]
        self._classes.setdefault(module_stem(name), found)

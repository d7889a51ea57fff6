"""What each tensor of a tensor-parallel rank is: a replica, a shard, or a partial sum.

The answer comes from the module's class and from the flow of data, never from whether the
numbers of the ranks happen to differ. A tensor is recognised from producer to consumer by its
statistics on all ranks. What a reduction over the group takes in is a partial result, and its
output is that result made whole.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import partial
from math import prod

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, module_path, parse_gradients
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.memory import meaningless
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.producers import producers
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.calls import follow
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.expert_rows import OWN_COUNT, OWN_MEMORY, OWN_PIECES
from msprobe_builder.merge.flow.experts import Region, expert_owners, expert_place, regions
from msprobe_builder.merge.flow.knowledge import Knowledge
from msprobe_builder.merge.flow.operators import joins, operator_of_call, splits
from msprobe_builder.merge.flow.parallel_layers import boundary_state
from msprobe_builder.merge.flow.share import REPLICA, UNKNOWN, Share, State
from msprobe_builder.merge.flow.totals import find_totals
from msprobe_builder.merge.flow.wholes import Wholes

_COPIES = fact("reason.copies")
_THROUGH = Section.INPUT, Section.OUTPUT


def classify(
    tree: Tree,
    tables: Sequence[ParameterTable],
    texts: Texts,
    group: Sequence[int],
    wholes: Wholes | None = None,
) -> list[State]:
    """The state of every row; the tables of all ranks have equal rows in equal order."""
    owners = expert_owners(tree)
    known = Knowledge(tree, tables, texts, group, wholes)
    states = follow(known, partial(_enter, owners=owners), partial(_leave, owners=owners))
    states = _without_copies(known, _without_counts(known, states))
    return _without_room(known, states, tables, texts)


def _without_room(
    known: Knowledge, states: list[State], tables: Sequence[ParameterTable], texts: Texts
) -> list[State]:
    """What nobody has written to, or communication is still to fill, ranks need not have alike."""
    unlike = [
        row
        for row, state in enumerate(states)
        if state.share is Share.REPLICA and not known.ranks.agree[row]
    ]
    if not unlike:
        return states
    parts = [Part(known.tree, table) for table in tables]
    made = [producers(part.tree, part.calls, part.table) for part in parts]
    rooms = [meaningless(part, own, texts) for part, own in zip(parts, made, strict=True)]
    for row in unlike:
        if any(room[row] for room in rooms):
            states[row] = UNKNOWN.because(fact("reason.unwritten"))
    return states


def _without_copies(known: Knowledge, states: list[State]) -> list[State]:
    """Parts that several ranks hold alike, and their gradients, of which each has its share.

    A whole of all parts would hold copies twice: keys and values of fewer heads than ranks are
    repeated in the unsplit model too, but in a call of its own.
    """
    copies = {
        row
        for row, state in enumerate(states)
        if state.share is Share.SHARD
        and 1 < known.ranks.parts(row) < known.ranks.count
        and not known.ranks.is_whole_number(row)
    }
    for row in sorted(copies):
        states[row] = UNKNOWN.because(_COPIES)
    for node in sorted({known.ranks.node(row) for row in copies}):
        name = known.tree.parsed[node]
        twin = known.number.get(name._replace(direction=Direction.BACKWARD))
        if name.direction is not Direction.FORWARD or twin is None:
            continue
        for section, opposite in (_THROUGH, _THROUGH[::-1]):
            held = known.ranks.tensors(node, section)
            gradients = known.ranks.tensors(twin, opposite)
            in_order = len(held) == len(gradients)
            for place, row in enumerate(gradients):
                of = held[place : place + 1] if in_order else held
                shape = known.ranks.shape(row)
                if any(one in copies and known.ranks.shape(one) == shape for one in of):
                    states[row] = UNKNOWN.because(_COPIES)
    return states


def _without_counts(known: Knowledge, states: list[State]) -> list[State]:
    """What ranks with slices of the tokens count of them, and cut by such counts, is their own."""
    for node, region in enumerate(regions(known.tree)):
        around = known.ranks.tensors(int(known.tree.parent[node]), Section.INPUT)
        if region is not Region.EXCHANGE or all(states[row].share != Share.SHARD for row in around):
            continue
        operator = operator_of_call(known.tree.parsed[node])
        lists = joins(operator) or splits(operator)
        for section in (Section.INPUT, Section.OUTPUT):
            rows = known.ranks.tensors(node, section)
            for row in rows:
                if states[row].share is not Share.SHARD and known.ranks.is_whole_number(row):
                    states[row] = UNKNOWN.because(OWN_COUNT)
                elif states[row].share is not Share.SHARD and known.ranks.is_even[row]:
                    states[row] = UNKNOWN.because(OWN_MEMORY)
                elif lists and len(rows) > 1:
                    states[row] = UNKNOWN.because(OWN_PIECES)
    return states


def _enter(known: Knowledge, node: int, owners: Set[str]) -> None:
    name = known.tree.parsed[node]
    for row in known.ranks.tensors(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
        state = known.layers.parameter(name, row, known.ranks.name(row))
        if state == REPLICA and _is_partial_gradient(known, node, row):
            state = State(Share.PARTIAL).because(fact("reason.own_part_of_gradient"))
        known.put(row, state)
    _pass_boundary(known, node, Section.INPUT, owners)


def _is_partial_gradient(known: Knowledge, node: int, row: int) -> bool:
    """Whether each rank has but its share of a replicated parameter's gradient.

    So it is when the module works on slices of a sequence or on some of the heads, and it may be
    so where that cannot be told. Copies drifted apart only if what went in is alike.
    """
    if not parse_gradients(known.tree.parsed[node].stem) or known.ranks.agree[row]:
        return False
    around = known.ranks.tensors(int(known.tree.parent[node]), Section.INPUT)
    return any(known.state[own].share is not Share.REPLICA for own in around)


def _leave(known: Knowledge, node: int, owners: Set[str]) -> None:
    _pass_boundary(known, node, Section.OUTPUT, owners)
    if boundary_state(
        known.layers.class_of(known.tree.parsed[node]), Direction.FORWARD, Section.INPUT
    ):
        find_totals(known, node)
    known.before[int(known.tree.parent[node])] = node


def _pass_boundary(known: Knowledge, node: int, section: Section, owners: Set[str]) -> None:
    """What the flow of data says goes before what the class says: layers can gather."""
    name = known.tree.parsed[node]
    class_name = known.layers.class_of(name)
    is_expert = expert_place(name.stem) is not None
    for row in known.ranks.tensors(node, section):
        rule = boundary_state(class_name, name.direction, section)
        if rule is not None:
            rule = rule.because(fact("reason.takes_and_puts", name=class_name))
        if rule == REPLICA and _is_part_of_sequence(known, node, row, section):
            state = State(Share.SHARD, Cut(0)).because(fact("reason.layer_gathers"))
            known.put(row, state, is_certain=True)
            continue
        seen = known.look_up(row)
        if is_expert and (rule is None or rule == REPLICA):
            known.put(row, _of_experts(known, row, section, seen))
            continue
        around = _sequence_around_experts(known, node, row, section, owners)
        if around is not None:
            known.put(row, State(Share.SHARD, around), is_certain=True)
            continue
        cut = None if known.ranks.agree[row] else known.forward_cut(row)
        if rule == REPLICA and seen is None and cut is not None:
            state = State(Share.SHARD, cut)  # such as a slice of a sequence
        elif (
            seen
            and seen.share is Share.PARTIAL
            and (section is Section.INPUT or _is_added_up(known, row))
        ):
            state = seen  # such as the gradient of a bias that a layer passes on
        elif rule is None and cut is not None and seen and seen.share is Share.UNKNOWN:
            state = State(Share.SHARD, cut)
        elif rule is None:
            beside = known.beside(node, row, section)
            state = beside or seen or known.by_surroundings(node, row)
        elif seen is None or seen.share in (rule.share, Share.PARTIAL, Share.UNKNOWN):
            state = rule
        else:
            state = seen
        known.put(row, state)


def _is_added_up(known: Knowledge, row: int) -> bool:
    """Whether ranks have added something to it before, or reduce it outside of the layer."""
    key = known.ranks.keys[row]
    return key in known.added_before or (key in known.reduced and not known.ranks.agree[row])


def _of_experts(known: Knowledge, row: int, section: Section, seen: State | None) -> State:
    """Experts get all tokens; their sums are reduced later, when tokens are back in order."""
    if known.ranks.agree[row]:
        return REPLICA
    if section is Section.OUTPUT:
        known.sums_of_experts.add(known.ranks.keys[row])
        return seen if seen and seen.share is Share.PARTIAL else State(Share.PARTIAL)
    return seen or known.by_numbers(row)


def _sequence_around_experts(
    known: Knowledge, node: int, row: int, section: Section, owners: Set[str]
) -> Cut | None:
    """What leaves a layer of experts is cut like what entered it, if that has its shape."""
    holds_experts = module_path(known.tree.parsed[node].stem) in owners
    if section is not Section.OUTPUT or not holds_experts or known.ranks.agree[row]:
        return None
    for other in known.ranks.tensors(node, Section.INPUT):
        if known.ranks.shape(other) == known.ranks.shape(row):
            return known.state[other].cut
    return None


def _is_part_of_sequence(known: Knowledge, node: int, row: int, section: Section) -> bool:
    """Whether what enters or leaves a layer has fewer rows than its other side, by the ranks.

    With sequence parallelism a layer gathers or scatters the rows itself.
    """
    opposite = Section.OUTPUT if section is Section.INPUT else Section.INPUT
    for other in known.ranks.tensors(node, opposite)[:1]:
        return _rows(known, row) * len(known.group) == _rows(known, other)
    return False


def _rows(known: Knowledge, row: int) -> int:
    """The elements of a tensor but for its last dimension; every element of words is a row."""
    shape = known.ranks.shape(row)
    return prod(shape if known.ranks.is_whole_number(row) else shape[:-1])

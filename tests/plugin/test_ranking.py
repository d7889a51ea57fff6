"""Candidates of nodes of small random graphs, against the documented rules spelled out."""

from __future__ import annotations

from random import Random

from hypothesis import given

from msprobe_builder.base.codes import Section
from tb_graph_ascend.query.candidates import SHOWN, rank_candidates
from tests.plugin.test_candidates import REASONS
from tests.small_graphs import RANDOMS, Node, Pair, Parameter, graph_of, random_pair, written


def are_equal(own: Node, other: Node) -> bool:
    """Whether both put out a tensor of the same statistics, which are not all one number."""
    return any(
        one.section == other_one.section == Section.OUTPUT and _agree(one, other_one)
        for one in own.parameters
        for other_one in other.parameters
    )


def _agree(own: Parameter, other: Parameter) -> bool:
    if own.extremes is None or other.extremes is None or own.norm is None or other.norm is None:
        return False
    high, low = own.extremes
    size = 1e-5 * max(abs(high), abs(low))
    return (
        high != low
        and abs(own.norm - other.norm) <= 1e-5 * own.norm
        and abs(high - other.extremes[0]) <= size
        and abs(low - other.extremes[1]) <= size
    )


def place_of(
    own: Node, nodes: dict[int, Node], others: dict[int, Node], partner: dict[int, int]
) -> tuple[range, bool, int]:
    """Between which nodes of the other side a node belongs, whether by both ends, and where."""
    before = max((one for one in partner if min(nodes) <= one < own.node), default=None)
    behind = min((one for one in partner if own.end < one <= max(nodes)), default=None)
    first = min(others) if before is None else partner[before]
    away = own.node - (min(nodes) if before is None else before)
    end = 0 if behind is None else partner[behind]
    last = end - 1 if first < end else max(others)
    return range(first + 1, last + 1), first < end, min(first + away, last)


def reasons_of(
    own: Node, one: Node, partner: dict[int, int], place: range, has_both: bool
) -> list[str]:
    host = None if own.parent is None else partner.get(own.parent)
    is_sibling = host is not None and one.parent == host
    has_name = (own.stem, own.call) == (one.stem, one.call)
    sections, others = ([part.section for part in node.parameters] for node in (own, one))
    shapes, other_shapes = (
        [(part.section, part.shape) for part in node.parameters] for node in (own, one)
    )
    holds = {
        "same_values": are_equal(own, one),
        "same_name": has_name,
        "same_path": not has_name
        and own.path != ""
        and (own.path, own.call) == (one.path, one.call),
        "same_neighbours": has_both and one.node in place,
        "same_operator": own.operator == one.operator,
        "same_parent": is_sibling,
        "same_shapes": shapes == other_shapes,
        "same_parameters": sections == others,
        "same_order": is_sibling and one.node - (one.parent or 0) == own.node - (own.parent or 0),
    }
    return [reason for reason in REASONS if holds[reason]]


@given(RANDOMS)
def test_candidates_are_those_and_in_the_order_that_is_documented(random: Random) -> None:
    for _ in range(3):
        check(random_pair(random))


def check(pair: Pair) -> None:
    with written([pair]) as connection:
        graphs = [graph_of(connection, pair, side) for side in (0, 1)]
        for side, (graph, other) in enumerate((graphs, graphs[::-1])):
            nodes, others = pair.sides[side], pair.sides[1 - side]
            partner, taken = pair.partners(side), pair.partners(1 - side)
            for own in nodes.values():
                likely = pair.likely.get(own.node, {}) if side == 0 else {}
                place, has_both, expected = place_of(own, nodes, others, partner)
                host = None if own.parent is None else partner.get(own.parent)
                ranked = {}
                for one in others.values():
                    is_alike = (
                        own.operator == one.operator
                        or (own.path != "" and own.path == one.path)
                        or (host is not None and one.parent == host)
                    )
                    is_near = own.parent is not None and one.node in place
                    is_like = (one.kind, one.direction) == (own.kind, own.direction)
                    is_root = one.parent is None and own.parent is not None
                    fits = is_like and not is_root and (is_alike or is_near)
                    if not fits and one.node not in likely:
                        continue
                    reasons = reasons_of(own, one, partner, place, has_both)
                    lacking = tuple(reason not in reasons for reason in REASONS)
                    away = abs(one.node - expected)
                    key = (-likely.get(one.node, 0.0), lacking, one.node in taken, away)
                    ranked[one.node] = key, reasons
                found = rank_candidates(connection, graph, other, own.node)
                keys = [ranked[other.first + candidate.index][0] for candidate in found]
                assert keys == sorted(key for key, _ in ranked.values())[:SHOWN]
                for candidate in found:
                    one = others[other.first + candidate.index]
                    assert sorted(candidate.reasons) == sorted(ranked[one.node][1])
                    assert candidate.likelihood == likely.get(one.node)
                    taker = taken.get(one.node)
                    assert candidate.matched == (None if taker is None else taker - graph.first)

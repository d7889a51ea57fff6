"""Sorting what a stage ran at its top level by micro-batch and direction.

Each stage of a pipeline has its own schedule. Sorted into rounds, all stages tell the same story:
forward of micro-batch 0, its backward, forward of micro-batch 1, and so on, then what follows the
last backward (gradient norms, the optimizer).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msprobe_builder.dump.names import Direction, Kind, Name
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.operators import is_between_peers
from msprobe_builder.merge.join.layers import LayerNumbering, Piece
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.questions import is_uninitialised
from msprobe_builder.operators.table import operator_of

_SEED = "Torch.ones_like"  # made by the engine as a backward pass begins
FINAL = 1 << 30


class Round(NamedTuple):
    """Micro-batch and direction (0 forward, 1 backward); sorts in the order of a single rank."""

    micro_batch: int
    backward: int


@dataclass(frozen=True)
class TopCalls:
    """Nodes at the top level of one stage, by round and piece, in order of execution."""

    calls: dict[tuple[Round, Piece], list[int]]
    peer_calls: dict[tuple[Round, Piece], list[int]]


Passes = Mapping[tuple[str, int], int]  # the micro-batch of calls, by stem and number


def passes_of(trees: Sequence[Tree]) -> list[Passes]:
    """In which micro-batch each stage made the calls of modules at its top level.

    There are as many as most modules have calls. One with a multiple of them is called several
    times in each, such as an output layer that words and those behind them pass.
    """
    calls = [_calls_at_top(tree) for tree in trees]
    counts = Counter(len(numbers) for own in calls for numbers in own.values())
    usual = max(counts, key=lambda count: (counts[count], -count), default=1)
    return [
        {
            (stem, number): place * usual // len(numbers)
            for stem, numbers in own.items()
            if len(numbers) % usual == 0
            for place, number in enumerate(numbers)
        }
        for own in calls
    ]


def _calls_at_top(tree: Tree) -> dict[str, list[int]]:
    """The calls of modules at the top level, forward, without those that were made again."""
    found: dict[str, list[int]] = {}
    for node in _flattened_top(tree):
        name = tree.parsed[node]
        is_forward = _is_call_of_module(name) and name.direction is Direction.FORWARD
        if is_forward and not tree.is_recompute[node]:
            found.setdefault(name.stem, []).append(name.call)
    return {stem: sorted(numbers) for stem, numbers in found.items()}


def sort_top(tree: Tree, stage: int, numbering: LayerNumbering, passes: Passes) -> TopCalls:
    """Sort the top level of one stage; ``passes`` as from ``passes_of``."""
    top = _flattened_top(tree)
    modules = [place for place, node in enumerate(top) if _is_call_of_module(tree.parsed[node])]
    result = TopCalls({}, {})
    if not modules:
        _add(result, tree, top, (Round(FINAL, 0), Piece(0, stage)))
        return result
    where = [_round_of(tree.parsed[top[place]], stage, numbering, passes) for place in modules]
    last_of = {piece: number for number, (_, piece) in enumerate(where)}
    head = _stems(tree, _without_peers(tree, top[: modules[0]]))
    _add(result, tree, top[: modules[0]], where[0])
    for number, place in enumerate(modules):
        _add(result, tree, [top[place]], where[number])
        last = number + 1 == len(modules)
        run = top[place + 1 : len(top) if last else modules[number + 1]]
        if last:
            cut = _first_of(tree, run, Direction.BACKWARD, from_end=True)
            _add(result, tree, run[:cut], where[number])
            is_training = any(key[0].backward for key in where)
            rest = (Round(FINAL, 0), Piece(0, stage)) if is_training else where[number]
            _add(result, tree, run[cut:], rest)
            continue
        following = where[number + 1]
        if following == where[number]:
            cut = len(run)
        elif following[0].backward:
            cut = _end_of_backward(tree, run, result, where[number], following)
            while cut and tree.parsed[run[cut - 1]].stem == _SEED:
                cut -= 1
            if where[number][0].backward and number == last_of[where[number][1]]:
                # The schedule is through with a chunk, and goes on with another.
                end = _first_of(tree, run[:cut], Direction.BACKWARD, from_end=True)
                _add(result, tree, run[end:cut], (Round(FINAL, 0), Piece(0, stage)))
                run, cut = [*run[:end], *run[cut:]], end
        else:
            cut = _head_of_next(tree, run, head)
        _add(result, tree, run[:cut], where[number])
        _add(result, tree, run[cut:], following)
    return result


def _flattened_top(tree: Tree) -> list[int]:
    """Children of the root in order, collections replaced by their calls."""
    parents = {0} | {node for node, name in enumerate(tree.parsed) if name.kind is Kind.COLLECTION}
    return [
        node
        for node in range(1, len(tree))
        if int(tree.parent[node]) in parents and tree.parsed[node].kind is not Kind.COLLECTION
    ]


def _is_call_of_module(name: Name) -> bool:
    return name.kind is Kind.MODULE and name.direction is not Direction.NONE


def _round_of(
    name: Name, stage: int, numbering: LayerNumbering, passes: Passes
) -> tuple[Round, Piece]:
    backward = int(name.direction is Direction.BACKWARD)
    micro_batch = passes.get((name.stem, name.call), name.call)
    return Round(micro_batch, backward), Piece(numbering.chunk(name.stem), stage)


def _stems(tree: Tree, nodes: Sequence[int]) -> list[str]:
    return [tree.parsed[node].stem for node in nodes]


def peer_calls(tree: Tree, run: Sequence[int]) -> set[int]:
    """Peer-to-peer calls and the buffers made for them just before."""
    found: set[int] = set()
    buffers: list[int] = []
    for node in run:
        stem = tree.parsed[node].stem
        if is_between_peers(stem):
            found.update(buffers, [node])
            buffers = []
        elif _makes_room(operator_of(stem)):
            buffers.append(node)
        else:
            buffers = []
    return found


def _makes_room(operator: Operator) -> bool:
    return is_uninitialised(operator) or operator.name == "zeros"


def _without_peers(tree: Tree, run: Sequence[int]) -> list[int]:
    peers = peer_calls(tree, run)
    return [node for node in run if node not in peers]


def _add(result: TopCalls, tree: Tree, run: Sequence[int], where: tuple[Round, Piece]) -> None:
    peers = peer_calls(tree, run)
    for node in run:
        kind = result.peer_calls if node in peers else result.calls
        kind.setdefault(where, []).append(node)


def _first_of(tree: Tree, run: Sequence[int], direction: Direction, *, from_end: bool) -> int:
    """Where calls of ``direction`` begin in a run, or where the last of them ends."""
    places = [place for place, node in enumerate(run) if tree.parsed[node].direction is direction]
    if from_end:
        return places[-1] + 1 if places else 0
    return places[0] if places else len(run)


def _end_of_backward(
    tree: Tree,
    run: Sequence[int],
    sorted_before: TopCalls,
    own: tuple[Round, Piece],
    following: tuple[Round, Piece],
) -> int:
    """Where in a run before a backward module its calls begin.

    Backward calls belong where their forward calls were. Without any, the first one begins it.
    """
    if not own[0].backward:
        return _first_of(tree, run, Direction.BACKWARD, from_end=False)
    forward = {
        tree.parsed[node]: where
        for where in (own, following)
        for node in sorted_before.calls.get((where[0]._replace(backward=0), where[1]), ())
    }
    homes = [forward.get(tree.parsed[node]._replace(direction=Direction.FORWARD)) for node in run]
    is_backward = [tree.parsed[node].direction is Direction.BACKWARD for node in run]
    places = [place for place, is_call in enumerate(is_backward) if is_call]
    if not any(homes[place] == own for place in places):
        return _first_of(tree, run, Direction.BACKWARD, from_end=False)
    last = max(place for place in places if homes[place] == own)
    return next((place for place in places if place > last), len(run))


def _head_of_next(tree: Tree, run: Sequence[int], head: Sequence[str]) -> int:
    """Where in a run the calls begin that come before a forward pass.

    They repeat what came before the first one, with peer-to-peer calls among them.
    """
    peers = peer_calls(tree, run)
    places = [place for place, node in enumerate(run) if node not in peers]
    length = 0
    while length < min(len(places), len(head)):
        if tree.parsed[run[places[-1 - length]]].stem != head[-1 - length]:
            break
        length += 1
    return places[-length] if length else len(run)

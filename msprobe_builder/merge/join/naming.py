"""Names of the merged model: API calls counted through in the merged order of execution."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.dump.names import Direction, Kind, Name, parse_gradients
from msprobe_builder.merge.join.stages import MergedNode
from msprobe_builder.merge.ranks.part import StageGraph


def merged_names(nodes: Sequence[MergedNode], stages: Sequence[StageGraph]) -> list[Name]:
    """One name per node, no name twice.

    Forward calls of an API are numbered in order; a backward call has the number of its forward
    twin on the stage it ran on. Modules keep their call numbers, which count micro-batches, unless
    some of their calls recomputed others: when those ran depends on the schedule of the stage.
    """
    names = [node.name for node in nodes]
    _renumber(names, nodes, stages)
    number: dict[tuple[str, int, int], int] = {}  # stem, stage and recorded call to new call
    used: dict[str, int] = {}
    for index in _apis(nodes, Direction.FORWARD):
        stem = names[index].stem
        call = used[stem] = used.get(stem, -1) + 1
        names[index] = names[index]._replace(call=call)
        for own in nodes[index].calls:
            recorded = stages[own.stage].tree.parsed[own.node].call
            number.setdefault((stem, own.stage, recorded), call)
    taken: set[tuple[str, int]] = set()
    for index in _apis(nodes, Direction.BACKWARD):
        stem = names[index].stem
        own = nodes[index].calls[0]
        recorded = stages[own.stage].tree.parsed[own.node].call
        twin = number.get((stem, own.stage, recorded))
        if twin is None or (stem, twin) in taken:
            twin = used[stem] = used.get(stem, -1) + 1
        taken.add((stem, twin))
        names[index] = names[index]._replace(call=twin)
    return _without_repetition(names)


def _renumber(names: list[Name], nodes: Sequence[MergedNode], stages: Sequence[StageGraph]) -> None:
    """Number the calls of modules that were recomputed in the merged order."""
    modules = [index for index, name in enumerate(names) if name.kind is Kind.MODULE]
    recomputed = {
        names[index].stem
        for index in modules
        if any(stages[call.stage].tree.is_recompute[call.node] for call in nodes[index].calls)
    }
    number: dict[tuple[str, int], int] = {}
    used: dict[str, int] = {}
    for direction in (Direction.FORWARD, Direction.BACKWARD):
        for index in modules:
            name = names[index]
            gradients = parse_gradients(name.stem)
            if gradients and direction is Direction.BACKWARD and gradients[1] is not None:
                call = number.get((gradients[0], gradients[1]), gradients[1])
                stem = f"{gradients[0]}.parameters_grad.{call}"
                names[index] = name._replace(stem=stem)
            if name.direction is not direction or name.stem not in recomputed:
                continue
            key = name.stem, name.call
            if direction is Direction.FORWARD:
                number[key] = used[name.stem] = used.get(name.stem, -1) + 1
            names[index] = name._replace(call=number.get(key, name.call))


def _apis(nodes: Sequence[MergedNode], direction: Direction) -> list[int]:
    return [
        index
        for index, node in enumerate(nodes)
        if node.name.kind is Kind.API and node.name.direction is direction
    ]


def _without_repetition(names: list[Name]) -> list[Name]:
    seen: set[Name] = set()
    result = []
    for original in names:
        name = original
        while name in seen:
            if name.direction is Direction.NONE:
                name = name._replace(stem=f"{name.stem}.again")
            else:
                name = name._replace(call=name.call + 1)
        seen.add(name)
        result.append(name)
    return result

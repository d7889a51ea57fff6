"""Names of the merged model: API calls counted through in the merged order of execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msprobe_builder.dump.names import Direction, Kind, Name, parse_gradients
from msprobe_builder.merge.join.stages import MergedNode
from msprobe_builder.merge.ranks.part import StageGraph


def merged_names(nodes: Sequence[MergedNode], stages: Sequence[StageGraph]) -> list[Name]:
    """One name per node, no name twice.

    Forward calls of an API are numbered in order; a backward call has the number of its forward
    twin on the stage it ran on. Modules keep their call numbers, which count micro-batches, unless
    some of their calls recomputed others: when those ran depends on the schedule of the stage.
    Where several stages call one module on other inputs, later ones count on.
    """
    names = [node.name for node in nodes]
    _number_modules(names, nodes, stages)
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


def _number_modules(
    names: list[Name], nodes: Sequence[MergedNode], stages: Sequence[StageGraph]
) -> None:
    """Number the calls of modules, forward and backward of one call alike."""
    recomputed = {
        names[index].stem
        for index in _modules(names)
        if any(stages[call.stage].tree.is_recompute[call.node] for call in nodes[index].calls)
    }
    number: dict[tuple[str, int, int], int] = {}  # stem, stage and recorded call to new call
    backward: dict[tuple[str, int], list[int]] = {}  # recorded calls, by stem and stage
    used: dict[str, int] = {}
    taken: set[tuple[str, int]] = set()
    for index in _modules(names, Direction.FORWARD):
        stem, call = names[index].stem, names[index].call
        if stem in recomputed:
            call = used[stem] = used.get(stem, -1) + 1
        while (stem, call) in taken:  # a stage before has it too, and ran it on something else
            call += 1
        taken.add((stem, call))
        names[index] = names[index]._replace(call=call)
        for own in nodes[index].calls:
            number[stem, own.stage, stages[own.stage].tree.parsed[own.node].call] = call
    for index in _modules(names, Direction.BACKWARD):
        stem, own = names[index].stem, nodes[index].calls[0]
        recorded = stages[own.stage].tree.parsed[own.node].call
        call = number.get((stem, own.stage, recorded), names[index].call)
        for one in nodes[index].calls:
            back = stages[one.stage].tree.parsed[one.node].call
            backward.setdefault((stem, one.stage), []).append(back)
        names[index] = names[index]._replace(call=call)
    _number_gradients(names, nodes, number, backward)


def _number_gradients(
    names: list[Name],
    nodes: Sequence[MergedNode],
    number: Mapping[tuple[str, int, int], int],
    backward: Mapping[tuple[str, int], Sequence[int]],
) -> None:
    """Number gradients of parameters by the last call of their pass; that of all has no number.

    The first of a stage is of its first pass, however late a schedule came to it. ``number`` has
    by stem, stage and recorded call the new one, ``backward`` the recorded calls that went back.
    """
    shown: dict[tuple[str, int], list[int]] = {}  # numbers of its gradients
    found: list[tuple[int, str, int]] = []
    for index in _modules(names, Direction.NONE):
        gradients = parse_gradients(names[index].stem)
        stem, own = gradients or ("", None)
        if own is not None:
            found.append((index, stem, own))
            for stage in {one.stage for one in nodes[index].calls}:
                shown.setdefault((stem, stage), []).append(own)

    def renumbered(stem: str, stage: int, own: int) -> int:
        calls, passes = sorted(backward.get((stem, stage), ())), sorted(shown[stem, stage])
        count, rest = divmod(len(calls), len(passes) + 1)
        call = own if rest or not count else calls[(passes.index(own) + 1) * count - 1]
        return number.get((stem, stage, call), call)

    for index, stem, own in found:
        call = max(renumbered(stem, one.stage, own) for one in nodes[index].calls)
        names[index] = names[index]._replace(stem=f"{stem}.parameters_grad.{call}")


def _modules(names: Sequence[Name], *directions: Direction) -> list[int]:
    return [
        index
        for index, name in enumerate(names)
        if name.kind is Kind.MODULE and (not directions or name.direction in directions)
    ]


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

"""Translating the layer paths of one side by the rules of a layer mapping file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from msprobe_builder.match.path_tree import ROOT, PathTree
from msprobe_builder.match.places import Path
from msprobe_builder.match.rules import TOP_LAYER, Rule


@dataclass(frozen=True)
class Translation:
    """Where a path leads: after each rule applied, the path so far and the rule's number."""

    path: Path
    applied: tuple[tuple[Path, int], ...]


def translate(
    paths: Iterable[Path], classes: dict[Path, set[str]], rules: tuple[Rule, ...]
) -> dict[Path, Translation]:
    """Translate paths part by part; a rule counts below modules of its class, the longest first.

    ``classes`` says which classes stand at a path. Parts without a rule stay as they are.
    """
    of_class: dict[str, list[int]] = defaultdict(list)
    for number in sorted(range(len(rules)), key=lambda number: -len(rules[number].npu)):
        of_class[rules[number].owner].append(number)
    tree = PathTree()
    beginning: dict[int, list[int]] = {}  # rules by number of the path they begin behind
    for path, names in (classes | {(): classes.get((), set()) | {TOP_LAYER}}).items():
        numbers = [number for name in names for number in of_class.get(name, ())]
        if numbers:
            numbers.sort(key=lambda number: (-len(rules[number].npu), number))
            beginning[tree.add(path)] = numbers
    if not beginning:
        return {path: Translation(path, ()) for path in paths}
    return {path: _translated(path, tree, beginning, rules) for path in paths}


def _translated(
    path: Path, tree: PathTree, beginning: dict[int, list[int]], rules: tuple[Rule, ...]
) -> Translation:
    result: list[str] = []
    applied = []
    place, done = ROOT, 0
    while done < len(path):
        read, written = path[done : done + 1], path[done : done + 1]
        for number in beginning.get(place, ()):
            rule = rules[number]
            if path[done : done + len(rule.npu)] == rule.npu:
                read, written = rule.npu, rule.bench
                applied.append(((*result, *written), number))
                break
        result += written
        place, done = tree.step(place, read), done + len(read)
    return Translation(tuple(result), tuple(applied))

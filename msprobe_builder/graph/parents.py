"""Who is whose parent: the recorded hierarchy, repaired where hooks did not fire.

Each repair is a rule on names alone; what no rule can place becomes a child of the nearest
recorded ancestor on its path and is reported.
"""

from __future__ import annotations

from collections.abc import Iterable

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.dump.names import (
    ROOT,
    Direction,
    Kind,
    Name,
    format_call,
    format_name,
    module_path,
    parse_gradients,
    parse_name,
    parse_names,
)
from msprobe_builder.dump.read import Dump
from msprobe_builder.facts.fact import fact

# A parent of None is the root.
Parents = dict[str, str | None]


def recorded_parents(dump: Dump) -> tuple[Parents, dict[str, Name], list[Diagnostic]]:
    """Parent of every call of the dump in order of execution, all repairs applied.

    And their names taken apart.
    """
    # An entry with the root's own name is the root.
    parents = {
        name: None if parent == ROOT else parent
        for name, parent in dump.construct.parent.items()
        if name != ROOT
    }
    names = dict(zip(parents, parse_names(parents), strict=True))
    diagnostics = _add_missing_parents(parents, names)
    diagnostics += _add_unplaced_records(parents, names, dump)
    if not dump.is_merged:  # what hooks missed was mended when it was merged
        diagnostics += _release_from_open_backward(parents, names, dump)
        _repair_backward(parents, names, dump)
        _rehang_recomputed(parents, names, dump)
    diagnostics += _break_cycles(parents)
    return parents, names, diagnostics


def _add_missing_parents(parents: Parents, names: dict[str, Name]) -> list[Diagnostic]:
    """Give a place to parents that are no entries themselves, before their first child."""
    missing = dict.fromkeys(
        parent for parent in parents.values() if parent is not None and parent not in parents
    )
    if not missing:
        return []
    entries = dict(parents)
    parents.clear()
    for child, parent in entries.items():
        if parent in missing and parent not in parents:
            names[parent] = parse_name(parent)
            parents[parent] = None
        parents[child] = parent
    modules = _Modules(parents, names)
    for name in missing:
        parents[name] = modules.enclosing(names[name])
    return about(
        "warning",
        "parent_not_recorded",
        list(missing),
        fact("note.not_in_construct_as_parents"),
    )


def _add_unplaced_records(parents: Parents, names: dict[str, Name], dump: Dump) -> list[Diagnostic]:
    """Give a place to records that construct.json does not mention."""
    unplaced = [
        name
        for name in dump.records
        if name != ROOT and name not in parents and not parse_gradients(name)
    ]
    if not unplaced:
        return []
    modules = _Modules(parents, names)
    for name in unplaced:
        names[name] = parse_name(name)
        parents[name] = modules.enclosing(names[name])
        modules.add(name, names[name])
    return about(
        "warning",
        "call_not_in_construct",
        unplaced,
        fact("note.no_entry_in_construct"),
    )


class _Modules:
    """Entries by path and direction, to find who encloses a call."""

    def __init__(self, parents: Parents, names: dict[str, Name]) -> None:
        self._calls: dict[tuple[str, Direction], dict[int, str]] = {}
        for entry in parents:
            self.add(entry, names[entry])

    def add(self, entry: str, name: Name) -> None:
        if name.kind is Kind.MODULE and name.direction is not Direction.NONE:
            key = module_path(name.stem), name.direction
            self._calls.setdefault(key, {}).setdefault(name.call, entry)

    def enclosing(self, name: Name) -> str | None:
        """The closest enclosing module with the same direction, same call number preferred."""
        if name.kind is not Kind.MODULE or name.direction is Direction.NONE:
            return None
        path = module_path(name.stem)
        while "." in path:
            path = path.rpartition(".")[0]
            calls = self._calls.get((path, name.direction))
            if calls:
                return calls.get(name.call, next(iter(calls.values())))
        return None


def _turned_backward(parent: str | None, parents: Parents, names: dict[str, Name]) -> str | None:
    """The backward call of a forward module, if it is an entry."""
    if parent is None:
        return None
    name = names[parent]
    if name.direction is not Direction.FORWARD or name.kind is not Kind.MODULE:
        return None
    backward = format_call(name, Direction.BACKWARD)
    return backward if backward in parents else None


def _repair_backward(parents: Parents, names: dict[str, Name], dump: Dump) -> None:
    """Place backward calls where their forward twins were.

    A backward call without parent goes below the backward call of its forward twin's parent.
    A backward module below a module that does not enclose it on the path (the backward hook of
    an in-place module never fires, so that module stays open) is moved the same way, and so is
    a backward API below a module outside that of its forward twin or of another micro-step.
    """
    micro_step = dump.construct.micro_step or {}
    turned: dict[str | None, str | None] = {}  # of what calls stand in, which many have alike
    for child in list(parents):
        name = names[child]
        if name.direction is not Direction.BACKWARD:
            continue
        twin = format_call(name, Direction.FORWARD)
        parent = parents[child]
        if parent is None:
            found = _turned_backward(parents.get(twin), parents, names)
            if found is not None:
                parents[child] = found
            continue
        if twin not in parents:
            continue
        if name.kind is Kind.API:
            around = parents[twin]
            if around not in turned:
                turned[around] = _turned_backward(around, parents, names)
            found = turned[around]
            if found is None or found == parent:
                continue
            is_over = micro_step.get(child) != micro_step.get(parent)
            if is_over or not _related(found, parent, names):
                parents[child] = found
            continue
        scope = module_path(name.stem).rpartition(".")[0]
        if scope == module_path(names[parent].stem) or not scope:
            continue
        twin_parent = parents[twin]
        if twin_parent is None:
            parents[child] = None
        else:
            parents[child] = _turned_backward(twin_parent, parents, names) or parent


def _related(one: str, other: str, names: dict[str, Name]) -> bool:
    """Whether the path of one module holds that of the other."""
    paths = sorted((module_path(names[one].stem), module_path(names[other].stem)), key=len)
    return paths[1] == paths[0] or paths[1].startswith(f"{paths[0]}.")


def _release_from_open_backward(
    parents: Parents, names: dict[str, Name], dump: Dump
) -> list[Diagnostic]:
    """Take the next forward pass out of a backward module that was never closed.

    When a module's backward hook does not fire, the collector goes on recording calls as its
    children. The first forward module there that is not recomputed shows that the backward is
    over: it and everything after it go where the module's first call stands, together with the
    forward APIs just before. APIs at the very end of the step go to the root.
    """
    inside: dict[str, list[str]] = {}
    for child, parent in parents.items():
        if parent is not None and names[parent].direction is Direction.BACKWARD:
            inside.setdefault(parent, []).append(child)
    last = next(reversed(parents), None)
    released: list[str] = []
    for parent, children in inside.items():
        if not any(names[child].kind is Kind.MODULE for child in children):
            continue  # a custom backward function calls APIs inside a leaf module

        def passes(child: str) -> bool:
            is_module = names[child].kind is Kind.MODULE
            is_forward = names[child].direction is Direction.FORWARD
            return is_module and is_forward and dump.records.get(child) not in dump.recomputed

        start = next((place for place, child in enumerate(children) if passes(child)), None)
        if start is not None:
            first = names[children[start]]
            home = parents.get(format_name(first._replace(call=0)))
            if home == parent or home in released:
                home = None
        elif children[-1] == last:
            start, home = len(children), None
        else:
            continue
        while start and _is_forward_api(names[children[start - 1]]):
            start -= 1
        for child in children[start:]:
            parents[child] = home
            released.append(child)
    return about(
        "info",
        "released_from_backward",
        released,
        fact("note.moved_to_earlier_passes"),
    )


def _is_forward_api(name: Name) -> bool:
    return name.kind is Kind.API and name.direction is Direction.FORWARD


def _rehang_recomputed(parents: Parents, names: dict[str, Name], dump: Dump) -> None:
    """Place forward calls recomputed during backward below the backward call that needed them.

    Moved are calls that the collector marked as recomputed and that stand at the root, or in
    another layer whose backward was still open: the k-th recomputed call of a module belongs to
    its k-th original call. Their backward calls follow them.
    """
    if not dump.recomputed:
        return
    calls = [
        name
        for name in parents
        if names[name].kind is Kind.MODULE and names[name].direction is Direction.FORWARD
    ]
    recomputed = {name for name in calls if dump.records.get(name) in dump.recomputed}
    originals: dict[str, list[str]] = {}
    for name in calls:
        if name not in recomputed:
            originals.setdefault(names[name].stem, []).append(name)
    taken: dict[str, int] = {}
    for name in calls:
        if name not in recomputed or parents[name] in recomputed:
            continue
        stem = names[name].stem
        position = taken[stem] = taken.get(stem, -1) + 1
        if not _is_misplaced(name, parents, names) or position >= len(originals.get(stem, ())):
            continue
        target = _turned_backward(parents[originals[stem][position]], parents, names)
        backward = format_name(names[name]._replace(direction=Direction.BACKWARD))
        if target is None or target == backward or name in _ancestors(target, parents):
            continue
        parents[name] = target
        if backward in parents and _is_misplaced(backward, parents, names):
            parents[backward] = target


def _is_misplaced(name: str, parents: Parents, names: dict[str, Name]) -> bool:
    """Whether a call stands at the root or in another layer: paths part at a number."""
    parent = parents[name]
    if parent is None:
        return True
    paths = (module_path(names[one].stem).split(".") for one in (name, parent))
    parting = next((pair for pair in zip(*paths, strict=False) if pair[0] != pair[1]), None)
    return parting is not None and parting[0].isdigit() and parting[1].isdigit()


def _ancestors(name: str, parents: Parents) -> Iterable[str]:
    seen: dict[str, None] = {}
    parent = parents.get(name)
    while parent is not None and parent not in seen:
        seen[parent] = None
        parent = parents.get(parent)
    return seen


def _break_cycles(parents: Parents) -> list[Diagnostic]:
    """Cut each cycle at its first call, which becomes a child of the root."""
    safe: set[str] = set()
    cut = []
    for start in parents:
        if (above := parents[start]) is None or above in safe:  # as with nearly all
            safe.add(start)
            continue
        trail: dict[str, None] = {}
        name: str | None = start
        while name is not None and name not in safe and name not in trail:
            trail[name] = None
            name = parents[name]
        if name is not None and name in trail:
            chain = list(trail)
            places = {name: index for index, name in enumerate(parents)}
            first = min(chain[chain.index(name) :], key=places.__getitem__)
            parents[first] = None
            cut.append(first)
        safe.update(trail)
    return about(
        "warning",
        "cycle",
        cut,
        fact("note.cycles_cut"),
    )

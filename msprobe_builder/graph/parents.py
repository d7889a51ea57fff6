"""Who is whose parent: the recorded hierarchy, repaired where hooks did not fire.

Each repair is a rule on names alone; what no rule can place becomes a child of the nearest
recorded ancestor on its path and is reported (entries.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.dump.names import (
    Direction,
    Kind,
    Name,
    format_name,
    module_path,
    parse_gradients,
)
from msprobe_builder.dump.read import Dump
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.entries import Entries, entries_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def recorded_parents(dump: Dump) -> tuple[Entries, list[Diagnostic]]:
    """All calls and gradients of the dump with their parents, all repairs applied."""
    entries, diagnostics = entries_of(dump)
    if not dump.is_merged:  # what hooks missed was mended when it was merged
        diagnostics += _release_from_open_backward(entries)
        _repair_backward(entries)
        _rehang_recomputed(entries)
    diagnostics += _break_cycles(entries)
    diagnostics += _hang_gradients(entries)
    return entries, diagnostics


def _release_from_open_backward(entries: Entries) -> list[Diagnostic]:
    """Take the next forward pass out of a backward module that was never closed.

    When a module's backward hook does not fire, the collector goes on recording calls as its
    children. The first forward module there that is not recomputed shows that the backward is
    over: it and everything after it go where the module's first call stands, together with the
    forward APIs just before. APIs at the very end of the step go to the root.
    """
    calls, parent = entries.calls, entries.parent
    is_backward = calls.direction == Direction.BACKWARD
    is_inside = (parent >= 0) & is_backward[parent]
    # A custom backward function calls APIs inside a leaf module.
    modules = is_inside & calls.is_module
    passes = modules & (calls.direction == Direction.FORWARD) & ~entries.recomputed
    around = parent[passes]
    last = len(entries) - entries.gradients - 1
    if last >= 0 and is_inside[last] and (parent[modules] == parent[last]).any():
        around = np.append(around, parent[last])
    if not len(around):
        return []
    inside: dict[int, list[int]] = {one: [] for one in around.tolist()}
    several = np.flatnonzero(is_inside & np.isin(parent, around))
    for child, above in zip(several.tolist(), parent[several].tolist(), strict=True):
        inside[above].append(child)
    is_api = (calls.is_forward_call).tolist()
    released: dict[int, None] = {}
    for above, children in sorted(inside.items(), key=lambda item: item[1][0]):
        start = next((place for place, child in enumerate(children) if passes[child]), None)
        home = -1
        if start is None:
            start = len(children)
        else:
            first = _name(entries, children[start])._replace(call=0)
            number = entries.numbers.get(format_name(first))
            home = -1 if number is None else int(parent[number])
            if home == above or home in released:
                home = -1
        while start and is_api[children[start - 1]]:
            start -= 1
        for child in children[start:]:
            parent[child] = home
            released[child] = None
    return about(
        "info",
        "released_from_backward",
        [entries.names[child] for child in released],
        fact("note.moved_to_earlier_passes"),
    )


def _name(entries: Entries, number: int) -> Name:
    calls = entries.calls
    kind, direction = Kind(int(calls.kind[number])), Direction(int(calls.direction[number]))
    return Name(kind, calls.stems[calls.stem[number]], direction, int(calls.call[number]))


def _turned_backward(entries: Entries) -> Int:
    """The backward call of each forward module, -1 without and of others; one more for the root."""
    calls = entries.calls
    turns = calls.is_module & (calls.direction == Direction.FORWARD)
    return np.append(np.where(turns, calls.twin, -1), -1)


def _repair_backward(entries: Entries) -> None:
    """Place backward calls where their forward twins were.

    A backward call without parent goes below the backward call of its forward twin's parent.
    A backward module below a module that does not enclose it on the path (the backward hook of
    an in-place module never fires, so that module stays open) is moved the same way, and so is
    a backward API below a module outside that of its forward twin or of another micro-step.
    """
    calls, parent, steps = entries.calls, entries.parent, entries.micro_step
    stem, stems = calls.stem, calls.stems
    child = np.flatnonzero(calls.direction == Direction.BACKWARD)
    twin = calls.twin[child]
    has_twin = twin >= 0
    around = np.where(has_twin, parent[twin], -1)
    found, own = _turned_backward(entries)[around], parent[child]
    result = np.where((own < 0) & (found >= 0), found, own)

    apis = np.flatnonzero(
        (own >= 0) & has_twin & calls.is_api[child] & (found >= 0) & (found != own)
    )
    moves = ~_of_pairs(
        stem[found[apis]], stem[own[apis]], lambda one, two: _related(one, two, stems)
    )
    if steps is not None:
        moves |= steps[child[apis]] != steps[own[apis]]
    result[apis[moves]] = found[apis[moves]]

    modules = np.flatnonzero((own >= 0) & has_twin & ~calls.is_api[child])
    moves = _of_pairs(
        stem[child[modules]], stem[own[modules]], lambda one, two: _is_apart(one, two, stems)
    )
    modules = modules[moves]
    moved = np.where(found[modules] >= 0, found[modules], own[modules])
    result[modules] = np.where(around[modules] < 0, -1, moved)
    parent[child] = result


def _of_pairs(one: Int, other: Int, is_so: Callable[[int, int], bool]) -> Bool:
    """What is so of each pair of stems, asked once of each."""
    keys, place = np.unique(one << 32 | other, return_inverse=True)
    several = [is_so(key >> 32, key & 0xFFFFFFFF) for key in keys.tolist()]
    return np.array(several, dtype=bool)[place]


def _related(one: int, other: int, stems: list[str]) -> bool:
    """Whether the path of one module holds that of the other."""
    paths = sorted((module_path(stems[one]), module_path(stems[other])), key=len)
    return paths[1] == paths[0] or paths[1].startswith(f"{paths[0]}.")


def _is_apart(module: int, around: int, stems: list[str]) -> bool:
    """Whether a module has a path that what it stands in does not end with."""
    scope = module_path(stems[module]).rpartition(".")[0]
    return bool(scope) and scope != module_path(stems[around])


def _rehang_recomputed(entries: Entries) -> None:
    """Place forward calls recomputed during backward below the backward call that needed them.

    Moved are calls that the collector marked as recomputed and that stand at the root, or in
    another layer whose backward was still open: the k-th recomputed call of a module belongs to
    its k-th original call. Their backward calls follow them.
    """
    if not entries.recomputed.any():
        return
    calls = entries.calls
    turned, twin = _turned_backward(entries).tolist(), calls.twin.tolist()
    parent, stem = entries.parent.tolist(), calls.stem.tolist()
    is_forward = calls.is_module & (calls.direction == Direction.FORWARD)
    recomputed = (entries.recomputed & is_forward).tolist()

    def is_misplaced(call: int) -> bool:
        """Whether a call stands at the root or in another layer: paths part at a number."""
        above = parent[call]
        if above < 0:
            return True
        paths = (module_path(calls.stems[stem[one]]).split(".") for one in (call, above))
        parting = next((pair for pair in zip(*paths, strict=False) if pair[0] != pair[1]), None)
        return parting is not None and parting[0].isdigit() and parting[1].isdigit()

    def is_below(call: int, other: int) -> bool:
        seen = set()
        above = parent[call]
        while above >= 0 and above not in seen:
            seen.add(above)
            above = parent[above]
        return other in seen

    forward = np.flatnonzero(is_forward).tolist()
    originals: dict[int, list[int]] = {}
    for call in forward:
        if not recomputed[call]:
            originals.setdefault(stem[call], []).append(call)
    taken: dict[int, int] = {}
    for call in forward:
        if not recomputed[call] or (parent[call] >= 0 and recomputed[parent[call]]):
            continue
        position = taken[stem[call]] = taken.get(stem[call], -1) + 1
        first = originals.get(stem[call], ())
        if not is_misplaced(call) or position >= len(first):
            continue
        target, backward = turned[parent[first[position]]], twin[call]
        if target < 0 or target == backward or is_below(target, call):
            continue
        parent[call] = target
        if backward >= 0 and is_misplaced(backward):
            parent[backward] = target
    entries.parent[:] = parent


def _break_cycles(entries: Entries) -> list[Diagnostic]:
    """Cut each cycle at its first call, which becomes a child of the root."""
    if _all_below_the_root(entries.parent):
        return []
    parents = entries.parent.tolist()
    safe: set[int] = set()
    cut = []
    for start, above in enumerate(parents):
        if above < 0 or above in safe:
            safe.add(start)
            continue
        trail: dict[int, None] = {}
        call = start
        while call >= 0 and call not in safe and call not in trail:
            trail[call] = None
            call = parents[call]
        if call in trail:
            chain = list(trail)
            first = min(chain[chain.index(call) :])
            parents[first] = -1
            cut.append(first)
        safe.update(trail)
    entries.parent[:] = parents
    return about(
        "warning",
        "cycle",
        [entries.names[call] for call in cut],
        fact("note.cycles_cut"),
    )


def _all_below_the_root(parent: Int) -> bool:
    """Whether the way up ends at the root from everywhere."""
    if (parent < np.arange(len(parent))).all():  # each stands behind what it is in
        return True
    root = len(parent)
    above = np.append(np.where(parent < 0, root, parent), root)
    for _ in range(root.bit_length()):  # twice as far each time
        above = above[above]
    return bool((above == root).all())


def _hang_gradients(entries: Entries) -> list[Diagnostic]:
    """Add parameter gradients as last children of the module's last backward call."""
    if not entries.gradients:
        return []
    calls = entries.calls
    several = np.flatnonzero(calls.is_module & (calls.direction == Direction.BACKWARD))
    of_stem: dict[int, dict[int, int]] = {}  # backward calls
    for entry, number, call in zip(
        several.tolist(), calls.stem[several].tolist(), calls.call[several].tolist(), strict=True
    ):
        of_stem.setdefault(number, {})[call] = entry
    backward = {calls.stems[number]: own for number, own in of_stem.items()}
    last = {stem: own[max(own)] for stem, own in backward.items()}
    by_path = {module_path(stem): entry for stem, entry in last.items()}
    homeless = []
    for record in range(len(entries) - entries.gradients, len(entries)):
        found = parse_gradients(entries.names[record])
        assert found is not None
        stem, call = found
        if stem in backward:
            own = backward[stem]
            entries.parent[record] = own.get(-1 if call is None else call, last[stem])
            continue
        entries.parent[record] = _enclosing(stem, by_path)
        homeless.append(entries.names[record])
    return about(
        "info",
        "gradient_without_backward",
        homeless,
        fact("note.gradients_placed"),
    )


def _enclosing(stem: str, by_path: dict[str, int]) -> int:
    path = module_path(stem)
    while "." in path:
        path = path.rpartition(".")[0]
        if path in by_path:
            return by_path[path]
    return -1

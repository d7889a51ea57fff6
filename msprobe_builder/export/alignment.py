"""What automatic matching did, in one sentence."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.read.cells import text

_MOST = 0.9  # share of the modules that a common change of names holds for
_SHOWN = 3  # names of wrappers that are named

Path = tuple[str, ...]


def alignment_sentence(connection: sqlite3.Connection) -> str:
    """How the names differ, how much was matched, and by what; empty where names were enough."""
    [[matched, found]] = connection.execute("SELECT count(*), count(evidence) FROM match")
    [[groups]] = connection.execute("SELECT count(*) FROM call_group")
    if not found and not groups:
        return ""
    [[nodes]] = connection.execute("SELECT sum(node_count) FROM graph WHERE side = 0")
    parts = [_names(_matched_modules(connection))]
    counts = f"{100 * matched / nodes:.1f} % matched"
    if found:
        counts += f", {found:,} by evidence alone"
    if groups:
        [[members]] = connection.execute(
            "SELECT count(*) FROM group_member JOIN node USING (node_id)"
            " JOIN graph USING (graph_id) WHERE side = 0"
        )
        counts += f", {members:,} more in {groups:,} group{'s' if groups > 1 else ''}"
    return "; ".join([*filter(None, parts), counts])


def _matched_modules(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Distinct names without calls of the modules that were matched in the first graph."""
    rows = connection.execute(
        "SELECT DISTINCT own.value, other.value FROM graph"
        " JOIN node AS npu ON npu.graph_id = graph.graph_id AND npu.kind = ?"
        "  AND npu.direction = ?"
        " JOIN match ON npu_node = npu.node_id JOIN node AS bench ON bench.node_id = bench_node"
        " JOIN text AS own ON own.text_id = npu.stem_id"
        " JOIN text AS other ON other.text_id = bench.stem_id"
        " WHERE graph.graph_id = (SELECT graph_id FROM graph WHERE side = 0"
        "  ORDER BY step, rank LIMIT 1)",
        (int(Kind.MODULE), int(Direction.FORWARD)),
    )
    return {(text(own), text(other)) for own, other in rows}


def _names(modules: set[tuple[str, str]]) -> str:
    """How the names of matched modules differ; empty where they do not."""
    pairs = {(_split(own), _split(other)) for own, other in modules}
    paths = {(mine[0], theirs[0]) for mine, theirs in pairs}
    said = _in_front(paths) or _in_between(paths) or _attributes(paths)
    classes = {(mine[1], theirs[1]) for mine, theirs in pairs if mine[1] != theirs[1]}
    if classes:
        said.append(
            f"{len(classes):,} class{'es have' if len(classes) > 1 else ' has'} other names"
        )
    return ", ".join(said)


def _split(stem: str) -> tuple[Path, str]:
    """The path of a module, and its class."""
    _, *parts = stem.split(".")
    return tuple(parts[:-1]), parts[-1] if parts else ""


def _in_front(paths: set[tuple[Path, Path]]) -> list[str]:
    """What all names of one side have in front of those of the other."""
    for side, both in (("npu", paths), ("bench", {(one, other) for other, one in paths})):
        front = Counter(
            long[: len(long) - len(short)]
            for long, short in both
            if len(long) > len(short) and long[len(long) - len(short) :] == short
        )
        if front:
            prefix, times = front.most_common(1)[0]
            if times >= _MOST * len(paths):
                return [f"the {side} names have `{'.'.join(prefix)}.` in front"]
    return []


def _in_between(paths: set[tuple[Path, Path]]) -> list[str]:
    """What the names of one side have that those of the other leave out."""
    said = []
    for side, both in (("npu", paths), ("bench", {(one, other) for other, one in paths})):
        more: Counter[str] = Counter()
        fitting = 0
        for long, short in both:
            left_out = _left_out(long, short)
            if left_out is not None:
                fitting += 1
                more.update(set(left_out))
        if more and fitting >= _MOST * len(paths):
            names = [f"`{name}`" for name, _ in more.most_common(_SHOWN)]
            said.append(f"the {side} names have {_listed(names)} in between")
    return said


def _left_out(long: Path, short: Path) -> list[str] | None:
    """The parts that make one path of the other; None where they are no such paths."""
    result = []
    rest = list(short)
    for part in long:
        if rest and rest[0] == part:
            rest.pop(0)
        else:
            result.append(part)
    return None if rest else result


def _attributes(paths: Iterable[tuple[Path, Path]]) -> list[str]:
    """How many last parts of names differ."""
    differing = {
        (own[-1], other[-1]) for own, other in paths if own and other and own[-1] != other[-1]
    }
    if not differing:
        return []
    return [f"{len(differing):,} attribute{'s have' if len(differing) > 1 else ' has'} other names"]


def _listed(names: list[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])

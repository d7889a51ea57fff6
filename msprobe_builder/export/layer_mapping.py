"""Writing the matched modules of a database as a layer mapping file, to read, correct and use."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from msprobe_builder.base.codes import Kind
from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.database.read.matches import matched_names
from msprobe_builder.dump.names import parse_name
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.match.places import Path as LayerPath
from msprobe_builder.match.places import class_of, place_of
from msprobe_builder.match.rules import TOP_LAYER


def write_mapping(connection: sqlite3.Connection, file: Path) -> int:
    """Write the layers that have other paths on the two sides; returns how many rules there are.

    UsageError when the file exists, BuildError when it cannot be written.
    """
    rules = mapping_rules(connection)
    lines = [f"# {tell(one)}\n" for one in (fact("mapping.head"), fact("mapping.use"))]
    for owner, translations in rules.items():
        lines.append(f"{_quoted(owner)}:\n")
        lines += [f"  {_quoted(npu)}: {_quoted(bench)}\n" for npu, bench in translations.items()]
    if os.path.lexists(file):
        raise UsageError(f"{file} exists already; give --write-mapping another name.")
    with written(file, overwrite=False) as output:
        output.write("".join(lines).encode())
    return sum(map(len, rules.values()))


def mapping_rules(connection: sqlite3.Connection) -> dict[str, dict[str, str]]:
    """By class of npu modules: paths below them on the npu side and on the bench side."""
    partner, classes = _layers(connection)
    wanted: dict[str, dict[LayerPath, set[LayerPath]]] = defaultdict(lambda: defaultdict(set))
    places: dict[tuple[str, LayerPath], list[LayerPath]] = defaultdict(list)
    for path, other in partner.items():
        owner, npu, bench = _relative(path, other, partner, classes)
        wanted[owner][npu].add(bench)
        places[owner, npu].append(path)
    result: dict[str, dict[str, str]] = defaultdict(dict)
    for owner, translations in wanted.items():
        for npu, all_bench in translations.items():
            [bench, *others] = sorted(all_bench)
            if not others:
                if npu != bench:
                    result[owner][".".join(npu)] = ".".join(bench)
                continue
            # Modules of one class that differ: each is told from the top.
            for path in places[owner, npu]:
                result[TOP_LAYER][".".join(path)] = ".".join(partner[path])
    return dict(sorted(result.items(), key=lambda item: (item[0] != TOP_LAYER, item[0])))


def _layers(
    connection: sqlite3.Connection,
) -> tuple[dict[LayerPath, LayerPath], dict[LayerPath, str]]:
    """The bench path of each npu path that most of its calls are matched with, and its class."""
    votes: dict[LayerPath, Counter[LayerPath]] = defaultdict(Counter)
    classes: dict[LayerPath, str] = {}
    for name, matched in matched_names(connection, Kind.MODULE):
        parsed = parse_name(name)
        npu, bench = place_of(parsed), place_of(parse_name(matched))
        if npu is None or bench is None or not npu.path or not bench.path:
            continue
        votes[npu.path][bench.path] += 1
        if npu.direction:
            classes.setdefault(npu.path, class_of(parsed))
    return {path: found.most_common(1)[0][0] for path, found in votes.items()}, classes


def _relative(
    path: LayerPath,
    other: LayerPath,
    partner: dict[LayerPath, LayerPath],
    classes: dict[LayerPath, str],
) -> tuple[str, LayerPath, LayerPath]:
    """Class of the nearest module around, and the two paths below it; indexes at the end go."""
    for above in _above(path):
        around = partner.get(above, ())
        if around and above in classes and other[: len(around)] == around != other:
            return classes[above], *_without_indexes(path[len(above) :], other[len(around) :])
    return TOP_LAYER, *_without_indexes(path, other)


def _above(path: LayerPath) -> Iterator[LayerPath]:
    for end in range(len(path) - 1, 0, -1):
        yield path[:end]


def _without_indexes(npu: LayerPath, bench: LayerPath) -> tuple[LayerPath, LayerPath]:
    """``layers.0`` and ``blocks.0`` is ``layers`` and ``blocks``."""
    while len(npu) > 1 and len(bench) > 1 and npu[-1] == bench[-1] and npu[-1].isdigit():
        npu, bench = npu[:-1], bench[:-1]
    return npu, bench


def _quoted(text: str) -> str:
    """Plain where YAML reads it as text, else in quotes, as JSON writes it."""
    plain = text.replace("_", "a").replace(".", "a")
    is_plain = plain.isascii() and plain.isalnum() and text[0].isalpha()
    return text if is_plain and text.lower() not in _NO_TEXTS else json.dumps(text)


_NO_TEXTS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})

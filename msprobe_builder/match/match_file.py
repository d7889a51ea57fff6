"""Match files: pairs of nodes that a person chose."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.printable import printable
from msprobe_builder.base.texts import is_text
from msprobe_builder.facts.fact import fact
from msprobe_builder.files.text_files import distinct_keys, read_text_file
from msprobe_builder.graph.tree import Tree

Int = NDArray[np.int64]

_VERSION = 1
_HIGHEST = 2**32 - 1  # step or rank, as far as the viewer counts
_KEYS = {"npu", "bench", "step", "rank"}


@dataclass(frozen=True)
class ChosenPair:
    """Two nodes by name; without step or rank the pair holds for all of them.

    A pair that is ``rejected`` must not be matched.
    """

    npu: str
    bench: str
    step: int | None = None
    rank: int | None = None
    rejected: bool = False


def read_match_file(file: Path) -> list[ChosenPair]:
    """Read pairs in either form; raises UsageError naming file, place and remedy.

    The forms are ``{"version": 1, "matches": [{"npu": …, "bench": …}, …], "rejected": [like
    these]}``, either key of which may be missing, and the flat
    ``{"npu name": "bench name", …}`` of the reference tool's ``.vis.config`` files.
    """
    text = read_text_file(file, "give the path of a match file")
    return parse_match_file(text, str(file))


def parse_match_file(text: str, file: str) -> list[ChosenPair]:
    """The same of a text that is at hand; ``file`` is what errors call it."""
    try:
        content = json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=partial(distinct_keys, file)
        )
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"{file} is not valid JSON{where}; correct it there.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{file} must hold a JSON object with the key 'matches'.")
    if not content.keys() & {"version", "matches", "rejected"}:
        return [
            _chosen(file, printable(name), {"npu": name, "bench": content[name]})
            for name in content
        ]
    if content.get("version") != _VERSION:
        raise UsageError(f"{file}: 'version' must be {_VERSION}; other versions are not known.")
    chosen = []
    for key in ("matches", "rejected"):
        entries = content.get(key, [])
        if not isinstance(entries, list):
            raise UsageError(f"{file}: '{key}' must be a list of objects with 'npu' and 'bench'.")
        for index, entry in enumerate(entries):
            one = _chosen(file, f"{key}[{index}]", entry)
            chosen.append(replace(one, rejected=key == "rejected"))
    return chosen


def _chosen(file: str, where: str, entry: Any) -> ChosenPair:
    if not isinstance(entry, dict) or not entry.keys() <= _KEYS:
        raise UsageError(
            f"{file}: {where} must be an object with 'npu', 'bench' and, if wanted, "
            "'step' and 'rank'."
        )
    npu, bench, step, rank = (entry.get(key) for key in ("npu", "bench", "step", "rank"))
    if not isinstance(npu, str) or not isinstance(bench, str):
        raise UsageError(f"{file}: {where} must name a node of each side as text.")
    for name in (npu, bench):
        if not is_text(name):
            raise UsageError(f"{file}: {where} names a node with half a character; correct it.")
    for number in (step, rank):
        if number is not None and (type(number) is not int or not 0 <= number <= _HIGHEST):
            raise UsageError(
                f"{file}: 'step' and 'rank' of {where} must be whole numbers from 0 to {_HIGHEST}."
            )
    return ChosenPair(npu, bench, step, rank)


def as_known(
    pair: ChosenPair, is_npu: Callable[[str], bool], is_bench: Callable[[str], bool]
) -> tuple[str, str, bool]:
    """Names of the npu and bench node, and whether the pair was given the other way round.

    It is when its names are only known the other way round: old files hold such.
    """
    straight = is_npu(pair.npu) or is_bench(pair.bench)
    if not straight and is_npu(pair.bench) and is_bench(pair.npu):
        return pair.bench, pair.npu, True
    return pair.npu, pair.bench, False


def _of(pairs: list[ChosenPair], step: int, rank: int) -> list[ChosenPair]:
    return [pair for pair in pairs if pair.step in (None, step) and pair.rank in (None, rank)]


def rejected_pairs(
    pairs: list[ChosenPair], npu: Tree, bench: Tree, step: int, rank: int
) -> list[tuple[int, int]]:
    """The nodes of pairs that must not be matched, as far as both sides have them."""
    rejected = [pair for pair in _of(pairs, step, rank) if pair.rejected]
    if not rejected:
        return []
    left = {name: node for node, name in enumerate(npu.names)}
    right = {name: node for node, name in enumerate(bench.names)}
    named = [as_known(pair, left.__contains__, right.__contains__) for pair in rejected]
    return [(left[i], right[j]) for i, j, _ in named if i in left and j in right]


def apply_pairs(
    pairs: list[ChosenPair], npu: Tree, bench: Tree, step: int, rank: int
) -> tuple[Int, list[Diagnostic]]:
    """Partner of each npu node as chosen, -1 elsewhere, and what could not be applied."""
    partner = np.full(len(npu), -1, dtype=np.int64)
    found: list[Diagnostic] = []
    chosen = [pair for pair in _of(pairs, step, rank) if not pair.rejected]
    if not chosen:
        return partner, found
    left = {name: node for node, name in enumerate(npu.names)}
    right = {name: node for node, name in enumerate(bench.names)}
    taken: dict[int, str] = {}
    for pair in chosen:
        first, second, _ = as_known(pair, left.__contains__, right.__contains__)
        i, j = left.get(first, -1), right.get(second, -1)
        if i < 0:
            problem = fact("match_problem.no_npu_node")
        elif j < 0:
            problem = fact("match_problem.no_bench_node", name=second)
        elif (i == 0) != (j == 0):
            problem = fact("match_problem.root", name=second if i == 0 else first)
        elif partner[i] >= 0:
            problem = fact("match_problem.node_taken", name=bench.names[partner[i]])
        elif j in taken:
            problem = fact("match_problem.partner_taken", name=second, other=taken[j])
        else:
            partner[i], taken[j] = j, first
            continue
        message = fact("note.match_not_applied", name=second, why=problem)
        found.append(Diagnostic("warning", "match_not_applied", message, first))
    return partner, found

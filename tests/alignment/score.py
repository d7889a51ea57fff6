"""Right, wrong and alone: an alignment against the truth."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import yaml

from msprobe_builder.align.settled import align_rest
from msprobe_builder.base.options import DEFAULT_OPTIONS, BuildOptions
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import Source
from msprobe_builder.graph.side import Side
from msprobe_builder.match.choose import match_nodes
from msprobe_builder.match.matching import Matching
from msprobe_builder.pipeline.compare import read_rank

T = TypeVar("T")
_DIGITS = 4  # of sums that are made in another order
_MISSES = Path(__file__).with_name("misses.yaml")


@dataclass(frozen=True)
class Score:
    """Counts of calls that have a right partner; ``wrong`` also has those that have none."""

    right: int
    wrong: tuple[tuple[str, str, str | None], ...]  # npu, partner, right partner
    alone: tuple[str, ...]
    total: int


def misses(kind: str) -> dict[str, Any]:
    """What is known to fail of one kind of pairs, in tests/alignment/misses.yaml."""
    known: dict[str, dict[str, Any]] = yaml.safe_load(_MISSES.read_text(encoding="utf-8"))
    return known[kind]


def partners(npu: Source, bench: Source, options: BuildOptions = DEFAULT_OPTIONS) -> dict[str, str]:
    """Partner of each node by name, as a build would find it."""
    left, right, matching = matched(npu, bench, options)
    return {
        left.tree.names[node]: right.tree.names[matching.npu[node]]
        for node in np.flatnonzero(matching.npu >= 0).tolist()
    }


def said(npu: Source, bench: Source, *, is_turned: bool = False) -> set[tuple[object, ...]]:
    """All that is told of pairs, groups and likely partners, or with the sides exchanged.

    By names: what made a pair and how sure it is, who is in a group, and how likely a partner is.
    """
    left, right, matching = matched(npu, bench, DEFAULT_OPTIONS)
    names = left.tree.names, right.tree.names
    found: set[tuple[object, ...]] = set()
    for node in np.flatnonzero(matching.npu >= 0).tolist():
        pair = names[0][node], names[1][matching.npu[node]]
        certainty = f"{matching.certainty[node]:.{_DIGITS}f}"
        found.add(("pair", *_turned(pair, is_turned), int(matching.evidence[node]), certainty))
    for group in matching.groups:
        members = (
            frozenset(names[0][node] for node in group.npu),
            frozenset(names[1][node] for node in group.bench),
        )
        found.add(("group", *_turned(members, is_turned)))
    for side, likely in enumerate((matching.npu_likely, matching.bench_likely)):
        columns = likely.node, likely.candidate, likely.likelihood
        for node, other, likelihood in zip(*(one.tolist() for one in columns), strict=True):
            label = side != is_turned, names[side][node], names[1 - side][other]
            found.add(("likely", *label, f"{likelihood:.{_DIGITS}f}"))
    return found


def _turned(pair: tuple[T, T], is_turned: bool) -> tuple[T, T]:
    return pair[::-1] if is_turned else pair


def matched(npu: Source, bench: Source, options: BuildOptions) -> tuple[Side, Side, Matching]:
    """Both sides and how a build would match them."""
    texts = Texts()
    (left, _), (right, _) = map(partial(read_rank, texts=texts), (npu, bench))
    align = None if options.exact else align_rest
    matching, _ = match_nodes(left, right, options, texts, align=align)
    return left, right, matching


def score(found: dict[str, str], right: dict[str, str], added: set[str]) -> Score:
    """Judge what was found; ``added`` must have no partner."""
    wrong: list[tuple[str, str, str | None]] = [
        (name, found[name], None) for name in added if name in found
    ]
    wrong += [
        (name, found[name], other)
        for name, other in right.items()
        if name in found and found[name] != other
    ]
    return Score(
        sum(found.get(name) == other for name, other in right.items()),
        tuple(wrong),
        tuple(name for name in right if name not in found),
        len(right),
    )

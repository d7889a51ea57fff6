"""What a person asked for in files: pairs, chosen or rejected, and names that mean the same."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.side import Side
from msprobe_builder.match.match_file import apply_pairs, read_match_file, rejected_pairs
from msprobe_builder.match.matching import ValuePair
from msprobe_builder.match.renaming import read_renaming, renamed_pairs, value_pairs
from msprobe_builder.match.rules import read_rules


class Wishes(NamedTuple):
    """Nodes that are to be partners, -1 without, and values; nodes that are to be none."""

    fixed: NDArray[np.int64]
    values: tuple[ValuePair, ...]
    rejected: list[tuple[int, int]]
    diagnostics: list[Diagnostic]


def check_files(options: BuildOptions) -> None:
    """Read all files; raises UsageError when one cannot be used."""
    if options.layer_mapping_file is not None:
        read_rules(options.layer_mapping_file)
    if options.match_file is not None:
        read_match_file(options.match_file)
    read_renaming(options)


def unused_pairs(file: Path, places: list[tuple[int, int]]) -> list[Diagnostic]:
    """Pairs of the match file for a step or rank that is not compared."""
    left_out = [
        f"step {_any(pair.step)}, rank {_any(pair.rank)}: {pair.npu}"
        for pair in read_match_file(file)
        if not any(pair.step in (None, step) and pair.rank in (None, rank) for step, rank in places)
    ]
    message = fact("note.match_not_compared")
    return about("warning", "match_not_applied", left_out, message)


def read_wishes(options: BuildOptions, npu: Side, bench: Side, step: int, rank: int) -> Wishes:
    """Those that concern a step and rank; raises UsageError when a file cannot be used."""
    trees = npu.tree, bench.tree
    fixed = np.full(len(npu.tree), -1, dtype=np.int64)
    diagnostics: list[Diagnostic] = []
    chosen = [] if options.match_file is None else read_match_file(options.match_file)
    renaming = read_renaming(options)
    values: tuple[ValuePair, ...] = ()
    if renaming is not None:
        chosen += renamed_pairs(renaming, *trees)
        values = tuple(value_pairs(renaming, npu.tree))
    if chosen:
        fixed, diagnostics = apply_pairs(chosen, *trees, step, rank)
    return Wishes(fixed, values, rejected_pairs(chosen, *trees, step, rank), diagnostics)


def _any(number: int | None) -> str:
    return "any" if number is None else str(number)

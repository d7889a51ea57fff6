"""Matching two sides by the rule the user chose."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Source
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import MODULES, Kind
from msprobe_builder.dump.task import framework_of
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.calls import Tokens, operations
from msprobe_builder.match.exact import match_exact, namesakes
from msprobe_builder.match.explain import Demands, Found, explain
from msprobe_builder.match.matching import Alignment, Group, Matching, ValuePair, inverse
from msprobe_builder.match.nearest import View
from msprobe_builder.match.outline import Outline, outline_of
from msprobe_builder.operators.table import operator_of

Int = NDArray[np.int64]

_EXACT = Demands(path=True, counts=True, types=True, shapes=True)
_FUZZY = Demands(path=False, counts=True, types=False, shapes=True)
_MAPPING = Demands(path=False, counts=False, types=False, shapes=False)


def check_files(options: BuildOptions) -> None:
    """Read the files that matching needs; raises UsageError when one cannot be used."""
    if _has_wishes(options):
        from msprobe_builder.match.wishes import check_files as check

        check(options)


def unused_pairs(options: BuildOptions, places: list[tuple[int, int]]) -> list[Diagnostic]:
    """Pairs of the match file for a step or rank that is not compared."""
    if options.match_file is None:
        return []
    from msprobe_builder.match.wishes import unused_pairs as unused

    return unused(options.match_file, places)


def _has_wishes(options: BuildOptions) -> bool:
    """Whether somebody asked for more than a rule; what reads that is not loaded for nobody."""
    files = options.layer_mapping_file, options.match_file, options.data_mapping_file
    return any(files) or options.cell_mapping or options.api_mapping


def match_nodes(
    npu: Side,
    bench: Side,
    options: BuildOptions,
    texts: Texts,
    *,
    step: int = 0,
    rank: int = 0,
    align: Align | None = None,
) -> tuple[Matching, list[Diagnostic]]:
    """Match the nodes of two sides one to one, and say why the others have no partner.

    Matches of the match file are set first; the rule fills in around them, and ``align`` what
    the rule leaves over; pairs that the file rejects stay grey, and groups that hold both nodes
    of one. Raises UsageError when the layer mapping file or the match file cannot be used.
    """
    left, right = outline_of(npu.tree, npu.table), outline_of(bench.tree, bench.table)
    fixed = np.full(len(left), -1, dtype=np.int64)
    diagnostics: list[Diagnostic] = []
    values: tuple[ValuePair, ...] = ()
    unwanted: list[tuple[int, int]] = []
    if _has_wishes(options):
        from msprobe_builder.match.wishes import read_wishes

        fixed, values, unwanted, diagnostics = read_wishes(options, npu, bench, step, rank)
    namesake = namesakes(left, right)
    known = _Known(left, right, namesake, fixed, match_exact(left, right, namesake, fixed))
    if options.layer_mapping or options.layer_mapping_file is not None:
        operation = operations(
            left, right, _operator if _across_frameworks(npu, bench, texts) else None
        )
        outcome = _by_layer(known, operation, options.layer_mapping_file)
    else:
        operation = operations(left, right, None)
        outcome = _by_name(known, operation, options.fuzzy_match)
    partner = outcome.partner
    evidence, certainty = np.zeros(len(left), dtype=np.int64), np.zeros(len(left))
    aligned = Alignment(partner, evidence, certainty)
    if align is not None:
        # What a person asked for stays; equal names give way to evidence, and so does the order in
        # which a mapping of layers pairs the calls inside: nobody asked for that. Their collections
        # follow from the calls.
        asked = (fixed >= 0) if outcome.source is Source.EXACT else partner >= 0
        if outcome.source is Source.MAPPING:
            asked &= (fixed >= 0) | outcome.is_named  # type: ignore[operator]
            partner = np.where(asked | (left.kind == Kind.API), partner, -1)
        aligned = align(npu, bench, left, right, partner, asked, texts)
        partner, evidence, certainty = aligned.partner, aligned.evidence, aligned.certainty
    for i, j in unwanted:
        if partner[i] == j and fixed[i] < 0:
            partner[i], evidence[i], certainty[i] = -1, 0, 0.0
    groups, ended = _without_rejected(aligned.groups, set(unwanted))
    # Of a group that was rejected each call says so, as when it is rejected in a database.
    npu_rejected = [*unwanted, *((i, one.bench[0]) for one in ended for i in one.npu)]
    bench_rejected = [(j, i) for i, j in unwanted]
    bench_rejected += [(j, one.npu[0]) for one in ended for j in one.bench]
    apart = _of_other_cuts(npu, bench) & (fixed < 0)
    partner[apart], evidence[apart], certainty[apart] = -1, 0, 0.0
    back = inverse(partner, len(right))
    source = np.where(partner == known.exact, Source.EXACT, outcome.source)
    source[(evidence > 0) & (partner != known.exact)] = Source.AUTOMATIC
    matching = Matching(
        npu=partner,
        bench=back,
        source=np.where(fixed >= 0, Source.FILE, source).astype(np.int64),
        evidence=evidence,
        certainty=certainty,
        values=values,
        groups=groups,
        npu_likely=aligned.npu_likely,
        bench_likely=aligned.bench_likely,
        npu_unmatched=explain(
            View(left, right, partner, back, *operation),
            outcome.wanted,
            namesake,
            fixed,
            outcome.demands,
            texts,
            Found(aligned.npu_likely, [(one.npu, one.bench) for one in groups], npu_rejected),
        ),
        bench_unmatched=explain(
            View(right, left, back, partner, *reversed(operation)),
            inverse(outcome.wanted, len(right)),
            inverse(namesake, len(right)),
            inverse(fixed, len(right)),
            outcome.demands,
            texts,
            Found(aligned.bench_likely, [(one.bench, one.npu) for one in groups], bench_rejected),
        ),
    )
    return matching, diagnostics + outcome.diagnostics


def _without_rejected(
    groups: tuple[Group, ...], rejected: set[tuple[int, int]]
) -> tuple[tuple[Group, ...], list[Group]]:
    """The groups that stand, and those of which a person rejected a call of each side."""
    standing: list[Group] = []
    ended: list[Group] = []
    for one in groups:
        is_rejected = rejected and any((i, j) in rejected for i in one.npu for j in one.bench)
        (ended if is_rejected else standing).append(one)
    return tuple(standing), ended


class Align(Protocol):
    """Completes the partners of the npu side; pairs that were asked for stay."""

    def __call__(
        self,
        npu: Side,
        bench: Side,
        outline: Outline,
        other_outline: Outline,
        partner: Int,
        asked: NDArray[np.bool_],
        texts: Texts,
    ) -> Alignment: ...


class _Known(NamedTuple):
    """What every rule starts from, as columns of npu nodes."""

    npu: Outline
    bench: Outline
    namesake: Int
    fixed: Int  # partners from the match file
    exact: Int  # partners by the default rule around them


class _Outcome(NamedTuple):
    """What a rule came to; ``wanted`` is the partner a node would have but for its demands."""

    partner: Int
    wanted: Int
    source: Source
    demands: Demands
    diagnostics: list[Diagnostic]
    is_named: NDArray[np.bool_] | None = None  # by a rule of a mapping


def _by_name(known: _Known, operation: Tokens, fuzzy: bool) -> _Outcome:
    if not fuzzy:
        return _Outcome(known.exact, known.namesake, Source.EXACT, _EXACT, [])
    from msprobe_builder.match.fuzzy import match_fuzzy

    wanted = np.where(known.npu.kind == Kind.MODULE, known.namesake, -1)
    return _Outcome(match_fuzzy(*known, operation), wanted, Source.FUZZY, _FUZZY, [])


def _by_layer(known: _Known, operation: Tokens, file: Path | None) -> _Outcome:
    from msprobe_builder.match.mapping import match_mapped
    from msprobe_builder.match.mapping_report import report_rules
    from msprobe_builder.match.rules import read_rules

    rules = None if file is None else read_rules(file)
    mapped = match_mapped(*known, operation, rules.rules if rules else ())
    found = report_rules(rules, mapped) if rules else []
    return _Outcome(mapped.partner, mapped.wanted, Source.MAPPING, _MAPPING, found, mapped.is_named)


def _of_other_cuts(npu: Side, bench: Side) -> NDArray[np.bool_]:
    """Calls between ranks that are no counterparts where models are cut at other places."""
    if npu.provenance is None and bench.provenance is None:
        return np.zeros(len(npu.tree), dtype=bool)
    from msprobe_builder.match.between_ranks import of_other_stages, of_other_units

    trees = npu.tree, bench.tree
    return of_other_stages(*trees) | of_other_units(*trees)


def _across_frameworks(npu: Side, bench: Side, texts: Texts) -> bool:
    """Whether the two sides call things differently, as PyTorch and MindSpore do."""
    frameworks = framework_of(npu.dump, texts), framework_of(bench.dump, texts)
    prefixes = _module_prefixes(npu.tree), _module_prefixes(bench.tree)
    if None not in frameworks and (frameworks[0] == "mindspore") != (frameworks[1] == "mindspore"):
        return True
    return all(prefixes) and prefixes[0] != prefixes[1]


def _module_prefixes(tree: Tree) -> set[str]:
    return {stem.partition(".")[0] for stem in tree.calls.stems} & MODULES


def _operator(stem: str) -> str:
    return operator_of(stem).name

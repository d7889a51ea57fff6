"""Matching two sides by the rule the user chose."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.config import BuildOptions
from msprobe_builder.diagnostics import Diagnostic
from msprobe_builder.dump.names import MODULE_PREFIXES, Kind
from msprobe_builder.dump.read import Dump
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.calls import operations
from msprobe_builder.match.exact import match_exact, namesakes
from msprobe_builder.match.explain import Demands, explain
from msprobe_builder.match.fuzzy import match_fuzzy
from msprobe_builder.match.mapping import match_mapped
from msprobe_builder.match.mapping_report import report_rules
from msprobe_builder.match.match_file import apply_pairs, read_match_file
from msprobe_builder.match.matching import Matching, Source, inverse
from msprobe_builder.match.nearest import View
from msprobe_builder.match.places import operator_of
from msprobe_builder.match.rules import read_rules
from msprobe_builder.match.side import side_of
from msprobe_builder.texts import Texts

Int = NDArray[np.int64]

_EXACT = Demands(path=True, counts=True, types=True, shapes=True)
_FUZZY = Demands(path=False, counts=True, types=False, shapes=True)
_MAPPING = Demands(path=False, counts=False, types=False, shapes=False)


_OTHER_FRAMEWORK = Diagnostic(
    "warning",
    "other_framework",
    "The two dumps are of different frameworks, which name things differently; "
    "match them by layer mapping (-lm).",
)


class Graphed(Protocol):
    """What matching needs of one side; both sides share their texts."""

    @property
    def dump(self) -> Dump: ...
    @property
    def tree(self) -> Tree: ...
    @property
    def table(self) -> ParameterTable: ...


def check_files(options: BuildOptions) -> None:
    """Read the files that matching needs; raises UsageError when one cannot be used."""
    if options.layer_mapping_file is not None:
        read_rules(options.layer_mapping_file)
    if options.match_file is not None:
        read_match_file(options.match_file)


def match_nodes(
    npu: Graphed,
    bench: Graphed,
    options: BuildOptions,
    texts: Texts,
    *,
    step: int = 0,
    rank: int = 0,
) -> tuple[Matching, list[Diagnostic]]:
    """Match the nodes of two sides one to one, and say why the others have no partner.

    Matches of the match file are set first; the rule fills in around them. Raises UsageError
    when the layer mapping file or the match file cannot be used.
    """
    left, right = side_of(npu.tree, npu.table), side_of(bench.tree, bench.table)
    fixed = np.full(len(left), -1, dtype=np.int64)
    diagnostics: list[Diagnostic] = []
    if options.match_file is not None:
        chosen = read_match_file(options.match_file)
        fixed, diagnostics = apply_pairs(chosen, npu.tree, bench.tree, step, rank)
    namesake = wanted = namesakes(left, right)
    exact = match_exact(left, right, namesake, fixed)
    across = _across_frameworks(npu, bench)
    operator = None
    if options.layer_mapping or options.layer_mapping_file is not None:
        file = options.layer_mapping_file
        rules = None if file is None else read_rules(file)
        operator = operator_of if across else None
        mapped = match_mapped(
            left, right, namesake, fixed, exact, rules.rules if rules else (), operator
        )
        partner, wanted, source, demands = mapped.partner, mapped.wanted, Source.MAPPING, _MAPPING
        if rules is not None:
            diagnostics += report_rules(rules, mapped)
    elif options.fuzzy_match:
        partner = match_fuzzy(left, right, namesake, fixed, exact)
        wanted = np.where(left.kind == Kind.MODULE, namesake, -1)
        source, demands = Source.FUZZY, _FUZZY
    else:
        partner, source, demands = exact, Source.EXACT, _EXACT
    if across and operator is None:
        diagnostics.append(_OTHER_FRAMEWORK)
    back = inverse(partner, len(right))
    sources = np.where(partner == exact, Source.EXACT, source)
    sources[fixed >= 0] = Source.FILE
    own, other = operations(left, right, operator)
    back_namesake, back_fixed = inverse(namesake, len(right)), inverse(fixed, len(right))
    matching = Matching(
        npu=partner,
        bench=back,
        source=sources.astype(np.int64),
        npu_unmatched=explain(
            View(left, right, partner, back, own, other), wanted, namesake, fixed, demands, texts
        ),
        bench_unmatched=explain(
            View(right, left, back, partner, other, own),
            inverse(wanted, len(right)),
            back_namesake,
            back_fixed,
            demands,
            texts,
        ),
    )
    return matching, diagnostics


def _across_frameworks(npu: Graphed, bench: Graphed) -> bool:
    """Whether the two sides name things differently: PyTorch has Module, MindSpore Cell."""
    known = npu.dump.framework, bench.dump.framework
    prefixes = [_module_prefixes(side.tree) for side in (npu, bench)]
    return (None not in known and known[0] != known[1]) or (
        all(prefixes) and prefixes[0] != prefixes[1]
    )


def _module_prefixes(tree: Tree) -> set[str]:
    return {name.stem.partition(".")[0] for name in tree.parsed} & MODULE_PREFIXES

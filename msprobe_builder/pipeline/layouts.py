"""The layouts of both sides: as declared, or found in the dumps."""

from __future__ import annotations

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.discover import DumpTree
from msprobe_builder.merge.detect import AutoLayout, find_layout
from msprobe_builder.merge.ranks.layout import ParallelLayout
from msprobe_builder.pipeline.compare import read_rank

Layouts = tuple[ParallelLayout, ParallelLayout | None]


def settled_layouts(
    npu: DumpTree,
    bench: DumpTree | None,
    declared: tuple[ParallelLayout | AutoLayout, ParallelLayout | AutoLayout | None],
) -> tuple[Layouts, list[Diagnostic]]:
    """The layout of each side, and what was found where none was declared."""
    found: list[Diagnostic] = []
    left = _settled(npu, 0, declared[0], found)
    right = None
    if bench is not None and declared[1] is not None:
        right = _settled(bench, 1, declared[1], found)
    return (left, right), found


def _settled(
    tree: DumpTree, side: int, layout: ParallelLayout | AutoLayout, found: list[Diagnostic]
) -> ParallelLayout:
    if isinstance(layout, ParallelLayout):
        return layout
    step = min(place.step for place in tree.directories)
    of_step = {
        place.rank: source for place, source in tree.directories.items() if place.step == step
    }
    ranks = dict(zip(range(len(of_step)), [of_step[rank] for rank in sorted(of_step)], strict=True))
    result = find_layout(layout, len(ranks), lambda rank: read_rank(ranks[rank], Texts())[0])
    severity = "info" if result.is_sure else "warning"
    found.append(Diagnostic(severity, "layout_found", result.sentence, side=side))
    return result.layout

"""The layouts of both sides: as declared, or found in the dumps."""

from __future__ import annotations

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.discover import DumpTree
from msprobe_builder.merge.detect import AutoLayout, find_layout
from msprobe_builder.merge.ranks.layout import ParallelLayout
from msprobe_builder.pipeline.compare import read_rank
from msprobe_builder.pipeline.jobs import wrong_ranks

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
    rank_size = len(of_step) if layout.rank_size is None else layout.rank_size
    wrong = wrong_ranks(sorted(of_step), rank_size)
    if wrong:
        name = ("npu_path", "bench_path")[side]
        declared = "" if layout.rank_size is None else f"declares rank_size {rank_size}, but "
        raise BuildError(
            f"{layout.where} {declared or 'is to be found in ranks 0, 1 and so on, but '}{name} "
            f"{tree.root} {wrong} in step {step}; "
            f"{'correct rank_size, or ' if declared else ''}give the directories of all ranks."
        )
    result = find_layout(layout, rank_size, lambda rank: read_rank(of_step[rank], Texts())[0])
    severity = "info" if result.is_sure else "warning"
    found.append(Diagnostic(severity, "layout_found", result.said, side=side))
    return result.layout

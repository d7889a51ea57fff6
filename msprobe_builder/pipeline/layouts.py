"""The layouts of both sides: as declared, or found in the dumps."""

from __future__ import annotations

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.discover import DumpTree
from msprobe_builder.dump.source import Place
from msprobe_builder.facts.fact import fact
from msprobe_builder.merge.detect import AutoLayout, find_layout
from msprobe_builder.merge.flow.context import entering
from msprobe_builder.merge.ranks.layout import ParallelLayout, replicas
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
    if bench is None or right is None or 1 not in (left.dp, right.dp) or left.dp == right.dp:
        return (left, right), found
    joined, diagnostics = _joined_along_batch((npu, bench), (left, right))
    return joined, found + diagnostics


def _joined_along_batch(
    trees: tuple[DumpTree, DumpTree], layouts: tuple[ParallelLayout, ParallelLayout]
) -> tuple[Layouts, list[Diagnostic]]:
    """The layouts with replicas as one model, where each has a part of the other side's batch.

    What enters the model tells. Replicas that all take in as much as the other side are compared
    with it one by one. Raises BuildError where neither holds, as nothing could be compared.
    """
    many = 0 if layouts[0].dp > 1 else 1
    count = layouts[many].dp
    if any(layout.cp > 1 or layout.ep > 1 for layout in layouts):
        return layouts, []
    own, whole = (_entering(trees[side], layouts[side]) for side in (many, 1 - many))
    differ = [
        place for place, sizes in enumerate(zip(own, whole, strict=False)) if len({*sizes}) > 1
    ]
    if not differ or len(own) != len(whole):
        return layouts, []
    names = "npu_path", "bench_path"
    if len(differ) > 1 or own[differ[0]] * count != whole[differ[0]]:
        raise BuildError(
            f"{names[many]} {trees[many].root} has {count} replicas that take in {[*own]} each, "
            f"and {names[1 - many]} {trees[1 - many].root} one that takes in {[*whole]}: that is "
            "not the same batch; record both with the same samples."
        )
    told = fact("note.joined_along_batch", count=count, own=str([*own]), whole=str([*whole]))
    said = Diagnostic("info", "joined_along_batch", told)
    joined = layouts[many].joined_along_batch()
    return (joined, layouts[1]) if many == 0 else (layouts[0], joined), [said.at(side=many)]


def _entering(tree: DumpTree, layout: ParallelLayout) -> tuple[int, ...]:
    """Sizes of what enters the model on the first rank of a side."""
    texts = Texts()
    [rank, *_] = replicas(layout)[0].all_ranks()
    step = min(place.step for place in tree.directories)
    source = tree.directories.get(Place(step, rank))
    if source is None:
        return ()  # told in its own words later
    side = read_rank(source, texts)[0]
    return entering(side.tree, side.table, texts).shape


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
